"""Who may talk to the server: this machine's own pages only.

Streamlit checks Host and Origin of the WebSocket alone, and to judge a foreign Origin it asks
the internet for this machine's outer address. This guard stands before it, covers every route
and asks nobody. It defends against DNS rebinding and against pages of other sites.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class LocalPagesOnly:
    """ASGI middleware: a foreign Host or Origin is refused with 403."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        reason = refusal(Headers(scope=scope), self._hosts)
        if reason is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse(reason + "\n", status_code=403)(scope, receive, send)
        else:
            await receive()  # the connect message; closing before accepting answers 403
            await send({"type": "websocket.close", "code": 1008, "reason": reason})


def refusal(headers: Headers, hosts: Collection[str]) -> str | None:
    """Why a request with these headers is refused; None when it is welcome."""
    host_header = headers.get("host", "")
    if _host_name(host_header) not in hosts:
        return "refused: open this page as http://localhost or http://127.0.0.1"
    origin = headers.get("origin")
    if origin is not None and _origin_place(origin) != host_header.lower():
        return "refused: the request comes from a page of another site"
    return None


def _host_name(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname if parts.username is None and not parts.path else None
    except ValueError:
        return None


def _origin_place(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") else None
