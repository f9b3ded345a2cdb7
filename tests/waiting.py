"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], seconds: float = 20.0, what: str = "") -> None:
    """Wait for a condition; AssertionError when it does not come. A look may cost much: what is
    waited for has most of the time for itself."""
    deadline = time.monotonic() + seconds
    begun = time.monotonic()
    while not condition():
        looked = time.monotonic()
        assert looked < deadline, f"not within {seconds:g} s{what and f': {what}'}"
        time.sleep(max(0.01, 3 * (looked - begun)))
        begun = time.monotonic()
