"""How the time axis of a chart tells its times. Vega's own way counts twelve hours twice a day."""

from __future__ import annotations

import polars as pl

_DAY_MS = 86_400_000


def clock(at: pl.Series) -> str:
    """The format for these moments (ms since 1970): the coarser the longer they span."""
    first, last = at.min(), at.max()
    assert isinstance(first, int), "a chart without rows has no axis"
    assert isinstance(last, int)
    days = (last - first) / _DAY_MS
    if days > 120:
        return "%b %Y"
    if days > 3:
        return "%d %b"
    if first // _DAY_MS != last // _DAY_MS:
        return "%d %b %H:%M"
    return "%H:%M" if days > 1 / 48 else "%H:%M:%S"
