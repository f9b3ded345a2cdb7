"""How soon a source is looked at again: often where few have news, less often where many do.

Each look with new lines has a price, however few they are. One source shows its lines at once;
of fifty that all print, each is looked at about once a second, and what came meanwhile is read
together.
"""

from __future__ import annotations

import threading
import time

SHORTEST_S = 0.1  # lines that come closer together than this share a commit
LONGEST_S = 0.8
EACH_S = 0.015  # for each source with news: about three times what a look costs
NEWS_S = 3.0  # so old, they are none


class Pace:
    """Shared by the sources of a process."""

    def __init__(self) -> None:
        self._news: dict[str, float] = {}  # when each source last had any
        self._lock = threading.Lock()

    def pause_s(self, source_id: str, *, news: bool) -> float:
        """Seconds that a source leaves between this look and the next one.

        Args:
            news: whether this look found any.
        """
        now = time.monotonic()
        with self._lock:
            if news:
                self._news[source_id] = now
            busy = sum(now - at < NEWS_S for at in self._news.values())
        return min(LONGEST_S, max(SHORTEST_S, EACH_S * busy))
