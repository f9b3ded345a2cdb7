"""An OpenID Connect provider: signs everybody in as the user that its owner names."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.server import DEADLINE_S, free_port
from tests.waiting import until

CLIENT_ID = "servescope-test"
CLIENT_SECRET = "client-secret-of-the-test"


@dataclass
class Provider:
    """The provider's state; `user` are the claims of whoever comes next."""

    url: str
    user: dict[str, Any]
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "1"}))
    codes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def app(self) -> Starlette:
        """Its four routes."""
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/jwks", self._jwks),
            ]
        )

    async def _metadata(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _authorize(self, request: Request) -> Response:
        asked = request.query_params
        assert asked["client_id"] == CLIENT_ID
        code = secrets.token_hex(8)
        self.codes[code] = {**asked, "claims": self.user}
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 302)

    async def _token(self, request: Request) -> Response:
        form = await request.form()
        asked = self.codes.pop(str(form["code"]))
        proof = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        given = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
        login = request.headers["authorization"].removeprefix("Basic ")
        if given != asked["code_challenge"] or (
            base64.b64decode(login).decode() != f"{CLIENT_ID}:{CLIENT_SECRET}"
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.url, "aud": CLIENT_ID, "sub": "1", "iat": now, "exp": now + 600,
            "nonce": asked["nonce"], **asked["claims"],
        }  # fmt: skip
        token = jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.key)
        return JSONResponse(
            {"access_token": "unused", "token_type": "Bearer", "expires_in": 600, "id_token": token}
        )

    async def _jwks(self, _: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})


@contextmanager
def provider(user: dict[str, Any]) -> Iterator[Provider]:
    """A running provider."""
    port = free_port()
    made = Provider(f"http://127.0.0.1:{port}", user)
    server = uvicorn.Server(
        uvicorn.Config(made.app(), host="127.0.0.1", port=port, log_level="warning")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, DEADLINE_S, "the provider listens")
    try:
        yield made
    finally:
        server.should_exit = True
        thread.join(20)
