"""Who reads a store at this moment, so that it is closed under nobody.

Closing a connection of DuckDB 1.5.5 closes every cursor that was made of it, also one that another
thread is reading from: the memory that it reads is gone, and with it now and then the process.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final, cast

import duckdb

from data.errors import StoreError

_PATIENCE_S: Final = 2.0  # for those who are nearly done; then their questions are ended
_MOST_S: Final = 60.0  # for one who does something else between two questions


class _Cursor:
    """A cursor that tells when it is closed; in all else DuckDB's own."""

    def __init__(self, con: duckdb.DuckDBPyConnection, closed: Callable[[], None]) -> None:
        self._con = con
        self._closed = closed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)

    def __enter__(self) -> _Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._closed()

    def close(self) -> None:
        """Close it."""
        self._con.close()
        self._closed()


class Readers:
    """The cursors that are in use, each with the thread that took it."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._is_over = False
        self._used: dict[object, tuple[threading.Thread, duckdb.DuckDBPyConnection | None]] = {}

    def lend(self, make: Callable[[], duckdb.DuckDBPyConnection]) -> duckdb.DuckDBPyConnection:
        """A new cursor; StoreError once the store is being closed."""
        ticket, thread = object(), threading.current_thread()
        with self._change:
            if self._is_over:
                raise StoreError("the store is closed")
            self._used[ticket] = thread, None
        try:
            con = make()
        except BaseException:
            self._back(ticket)
            raise
        with self._change:
            self._used[ticket] = thread, con
        return cast("duckdb.DuckDBPyConnection", _Cursor(con, lambda: self._back(ticket)))

    def _back(self, ticket: object) -> None:
        with self._change:
            self._used.pop(ticket, None)
            self._change.notify_all()

    def end(self) -> bool:
        """Lend no more, and wait until no other thread reads; whether that came about."""
        begun = time.monotonic()
        with self._change:
            self._is_over = True
            while others := self._others():
                lasted = time.monotonic() - begun
                if lasted > _MOST_S:
                    return False
                if lasted > _PATIENCE_S:
                    for con in others:
                        with contextlib.suppress(duckdb.Error):
                            con.interrupt()
                self._change.wait(0.1)
        return True

    def _others(self) -> list[duckdb.DuckDBPyConnection]:
        """Cursors of other threads that live: what this one holds it does not read now."""
        own = threading.current_thread()
        return [
            con for thread, con in self._used.values()
            if thread is not own and thread.is_alive() and con is not None
        ]  # fmt: skip
