"""Tells what fails again and again: a line at first, not one for each attempt."""

from __future__ import annotations

import logging
import threading
import time

AGAIN_S = 60.0  # the same words once more: whoever looks at the last lines sees that it lasts
_log = logging.getLogger(__name__)


class Telling:
    """What is wrong with one thing that is tried until it works. Any thread may say so."""

    def __init__(self, name: str) -> None:
        """`name`: what the line calls it that says that it works again."""
        self._name = name
        self._told_at: dict[str, float] = {}  # by the words; kept when it is over, it may return
        self._since: float | None = None  # of the first failure
        self._told = False  # since then
        self._lock = threading.Lock()

    def fails(self, text: str, *, reason: str = "", trace: BaseException | None = None) -> None:
        """An attempt has failed.

        Args:
            text: the line.
            reason: the same for lines that mean the same; else the line itself.
            trace: an error of ours, to be told with where it happened.
        """
        now = time.monotonic()
        with self._lock:
            self._since = now if self._since is None else self._since
            recent = {said: at for said, at in self._told_at.items() if now - at < AGAIN_S}
            is_news = (reason or text) not in recent
            self._told_at = {reason or text: now, **recent}
            self._told = self._told or is_news
        if is_news:
            _log.error("%s", text, exc_info=trace)

    def works(self) -> None:
        """An attempt has not failed."""
        with self._lock:
            since, told = self._since, self._told
            self._since, self._told = None, False
        if since is not None and told:
            _log.warning("%s: goes on after %.0f s", self._name, time.monotonic() - since)
