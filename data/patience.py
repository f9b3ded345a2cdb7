"""Tells of a server that has taken a question and gives no answer."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

LONG_S = 15.0
LOOK_S = 1.0
_log = logging.getLogger(__name__)


class Patience:
    """A clock beside what is asked of one server: libpq waits for an answer as long as the peer's
    machine is there, whatever its processes do.

    Attributes:
        waiting: a line while an answer is overdue, else None.
    """

    def __init__(self, name: str) -> None:
        self.waiting: str | None = None
        self._name = name
        self._since: dict[object, float] = {}  # of each question without an answer yet
        self._stopping = threading.Event()
        threading.Thread(target=self._watch, name="patience", daemon=True).start()

    def stop(self) -> None:
        """Look no longer."""
        self._stopping.set()

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """While this lasts an answer is waited for."""
        this, since = object(), time.monotonic()
        self._since[this] = since
        try:
            yield
        finally:
            del self._since[this]
            if self.waiting is not None and time.monotonic() - since > LONG_S:
                self.waiting = None
                waited_s = time.monotonic() - since
                _log.warning("%s: answered again after %.0f s", self._name, waited_s)

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_S):
            since = min(list(self._since.values()), default=None)
            if since is not None and self.waiting is None and time.monotonic() - since > LONG_S:
                self.waiting = (
                    f"{self._name}: PostgreSQL is there and has not answered for "
                    f"{LONG_S:g} s; what is read waits for it, look whether it stands still"
                )
                _log.warning("%s", self.waiting)
