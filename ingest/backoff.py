"""How long to wait before a host is tried again."""

from __future__ import annotations

import random

FIRST_S = 1.0
MOST_S = 60.0


class Backoff:
    """Waits that double from one second to a minute, each cut by up to a half at random, so that
    many sources of one host do not all come back at the same moment."""

    def __init__(self) -> None:
        self._failures = 0

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        longest = min(MOST_S, FIRST_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return max(FIRST_S, longest * random.uniform(0.5, 1.0))

    def reset(self) -> None:
        """It worked: the next failure is a first one."""
        self._failures = 0
