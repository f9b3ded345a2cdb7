"""How long to wait before what failed is tried again."""

from __future__ import annotations

import random
from typing import Final

FIRST_S = 1.0
MOST_S = 60.0
# Threads wait by it: the state that all of a program shares is for who seeds it.
_CHANCE: Final = random.Random()


class Backoff:
    """Waits that double, each cut by up to a half at random, so that many who failed for one
    reason do not all come back at the same moment.

    `first_s`, `most_s`: between which they lie; those of a host on which sources are.
    """

    def __init__(self, first_s: float | None = None, most_s: float | None = None) -> None:
        self._first_s = FIRST_S if first_s is None else first_s
        self._most_s = MOST_S if most_s is None else most_s
        self._failures = 0

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        longest = min(self._most_s, self._first_s * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return longest * _CHANCE.uniform(0.5, 1.0)

    def reset(self) -> None:
        """It worked: the next failure is a first one."""
        self._failures = 0
