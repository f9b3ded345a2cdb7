"""The pages served by this process, over one store after another.

A server of its own for each store costs seconds of start and has the browser read its scripts anew.
Tests of what `servescope up` does start one (tests/server.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from dashboard import context
from dashboard.app import build_app
from data.store import Store
from ingest.supervisor import Supervisor
from tests.server import DEADLINE_S, free_port
from tests.waiting import until

Look = Callable[[Store, Supervisor | None], None]


@contextmanager
def app(store: Store) -> Iterator[tuple[str, Look]]:
    """The address of the pages, and what makes them show another store."""

    def look(other: Store, supervisor: Supervisor | None = None) -> None:
        context.enter(context.Context(other, supervisor or Supervisor(other, [])))

    port = free_port()
    config = uvicorn.Config(
        build_app(store, Supervisor(store, [])), host="127.0.0.1", port=port, log_level="warning",
        timeout_graceful_shutdown=3,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started, DEADLINE_S, "the pages are served")
        yield f"http://127.0.0.1:{port}", look
    finally:
        server.should_exit = True
        thread.join(30)
