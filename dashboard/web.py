"""The web server of the pages."""

from __future__ import annotations

from typing import Literal

import uvicorn
from starlette.types import ASGIApp


def server(
    app: ASGIApp, *, lifespan: Literal["auto", "off"] = "auto", grace_s: int = 3
) -> uvicorn.Server:
    """A server for this application, to be run at sockets that are open already.

    `grace_s`: for so long an answer under way may take when it is stopped.
    """
    # Who asks is judged by the connection, never by what a header says of it.
    config = uvicorn.Config(
        app, log_level="warning", proxy_headers=False, lifespan=lifespan,
        timeout_graceful_shutdown=grace_s,
    )  # fmt: skip
    return uvicorn.Server(config)
