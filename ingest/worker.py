"""The thread of one source: works until stopped, tells what fails and tries it again."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta

from data.errors import (
    AwayError,
    HostKeyError,
    LoginError,
    ServescopeError,
    StoreError,
    UnreachableError,
)
from data.store import Store
from ingest import status
from ingest.backoff import Backoff
from ingest.pipeline import SourceInfo
from ingest.status import StatusBoard
from ingest.telling import Telling
from ingest.writer import Writer

RETRY_S = 5.0
STORE_RETRY_S = 1.0  # a store on another machine that comes back is soon up to date
REFUSED_S = 30.0  # somebody has to do something about a key before it works


class Worker(threading.Thread, ABC):
    """One source being followed."""

    def __init__(
        self, source: SourceInfo, store: Store, writer: Writer, board: StatusBoard
    ) -> None:
        super().__init__(name=f"follow {source.source_id}", daemon=True)
        self.wake = threading.Event()
        self._stopping = threading.Event()
        self._source = source
        self._store = store
        self._writer = writer
        self._board = board
        self._backoff = Backoff()
        self._trouble = Telling(source.source_id)
        self._store_away = False  # as far as this thread has seen
        self._broken: tuple[float, str] | None = None  # when the connection broke, and why

    def stop(self) -> None:
        """Ask the thread to end; what was read is not lost but read again next time."""
        self._stopping.set()
        self.wake.set()

    def run(self) -> None:
        """Work until stopped. A failure is shown and tried again from the last checkpoint."""
        while not self._stopping.is_set():
            self.wake.clear()
            try:
                self._store.hold(self._source.source_id)
                self.turn()
            except Exception as error:
                if not self._stopping.is_set():
                    self._fail(error)
        self._let_go()
        self._store.let_go(self._source.source_id)

    @abstractmethod
    def turn(self) -> None:
        """Do what there is to do, and wait for more."""

    @abstractmethod
    def _let_go(self) -> bool:
        """Close what is open; whether something was being read."""

    def _away(self) -> str | None:
        """How long the host was away and why, once after it came back."""
        if self._broken is None:
            return None
        (since, why), self._broken = self._broken, None
        return f"the host was not reached for {time.monotonic() - since:.0f} s ({why})"

    def _fail(self, error: Exception) -> None:
        state, delay = self._judge(error)
        text = self._tell(error)
        retry_at = datetime.now(UTC) + timedelta(seconds=delay)
        self._board.set(state=state, error=text, retry_at=retry_at)
        if self._let_go() and state == status.RECONNECTING:
            self._broken = time.monotonic(), text
        self._stopping.wait(delay)

    def _tell(self, error: Exception) -> str:
        """Say what failed, where that is news; the words for the board."""
        name = self._source.source_id
        if isinstance(error, AwayError):  # it is so for all sources
            self._store_away = True
            self._writer.tell_away(error)
        elif isinstance(error, ServescopeError | OSError):
            self._trouble.fails(f"{name}: {error}; it is tried again")
        else:
            text = f"{name}: reading failed ({type(error).__name__}: {error})"
            self._trouble.fails(text, trace=error)
            return text
        return str(error)

    def _works(self) -> None:
        """What was tried has worked: the next failure is a first one."""
        self._backoff.reset()
        self._trouble.works()
        if self._store_away:
            self._store_away = False
            self._writer.away.works()

    def _judge(self, error: Exception) -> tuple[str, float]:
        """The state that an error means, and the seconds to wait."""
        if isinstance(error, UnreachableError):
            return status.RECONNECTING, self._backoff.next()
        if isinstance(error, LoginError):
            return status.AUTH_FAILED, REFUSED_S
        if isinstance(error, HostKeyError):
            return status.KEY_CHANGED if error.changed else status.KEY_UNKNOWN, REFUSED_S
        return status.ERROR, STORE_RETRY_S if isinstance(error, StoreError) else RETRY_S
