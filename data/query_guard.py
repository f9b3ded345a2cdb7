"""Ends a query that takes too long, takes too much memory, or is no longer wanted."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final

import duckdb

MAX_BYTES: Final = 1 << 30  # that the process may grow by meanwhile
TOO_LARGE: Final = "stopped: it needed more than 1 GB of memory; ask for fewer rows or groups"
_EVERY_S: Final = 0.02
_STATM: Final = Path("/proc/self/statm")


class Guard:
    """While the block runs, a thread looks after the connection's query.

    The limit is of the whole process, since DuckDB has one for all its users only: whatever grows,
    the question is what ends, never ingest. Where the system does not tell the memory of a process
    (no /proc), time is the only limit.

    Attributes:
        reason: why the query was ended; None while it was not.
    """

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        timeout_s: float,
        max_bytes: int,
        stop: threading.Event,
    ) -> None:
        self.reason: str | None = None
        self._con = con
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._stop = stop
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="query-guard", daemon=True)

    def __enter__(self) -> Guard:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        before = resident_bytes()
        while not self._done.wait(_EVERY_S):
            if self.reason is None:
                self.reason = self._why(deadline, before)
            if self.reason is not None:  # again and again: one interrupt may come between two steps
                self._con.interrupt()

    def _why(self, deadline: float, before: int) -> str | None:
        if self._stop.is_set():
            return "stopped, as you asked"
        if time.monotonic() >= deadline:
            return f"stopped after {self._timeout_s:g} s; ask for less"
        return TOO_LARGE if resident_bytes() - before > self._max_bytes else None


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not say."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
