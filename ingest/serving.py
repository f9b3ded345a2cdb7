"""Where a block has lines that only a serving server prints: they tell a run from its boot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from parsers.requests import Request

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Serving:
    """Where a block has lines that only a serving server prints."""

    offsets: tuple[Ints, ...]  # of access lines, samples and requests, each in order

    @classmethod
    def of(cls, access: pl.DataFrame, printed: pl.DataFrame, asked: list[Request]) -> Serving:
        """From a block's access lines, its samples and its per-request lines."""
        requested = np.array([request.off for request in asked], np.int64)
        return cls((access["off"].to_numpy(), printed["off"].to_numpy(), requested))

    @property
    def first(self) -> int | None:
        """The first of them, None where there is none."""
        return min((int(offs[0]) for offs in self.offsets if len(offs)), default=None)

    def between(self, start: int, end: int) -> bool:
        """Whether one of them starts in [start, end)."""
        return any(offs.searchsorted(start) < offs.searchsorted(end) for offs in self.offsets)


def engine_of(printed: pl.DataFrame, start: int, end: int) -> str | None:
    """The engine that printed samples between two offsets."""
    first, last = np.searchsorted(printed["off"].to_numpy(), (start, end + 1))
    return str(printed["engine"][int(first)]) if first < last else None
