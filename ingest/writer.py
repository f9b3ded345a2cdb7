"""The one writer: takes appends from every source in order and commits each as a transaction."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from data.errors import StoreError
from data.store import Store
from ingest.reading import Append

QUEUE_BYTES = 32 << 20
RETRY_S = 2.0
_log = logging.getLogger(__name__)


class Writer:
    """A thread behind a queue that is bounded in bytes: a full queue makes readers wait.

    `retry`: an append that fails is tried again until it is stored or the writer stops (a full
    disk may be freed); without it the first failure ends the work and `put` raises it.
    """

    def __init__(self, store: Store, *, retry: bool) -> None:
        self.error: StoreError | None = None
        self._store = store
        self._retry = retry
        self._queue: deque[tuple[Append, Callable[[], object]]] = deque()
        self._bytes = 0
        self._busy = False
        self._stopping = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def put(self, append: Append, done: Callable[[], object]) -> None:
        """Queue an append; `done` is called when it is committed. Waits while the queue is full."""
        with self._change:
            self._change.wait_for(lambda: self._bytes < QUEUE_BYTES or self._over())
            self._raise_if_over()
            self._queue.append((append, done))
            self._bytes += len(append.data)
            self._change.notify_all()

    def flush(self) -> None:
        """Wait until everything queued is committed."""
        with self._change:
            self._change.wait_for(lambda: not (self._queue or self._busy) or self._over())
            self._raise_if_over()

    def stop(self) -> None:
        """Commit what is queued (unless the store refuses) and end the thread."""
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self._thread.join()

    def _over(self) -> bool:
        return self._stopping or (self.error is not None and not self._retry)

    def _raise_if_over(self) -> None:
        if self._over():
            raise self.error or StoreError(f"{self._store.path}: the writer has stopped")

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._queue or self._stopping)
                if not self._queue:
                    return
                append, done = self._queue.popleft()
                self._busy = True
            stored = self._commit(append)
            if stored:
                done()
            with self._change:
                self._bytes -= len(append.data)
                self._busy = False
                self._change.notify_all()
            if not stored:
                return

    def _commit(self, append: Append) -> bool:
        while True:
            try:
                self._store.append(append.batch, append.checkpoint)
            except StoreError as error:
                self.error = error
                _log.error("%s", error)
            else:
                self.error = None
                return True
            with self._change:
                if not self._retry or self._change.wait_for(lambda: self._stopping, RETRY_S):
                    return False
