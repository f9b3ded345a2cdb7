"""The page in place of all others while the store is being opened or waited for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from string import Template
from typing import Final

from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard import theme, web
from dashboard.access import Access, Guard

LOOK_S: Final = 0.1
# It asks anew by itself; what it says holds for a store that is being upgraded, too.
_PAGE: Final = Template("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Servescope</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="2"><link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; }
body { background: $light_back; color: $light_text; font: 1rem/1.5 sans-serif;
    max-width: 40rem; margin: 20vh auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; }
@media (prefers-color-scheme: dark) { body { background: $dark_back; color: $dark_text; } }
</style></head><body><main role="status">
<h1>Waiting for the store.</h1>
<p>Its PostgreSQL server does not answer yet, or the store is being opened. Servescope goes on
trying, and this page comes by itself. Where it was started, its output says what it waits for.</p>
</main></body></html>
""")


def serve(over: threading.Event, sockets: Sequence[socket.socket], access: Access) -> None:
    """Answer at these sockets, which stay open, until the event is set.

    Raises KeyboardInterrupt where a signal ends it, as the server of the pages does.
    """
    server = web.server(Guard(_answer(), access), lifespan="off", grace_s=1)

    def watch() -> None:
        while not server.should_exit:
            if over.wait(LOOK_S):
                server.should_exit = True

    threading.Thread(target=watch, name="waiting", daemon=True).start()
    server.run(sockets=[one.dup() for one in sockets])


def _answer() -> ASGIApp:
    light, dark = theme.page(dark=False), theme.page(dark=True)
    page = _PAGE.substitute(
        light_back=light["backgroundColor"], light_text=light["textColor"],
        dark_back=dark["backgroundColor"], dark_text=dark["textColor"],
    )  # fmt: skip

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1013})
        elif "/_stcore/" in scope["path"]:  # an open page asks there for its server's health
            response = PlainTextResponse("waiting for the store\n", 503, {"Retry-After": "2"})
            await response(scope, receive, send)
        else:
            await HTMLResponse(page, headers={"Cache-Control": "no-store"})(scope, receive, send)

    return answer
