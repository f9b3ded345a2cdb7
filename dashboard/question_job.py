"""A question on its way: asked in a thread of its own, so that it can be cancelled on the page."""

from __future__ import annotations

import threading
import time
from typing import Final

import duckdb
import polars as pl

from data import documented
from data.errors import ServescopeError
from data.question import select
from data.store import Store

AT_ONCE: Final = 2  # questions of all visitors that are answered side by side
_places: Final = threading.BoundedSemaphore(AT_ONCE)


class QuestionJob:
    """One question and its answer.

    Attributes:
        query, limit: what was asked.
        timeout_s: how long it may take.
        frame: the answer, one row more than `limit` where there are more; None until it is there.
        error: why there is none, in one line.
        cause: what the store said, where there is none.
        is_of_the_store: the store cannot be read; the question may be right.
        seconds: how long it took.
    """

    def __init__(self, store: Store, query: str, limit: int, timeout_s: float) -> None:
        self.query = query
        self.limit = limit
        self.frame: pl.DataFrame | None = None
        self.error: str | None = None
        self.cause: BaseException | None = None
        self.is_of_the_store = False
        self._store = store
        self.timeout_s = timeout_s
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._thread = threading.Thread(target=self._run, name="question", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the answer is still awaited."""
        return self._thread.is_alive()

    @property
    def seconds(self) -> float:
        """How long it took, or has taken by now."""
        return (self._ended or time.monotonic()) - self._began

    @property
    def timed_out(self) -> bool:
        """Whether its time was too short."""
        return self.frame is None and self.seconds >= self.timeout_s

    def cancel(self) -> None:
        """Stop it."""
        self._stop.set()

    def wait(self, seconds: float) -> bool:
        """Wait for the answer so long at most; whether it is there."""
        self._thread.join(seconds)
        return not self.running

    def _run(self) -> None:
        try:
            while not _places.acquire(timeout=0.1):
                if self._stop.is_set():
                    self.error = "stopped, as you asked"
                    return
            try:
                with self._store.cursor() as con:
                    self.frame = select(con, self.query, self.limit, self.timeout_s, self._stop)
            finally:
                _places.release()
        except ServescopeError as error:
            self.error = str(error).removeprefix("sql: ")
            self.cause = error.__cause__
            self.is_of_the_store = _is_damage(error.__cause__)
        except Exception as error:  # whatever it is, the page says it; the thread has nobody else
            self.error = f"could not be answered ({type(error).__name__}: {error})".split("\n", 1)[
                0
            ]
        finally:
            self._ended = time.monotonic()


_DAMAGE: Final = (
    duckdb.FatalException, duckdb.InternalException, duckdb.IOException,
    duckdb.SerializationException,
)  # fmt: skip


def _is_damage(cause: BaseException | None) -> bool:
    """Whether DuckDB failed to read, or misses a view that every store has."""
    missing = isinstance(cause, duckdb.CatalogException) and any(
        f"Table with name {view} does not exist" in str(cause) for view in documented.VIEWS
    )
    return missing or isinstance(cause, _DAMAGE)
