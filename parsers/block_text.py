"""The lines of a block as far as somebody has to look at them.

Of a long log nearly all lines are read by their form, straight from the bytes. Texts are made of
those that are left; of the others only where somebody asks for them (a traceback reads on from its
first line, whatever comes; a line without a stamp takes the last one before it).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from parsers import lines
from parsers.kernels import Block
from parsers.records import with_columns

Ints = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.uint8]

LEFT, SAMPLE, STAMPED, BARE = range(4)  # BARE: an access line that prints no stamp
_TAIL = 50  # lines: mostly one of the last ones has a stamp


@dataclass(frozen=True, slots=True)
class Text:
    """The lines of a block.

    Attributes:
        rest: lines that no form has read, in order: line, off, no, and in a wrapped block wrap
            and zoned; once they were looked at, sample (it holds one) and access (it is one).
        block: where all lines stand; None: `rest` is all of them.
        kinds: what each line of the block is: LEFT, or what a form has read.
        first: number of the block's first line.
    """

    rest: pl.DataFrame
    block: Block | None = None
    kinds: Kinds | None = None
    first: int = 0

    @property
    def height(self) -> int:
        """How many lines there are."""
        return self.rest.height if self.block is None else self.block.lines

    def numbered(self, first: int) -> Text:
        """The same with line numbers that begin at `first`."""
        rest = with_columns(self.rest, self.rest["no"] + (first - self.first))
        return replace(self, rest=rest, first=first)

    def whole(self) -> pl.DataFrame:
        """All lines, as `rest` has them."""
        return self._with(SAMPLE, STAMPED, BARE)

    def stamped(self) -> pl.DataFrame:
        """All lines but those of which a form knows that they print no stamp."""
        return self._with(SAMPLE, STAMPED)

    def last(self) -> list[str]:
        """The texts of the last lines, as `rest` has them."""
        if self.block is None:
            return self.rest["line"].tail(_TAIL).to_list()
        at = np.arange(max(0, self.height - _TAIL), self.height)
        return lines.apart(lines.of_block(self.block, at), "\r")["line"].to_list()

    def _with(self, *kinds: int) -> pl.DataFrame:
        """The rest together with lines of these kinds that a form has read."""
        if self.block is None or self.kinds is None:
            return self.rest
        at = np.flatnonzero(np.isin(self.kinds, kinds))
        sample = pl.Series(self.kinds[at] == SAMPLE)
        taken = lines.of_block(self.block, at, self.first).with_columns(
            sample=sample, access=~sample
        )
        both = pl.concat([self.rest, taken.select(self.rest.columns)])
        return both.sort("off", maintain_order=True)
