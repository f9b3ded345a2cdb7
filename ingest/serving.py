"""Where a block has lines that only a serving server prints: they tell a run from its boot."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from parsers.requests import Request


@dataclass(frozen=True, slots=True)
class Serving:
    """Where a block has lines that only a serving server prints."""

    offsets: tuple[pl.Series, ...]  # of access lines, samples and requests, each in order

    @classmethod
    def of(cls, text: pl.DataFrame, printed: pl.DataFrame, asked: list[Request]) -> Serving:
        """From a block's lines (with column access), its samples and its per-request lines."""
        requested = pl.Series([request.off for request in asked], dtype=pl.Int64)
        return cls((text.filter("access")["off"], printed["off"], requested))

    @property
    def first(self) -> int | None:
        """The first of them, None where there is none."""
        return min((int(offs[0]) for offs in self.offsets if len(offs)), default=None)

    def between(self, start: int, end: int) -> bool:
        """Whether one of them starts in [start, end)."""
        return any(offs.search_sorted(start) < offs.search_sorted(end) for offs in self.offsets)


def engine_of(printed: pl.DataFrame, start: int, end: int) -> str | None:
    """The engine that printed samples between two offsets."""
    between = printed.filter(pl.col("off").is_between(start, end))
    return between["engine"][0] if between.height else None
