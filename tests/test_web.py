"""The web server ends in order whenever a signal comes."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket

import pytest
from starlette.responses import PlainTextResponse

from dashboard import web


def test_a_signal_while_the_loop_is_made_ends_the_server_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    server = web.server(
        PlainTextResponse("here"), lifespan="off", at_signal=lambda: told.append("signal")
    )

    def made() -> asyncio.AbstractEventLoop:
        signal.raise_signal(signal.SIGTERM)
        told.append("loop")
        return asyncio.new_event_loop()

    monkeypatch.setattr(server.config, "get_loop_factory", lambda: made)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with socket.create_server(("127.0.0.1", 0)) as door, pytest.raises(KeyboardInterrupt):
            server.run(sockets=[door])
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
    gc.collect()  # of what was left half done it would be said here
    assert told == ["signal", "loop"]
