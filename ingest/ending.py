"""A process that was told to end does so, even if the server of its store stands still."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from data.store import Store
from ingest.terminal import warn

END_S = 15.0  # a commit that PostgreSQL works on is over by then


@contextlib.contextmanager
def deadline(store: Store) -> Iterator[None]:
    """From here on everything must be over soon. Only a store on another machine can keep us: what
    waits for an answer of its server cannot be interrupted. Nothing is lost by going: a commit
    comes whole or not at all, and the next start reads on from there."""
    if not store.is_shared:
        yield
        return
    last = threading.Timer(END_S, _end, [store.name])
    last.daemon = True
    last.start()
    try:
        yield
    finally:
        last.cancel()


def _end(name: str) -> None:
    warn(
        f"{name}: PostgreSQL has not answered for {END_S:g} s; ended without it, the next start "
        "goes on from what is stored"
    )
    os._exit(1)
