"""Access lines of one form read straight from the bytes, as `parsers.forms` reads samples.

Between a head, which all lines of a log share but for its digits, and the request stands the
client's IPv4 address, in which no other text can hide. What a form takes is exactly what the
patterns of `parsers.access` would take.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from parsers import forms, kernels
from parsers.forms import Bools, Ints
from parsers.kernels import Block

MARK = " HTTP/1."
_LINE = re.compile(
    r"(?P<head>(?:\[(?P<stamp>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})\] "
    r"|\([A-Za-z]\w* pid=[0-9]+\) )?[A-Z]{4,8}: {1,8})[0-9]{1,3}(?:\.[0-9]{1,3}){3}:[0-9]{1,5} - \""
)
_TAIL = re.compile(r"[A-Z]{3,10} [!-~]+ HTTP/1\.[01]\" [1-5][0-9]{2}(?: [A-Za-z -]+)?")
_MOST_HEADS = 8
_REQUEST = (16, 160)  # bytes from the method on
_STAMP_SIZE = 19
_MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True)
class Taken:
    """Access lines of a block.

    Attributes:
        rows: their places among the lines, in order.
        said: for each the row of `texts` that it says.
        us: how far in its minute each was printed, in microseconds; None where the form has no
            stamp.
        texts: stamp (of the first line in its minute that says this; null where the form has
            none) and tail (from the method on).
    """

    rows: Ints
    said: Ints
    us: Ints | None
    texts: pl.DataFrame

    @property
    def stamped(self) -> bool:
        """Whether the form has a stamp."""
        return self.us is not None


@dataclass(frozen=True, slots=True)
class _Head:
    text: bytes  # digits as zeros
    stamp: int | None  # where it stands


@dataclass(slots=True)
class AccessForms:
    """The forms of access lines that a file was seen to have."""

    _heads: list[_Head] = field(default_factory=list)

    def learn(self, line: str) -> None:
        """Have lines like this one read by their form."""
        match = _LINE.match(line)
        if match is None or not line.isascii() or len(self._heads) >= _MOST_HEADS:
            return
        text = re.sub(rb"[0-9]", b"0", match["head"].encode())
        head = _Head(text, match.start("stamp") if match["stamp"] else None)
        if head not in self._heads:
            self._heads.append(head)

    def take(self, block: Block, first: pl.DataFrame, free: Bools) -> list[Taken]:
        """Access lines of a block.

        Args:
            first: its first lines (column line); forms are learnt from those of a new file.
            free: lines that are nothing else.
        """
        if not self._heads:
            for line in first["line"].filter(first["line"].str.contains(MARK, literal=True)):
                self.learn(line)
        found: list[Taken] = []
        rows = np.flatnonzero(free)
        for head in self._heads if forms.pay(len(rows)) else ():
            mine = _take(block, rows, head)
            if len(mine.rows):
                found.append(mine)
                left = free.copy()
                left[mine.rows] = False
                free, rows = left, np.flatnonzero(left)
        return found


def _take(block: Block, lines: Ints, head: _Head) -> Taken:
    rows, requests = kernels.requests(block, lines, head.text, *_REQUEST)
    ends = block.ends[rows]
    said, firsts = kernels.distinct(block, requests, ends, _REQUEST[1])
    tail = forms.read(block, requests[firsts], ends[firsts])
    good = np.array([bool(_TAIL.fullmatch(text)) for text in tail], np.bool_)
    if not good.all():
        kept = np.flatnonzero(good[said])
        rows, said = rows[kept], said[kept]
    if head.stamp is None:
        texts = pl.DataFrame({"tail": tail}).select(stamp=pl.lit(None, pl.String()), tail="tail")
        return Taken(rows, said, None, texts)
    at = block.starts[rows] + head.stamp
    clock, none = kernels.stamps(block, at)
    if none:  # stamps that are no times are left to the pattern
        kept = np.flatnonzero(clock != kernels.NO_TIME)
        rows, said, at, clock = rows[kept], said[kept], at[kept], clock[kept]
    minute = clock // _MINUTE_US
    place, first = kernels.alike(minute * len(tail) + said)
    return Taken(
        rows,
        place,
        clock - minute * _MINUTE_US,
        pl.DataFrame(
            {
                "stamp": forms.read(block, at[first], at[first] + _STAMP_SIZE),
                "tail": tail.gather(said[first]),
            }
        ),
    )
