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

_LINE = re.compile(
    r"(?P<head>(?:\[(?P<stamp>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})\] "
    r"|\([A-Za-z]\w* pid=[0-9]+\) )?[A-Z]{4,8}: {1,8})[0-9]{1,3}(?:\.[0-9]{1,3}){3}:[0-9]{1,5} - \""
)
_TAIL = re.compile(r"[A-Z]{3,10} [!-~]+ HTTP/1\.[01]\" [1-5][0-9]{2}(?: [A-Za-z -]+)?")
_MOST_HEADS = 8
_REQUEST = (16, 160)  # bytes from the method on
_STAMP_SIZE, _MINUTE_SIZE = 19, 16


@dataclass(frozen=True, slots=True)
class Taken:
    """Access lines of a block.

    Attributes:
        rows: their places among the lines, in order.
        stamp: what each prints, or one before it in the same minute; null where the form has none.
        tail: from the method on.
    """

    rows: Ints
    stamp: pl.Series
    tail: pl.Series


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

    def take(self, block: Block, free: Bools) -> list[Taken]:
        """Access lines of a block.

        Args:
            free: lines that are nothing else.
        """
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
    tail = forms.texts(block, requests, block.ends[rows])
    good = tail.is_in([text for text in tail.unique() if _TAIL.fullmatch(text)])
    rows, tail = rows[good.to_numpy()], tail.filter(good)
    stamp = pl.repeat(None, len(rows), dtype=pl.String(), eager=True)
    if head.stamp is not None:
        at = block.starts[rows] + head.stamp
        stamp = forms.texts(block, at, at + _STAMP_SIZE, same=_MINUTE_SIZE)
    return Taken(rows, stamp, tail)
