"""Tells the browser where the server is, so that a page opened by its address finds it at once.

On a visit of /runs Streamlit's page first asks below that address, /runs/_stcore/health, for the
case that a proxy serves it under a prefix; the browser's console then shows two errors before the
next try at the root. Every page of ours is one step below the root, with or without a prefix, and
Streamlit takes the place of its server from `window.__streamlit` where that is set.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard import warm

_SCRIPT: Final = (
    b"<script>window.__streamlit = "
    b"{BACKEND_BASE_URL: new URL('.', window.location.href).href}</script>"
)
_HEAD: Final = b"<head>"
# The answer is changed here, so that it can be neither packed nor known to the browser already.
_UNWANTED: Final = (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")


class PageBase:
    """ASGI middleware: adds the script to Streamlit's one HTML file."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _asks_for_a_page(scope):
            await self._app(scope, receive, send)
            return
        warm.begin()
        headers = [pair for pair in scope["headers"] if pair[0] not in _UNWANTED]
        await self._app({**scope, "headers": headers}, receive, _Rewriter(send))


def _asks_for_a_page(scope: Scope) -> bool:
    wanted = "text/html" in Headers(scope=scope).get("accept", "")
    return scope["method"] == "GET" and wanted


class _Rewriter:
    """Sends an answer on, with the script if it is HTML."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "")
            if message["status"] == 200 and kind.startswith("text/html"):
                self._start = message
                return
        if self._start is None or message["type"] != "http.response.body":
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        body = self._body.replace(_HEAD, _HEAD + _SCRIPT, 1)
        headers = MutableHeaders(scope={"headers": list(self._start["headers"])})
        headers["content-length"] = str(len(body))
        for name in ("etag", "last-modified", "accept-ranges"):
            del headers[name]
        await self._send({**self._start, "headers": headers.raw})
        await self._send({**message, "body": body})
