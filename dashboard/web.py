"""The web server of the pages."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Literal

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import HANDLED_SIGNALS


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, at_signal: Callable[[], object]) -> None:
        super().__init__(config)
        self._at_signal = at_signal

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes, which is raised anew afterwards; one that comes while the
        loop is being made would leave half of it behind, so the handlers are there before it."""
        before = {number: signal.signal(number, self.handle_exit) for number in HANDLED_SIGNALS}
        try:
            super().run(sockets)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        for caught in reversed(self._captured_signals):
            signal.raise_signal(caught)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are caught already."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._at_signal()
        super().handle_exit(sig, frame)


def server(
    app: ASGIApp,
    *,
    lifespan: Literal["auto", "off"] = "auto",
    grace_s: int = 3,
    at_signal: Callable[[], object] = lambda: None,
) -> uvicorn.Server:
    """A server for this application, to be run at sockets that are open already.

    `grace_s`: for so long an answer under way may take when it is stopped; `at_signal`: called
    when a signal stops it, before anything else.
    """
    # Who asks is judged by the connection, never by what a header says of it.
    config = uvicorn.Config(
        app, log_level="warning", proxy_headers=False, lifespan=lifespan,
        timeout_graceful_shutdown=grace_s,
    )  # fmt: skip
    return _Server(config, at_signal)
