"""Tells of what is waited for: a server that has taken a question, or another process."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

LONG_S = 15.0
LOOK_S = 1.0
UNANSWERED = "PostgreSQL is there and has not answered"
_log = logging.getLogger(__name__)


class Patience:
    """A clock beside what is asked of one server: libpq waits for an answer as long as the peer's
    machine is there, whatever its processes do.

    Attributes:
        waiting: a line while something is overdue, else None.
    """

    def __init__(self, name: str) -> None:
        self.waiting: str | None = None
        self._name = name
        # Since when, and for what, everybody waits who does.
        self._asked: dict[object, tuple[float, str]] = {}
        self._stopping = threading.Event()
        threading.Thread(target=self._watch, name="patience", daemon=True).start()

    def stop(self) -> None:
        """Look no longer."""
        self._stopping.set()

    @contextlib.contextmanager
    def asked(self, what: str = UNANSWERED) -> Iterator[None]:
        """While this lasts something is waited for. `what`: said before for how long it is so."""
        this, since = object(), time.monotonic()
        self._asked[this] = since, what
        try:
            yield
        finally:
            del self._asked[this]
            if self.waiting is not None and time.monotonic() - since > LONG_S:
                self.waiting = None
                waited_s = time.monotonic() - since
                _log.warning("%s: goes on after %.0f s", self._name, waited_s)

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_S):
            since, what = min(list(self._asked.values()), default=(float("inf"), ""))
            if self.waiting is None and time.monotonic() - since > LONG_S:
                self.waiting = (
                    f"{self._name}: {what} for {LONG_S:g} s; what is read waits for it, look "
                    "whether it stands still"
                )
                _log.warning("%s", self.waiting)
