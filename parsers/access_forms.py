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

from parsers import forms
from parsers.forms import Bools, Ints, Words

_LINE = re.compile(
    r"(?P<head>(?:\[(?P<stamp>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})\] "
    r"|\([A-Za-z]\w* pid=[0-9]+\) )?[A-Z]{4,8}: {1,8})[0-9]{1,3}(?:\.[0-9]{1,3}){3}:[0-9]{1,5} - \""
)
_TAIL = re.compile(r"[A-Z]{3,10} [!-~]+ HTTP/1\.[01]\" [1-5][0-9]{2}(?: [A-Za-z -]+)?")
_MOST_HEADS = 8
_CLIENT = (9, 21)  # bytes of an address with its port
_REQUEST = (16, 160)  # bytes from the method on
_QUOTE = np.uint64(0x2222222222222222)
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_FROM_COLON = np.uint64(0x4545454545454545)  # lifts what is above ":" into the high bit
_POINTS = np.uint64(0x2E2E2E2E2E2E2E2E)
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
        if head not in self._heads and len(match["head"]) >= 8:
            self._heads.append(head)

    def take(self, data: bytes, starts: Ints, free: Bools) -> list[Taken]:
        """Access lines of a block.

        Args:
            data: the block.
            starts: where its lines begin: each goes on to the next.
            free: lines that are nothing else.
        """
        words = forms.words_of(data)
        ends = np.append(starts[1:], len(data)) - 1
        most = max((len(head.text) for head in self._heads), default=0) + 48
        near = int(np.searchsorted(starts, len(words) - most - _REQUEST[1]))
        rows = np.flatnonzero(free[:near])
        found = []
        for head in self._heads if len(rows) >= forms.FEWEST else ():
            mine = _take(data, words, starts[rows], ends[rows], head)
            if len(mine.rows):
                left = np.ones(len(rows), np.bool_)
                left[mine.rows] = False
                found.append(Taken(rows[mine.rows], mine.stamp, mine.tail))
                rows = rows[left]
        return found


def _take(data: bytes, words: Words, starts: Ints, ends: Ints, head: _Head) -> Taken:
    kept = np.flatnonzero(forms.begins(words, starts, head.text))
    client = starts[kept] + len(head.text)
    quote = _quote(words, client)
    fits = (quote - 3 >= _CLIENT[0]) & (quote - 3 <= _CLIENT[1])
    fits &= _is_address(words, client, quote - 3)
    fits &= forms.stands(words, client + quote.clip(3) - 3, b' - "')
    request = client + quote + 1
    size = ends[kept] - request
    fits &= (size >= _REQUEST[0]) & (size <= _REQUEST[1])
    kept, request, size = kept[fits], request[fits], size[fits]
    tail = _texts(data, words, request, size)
    good = tail.is_in([text for text in tail.unique() if _TAIL.fullmatch(text)]).to_numpy()
    kept, tail = kept[good], tail.filter(good)
    stamp = pl.repeat(None, len(kept), dtype=pl.String(), eager=True)
    if head.stamp is not None:
        at = starts[kept] + head.stamp
        stamp = forms.texts(data, words, at, _STAMP_SIZE, same=_MINUTE_SIZE)
    return Taken(kept, stamp, tail)


def _quote(words: Words, at: Ints) -> Ints:
    """Bytes up to the first quotation mark behind these places; 32 where there is none so near."""
    found = np.full(len(at), 32, np.int64)
    for i in (24, 16, 8, 0):
        x = words[at + i] ^ _QUOTE
        bits = forms.before((x - _ONES) & ~x & _HIGH)
        found = np.where(bits < 64, (bits >> np.uint64(3)).view(np.int64) + i, found)
    return found


def _is_address(words: Words, at: Ints, size: Ints) -> Bools:
    """Whether so many bytes are digits, points and colons (or slashes)."""
    fits: Bools = np.ones(len(at), np.bool_)
    for i in range(0, _CLIENT[1], 8):
        word = words[at + i]
        above, below = word + _FROM_COLON, (word | _HIGH) - _POINTS
        fits &= (above | ~below | word) & _HIGH & _mask(size - i) == 0
    return fits


def _mask(size: Ints) -> Words:
    """The first bytes of a word, so many of them."""
    return (np.uint64(1) << (size.clip(0, 8) * 8).view(np.uint64)) - np.uint64(1)


def _texts(data: bytes, words: Words, at: Ints, size: Ints) -> pl.Series:
    """Texts of these sizes; neighbours mostly have the same, which is read once."""
    changes: Bools = np.ones(len(at), np.bool_)
    changes[1:] = size[1:] != size[:-1]
    for i in range(0, int(size.max(initial=0)), 8):
        word = words[at + i] & _mask(size - i)
        changes[1:] |= word[1:] != word[:-1]
    where = zip(at[changes].tolist(), size[changes].tolist(), strict=True)
    few = pl.Series([data[i : i + n].decode("latin-1") for i, n in where], dtype=pl.String())
    return few.gather(np.cumsum(changes) - 1)
