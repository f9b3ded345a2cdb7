"""The one writer: takes appends from every source in order and commits each as a transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from data.errors import AwayError, ConflictError, StoreError
from data.store import Store
from ingest.backoff import Backoff
from ingest.ledger import Append
from ingest.telling import Telling

QUEUE_BYTES = 32 << 20
# Live lines never wait behind the blocks of a source that catches up: they may enter a full queue,
# and are in the next transaction, which holds a few blocks at most.
SMALL_BYTES = 256 << 10
SPARE_BYTES = 24 << 20  # a block that entered last is in it
TRANSACTION_BYTES = 16 << 20
RETRY_S, MOST_RETRY_S = 0.5, 2.0  # between failures
# After a commit of what is followed the writer rests twice as long as that took: the lines of fifty
# sources come one by one, and a commit of all of them costs little more than one of each.
REST_TIMES = 2
OPEN_S = 5.0  # a transaction that rows are inserted into as they come
_log = logging.getLogger(__name__)
Entry = tuple[Append, Callable[[], object], int]  # with its number


class Writer:
    """A thread behind a queue that is bounded in bytes: a full queue makes readers wait.

    What waits in the queue shares a transaction, as much of it as one should hold. `gather`:
    bytes of log that a transaction should be worth (a bulk import: a commit of few rows costs as
    much as one of many).
    Where the process does nothing but import, its rows are inserted as they come, for some seconds
    into one transaction.
    `retry`: what fails is tried again until it is stored or the writer stops (a full disk may be
    freed); without it the first failure ends the work and `put` raises it.

    Attributes:
        away: tells that the store's server is away, whoever notices.
    """

    def __init__(self, store: Store, *, retry: bool, gather: int = 0) -> None:
        self.error: StoreError | None = None
        self.away = Telling(store.name)
        self._wrong = Telling(store.name)  # what else the store says
        self._store = store
        self._retry = retry
        self._gather = gather
        self._at_once = gather > 0 and store.bulk
        self._queue: deque[Entry] = deque()
        self._open = False  # a transaction that rows are inserted into
        self._until = 0.0  # when it is to be committed
        self._inserted = 0  # bytes of log in it
        self._rests_until = 0.0
        self._bytes = 0  # queued or being inserted
        self._busy = False
        self._numbers = 0  # of the latest append
        self._waiting: set[int] = set()  # appends that are not committed yet
        self._flushing = 0  # callers of flush
        self._refused: set[str] = set()  # file ids
        self._stopping = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def put(self, append: Append, done: Callable[[], object]) -> None:
        """Queue an append; `done` is called when it is committed (where its process only imports:
        inserted). Waits while the queue is full, or (of what is followed) has an append of this
        file: lines that come meanwhile are then read together, so that many small appends never
        pile up before a slow disk."""
        limit = max(QUEUE_BYTES, 0 if self._at_once else 2 * self._gather)
        limit += SPARE_BYTES if append.size <= SMALL_BYTES else 0
        with self._change:
            self._change.wait_for(
                lambda: (self._bytes < limit and not self._holds(append)) or self._over()
            )
            self._raise_if_over()
            self._numbers += 1
            self._queue.append((append, done, self._numbers))
            self._waiting.add(self._numbers)
            self._bytes += append.size
            self._change.notify_all()

    def _holds(self, append: Append) -> bool:
        file_id = append.checkpoint.file_id
        return not self._gather and any(e[0].checkpoint.file_id == file_id for e in self._queue)

    def flush(self) -> None:
        """Wait until everything queued so far is committed. Others go on queuing: with many
        sources there is hardly a moment without anything."""
        with self._change:
            if not self._waiting:
                self._raise_if_over()
                return
            before = set(self._waiting)
            self._flushing += 1
            self._change.notify_all()
            self._change.wait_for(lambda: before.isdisjoint(self._waiting) or self._over())
            self._flushing -= 1
            self._raise_if_over()

    def refused(self, file_id: str) -> bool:
        """Whether appends of this file were refused since the last call: read it anew from its
        latest checkpoint, another reader has gone on meanwhile."""
        with self._change:
            known = file_id in self._refused
            self._refused.discard(file_id)
            return known

    def tell_away(self, error: AwayError) -> None:
        """The store's server is away, which it says in several ways: one line for all of them."""
        self.away.fails(str(error), reason="away")

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
            raise self.error or StoreError(f"{self._store.name}: the writer has stopped")

    def _due(self) -> bool:
        return bool(self._queue and self._at_once) or self._is_time()

    def _is_time(self) -> bool:
        """Whether what is there should be committed."""
        waits = self._flushing > 0 and (self._queue or self._open)
        gathered = self._queue and self._gathered()
        rests = self._bytes < SMALL_BYTES and time.monotonic() < self._rests_until
        late = self._open and time.monotonic() >= self._until
        return bool(self._stopping or waits or (gathered and not rests) or late)

    def _left_s(self) -> float | None:
        """Seconds until what is inserted, or waits for a rest to end, must be committed; None
        where no time but only company, or somebody who waits, can make it due."""
        if not self._open and not (self._queue and self._gathered()):
            return None
        return max(0.0, (self._until if self._open else self._rests_until) - time.monotonic())

    def _gathered(self) -> bool:
        return self._bytes + self._inserted >= self._gather

    def _run(self) -> None:
        under_way: set[int] = set()  # inserted, and not committed yet
        while True:
            with self._change:
                while not self._due():
                    self._change.wait(self._left_s())
                commit = self._is_time() or not self._at_once
                entries = self._next()
                if not entries and not self._open:
                    return
                self._busy = True
                size = sum(append.size for append, _, _ in entries)
                under_way |= {number for _, _, number in entries}
                self._change.notify_all()  # the next append of these files may come in
            begun = time.monotonic()
            stored = self._commit(entries, more=not commit)
            if not self._gather:
                now = time.monotonic()
                self._rests_until = now + min(self._store.rest_most_s, REST_TIMES * (now - begun))
            for _, done, _ in entries if stored else ():
                done()
            if not self._open:
                self._until = time.monotonic() + OPEN_S
            self._open = not commit
            entries.clear()
            with self._change:
                self._bytes -= size
                self._inserted = 0 if commit else self._inserted + size
                self._busy = False
                if commit or not stored:
                    self._waiting -= under_way
                    under_way.clear()
                self._change.notify_all()
                if not stored:
                    return

    def _next(self) -> list[Entry]:
        """Takes from the queue what is stored next: all of an import; of what is followed all
        that is small, and blocks while there is room. The appends of a file stay in order."""
        room = TRANSACTION_BYTES
        taken: list[Entry] = []
        left: deque[Entry] = deque()
        behind: set[str] = set()  # files with an append that is left
        for entry in self._queue:
            size, file_id = entry[0].size, entry[0].checkpoint.file_id
            fits = self._gather or size <= SMALL_BYTES or size <= room or not taken
            if fits and file_id not in behind:
                taken.append(entry)
                room -= size
            else:
                left.append(entry)
                behind.add(file_id)
        self._queue = left
        return taken

    def _commit(self, entries: list[Entry], *, more: bool) -> bool:
        """Store the entries; those that the store refuses for good are taken out of the list."""
        backoff = Backoff(RETRY_S, MOST_RETRY_S)
        while True:
            appends = [append for append, _, _ in entries]
            try:
                self._store.append_all(
                    [append.prepared or append.batch for append in appends],
                    [append.checkpoint for append in appends],
                    more=more,
                )
            except Exception as error:  # whatever it is, readers must not wait for ever
                if self._retry and isinstance(error, ConflictError):
                    self._refuse(error.file_id, entries)
                    continue
                if not isinstance(error, StoreError):
                    error = StoreError(f"{self._store.name}: cannot store this ({error!r})")
                if self._retry:
                    self._tell(error)
                self.error = error
            else:
                self.error = None
                self.away.works()
                self._wrong.works()
                return True
            with self._change:
                if not self._retry or self._change.wait_for(lambda: self._stopping, backoff.next()):
                    return False

    def _tell(self, error: StoreError) -> None:
        if isinstance(error, AwayError):
            self.tell_away(error)
        else:
            self._wrong.fails(str(error))

    def _refuse(self, file_id: str, entries: list[Entry]) -> None:
        _log.warning("file %s has another reader; going on from its checkpoint", file_id)
        entries[:] = [entry for entry in entries if entry[0].checkpoint.file_id != file_id]
        with self._change:
            self._refused.add(file_id)
