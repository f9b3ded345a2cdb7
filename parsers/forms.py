"""Lines of one form read straight from the bytes, eight at a time: the way of nearly all lines.

A form is learnt from one line: fixed texts, and between them numbers and flags. All lines of a
block walk through it together. What it takes is exactly what the pattern of the same line would
take, at a quarter of the cost; what it does not take (a longer number, another text) is read by
the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from parsers import keyvalue
from parsers.keyvalue import Field

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Place = tuple[str, int, int]  # a value, where it starts and ends in the line

# Lines that walk together: few enough for the cache, and so many that their steps outlast a
# hand-over between threads.
ROWS = 16384
FEWEST = 500  # for fewer lines the pattern is as fast
_NUMBER = re.compile(r"([0-9]{1,7})(?:\.([0-9]{1,3}))?")
FLAGS = ("True", "False")
_HIGH = np.uint64(0x8080808080808080)
_ZEROS = np.uint64(0x3030303030303030)  # the text "00000000"
_NINES = np.uint64(0x7676767676767676)  # lifts what is above 9 into the high bit
_NO_DIGIT = np.uint64(0x7F7F7F7F7F7F7F7F)  # lifts whatever is not the same
_PAIRS = np.uint64(0x000000FF000000FF)
_BYTES = np.uint64(0x78)  # a count of bits, those of a byte begun left out
_8, _10 = np.uint64(8), np.uint64(10)


def words_of(data: bytes) -> Words:
    """The eight bytes from each byte of `data` on, as little-endian numbers; no copy."""
    return np.ndarray((max(len(data) - 7, 0),), "<u8", data, strides=(1,))


@dataclass(frozen=True, slots=True)
class _Value:
    label: str
    before: bytes  # fixed text in front of it
    decimals: int | None  # None: a flag


@dataclass(frozen=True, slots=True)
class Form:
    """Lines that differ in their digits and flags only; those in the head are as many."""

    head: bytes  # all before the first value, its digits as zeros
    printed: Mapping[str, tuple[int, int]]  # stamp, date, time, ranks, engine_no: from, to
    values: tuple[_Value, ...]
    end: bytes  # fixed text after the last value, the line's end included

    @property
    def longest(self) -> int:
        """Bytes of the longest line of this form, and a word more."""
        texts = sum(len(v.before) + 12 for v in self.values)
        return len(self.head) + texts + len(self.end) + 8

    def take(self, words: Words, starts: Ints) -> tuple[Ints, dict[str, npt.NDArray[Any]]]:
        """The lines that have this form, as places in `starts`, and their values by label.

        Args:
            words: of the block's bytes.
            starts: where lines begin, in order; lines that end too close to the block's end are
                not taken.
        """
        near = int(np.searchsorted(starts, len(words) - self.longest))
        rows = np.flatnonzero(begins(words, starts[:near], self.head))
        parts = [self._walk(words, starts, rows[i : i + ROWS]) for i in range(0, len(rows), ROWS)]
        if not parts:
            return rows, {}
        columns = [
            np.concatenate(of_label) for of_label in zip(*(p[1] for p in parts), strict=True)
        ]
        labels = [v.label for v in self.values]
        return np.concatenate([p[0] for p in parts]), dict(zip(labels, columns, strict=True))

    def _walk(self, words: Words, starts: Ints, rows: Ints) -> tuple[Ints, list[npt.NDArray[Any]]]:
        fits = np.ones(len(rows), np.bool_)
        cursor = starts[rows] + len(self.head)
        values: list[npt.NDArray[Any]] = []
        for value in self.values:
            if value.before:
                fits &= stands(words, cursor, value.before)
                cursor = cursor + len(value.before)
            if value.decimals is None:
                found, width, good = _flag(words, cursor)
            else:
                found, width, good = _number(words[cursor], value.decimals)
            values.append(found)
            fits &= good
            cursor = cursor + width
        fits &= stands(words, cursor, self.end)
        if fits.all():
            return rows, values
        return rows[fits], [column[fits] for column in values]

    def places(self, data: bytes, words: Words, starts: Ints) -> dict[str, pl.Series]:
        """What is printed in the head of lines of this form, by its name; a stamp as a time, null
        if it is none."""
        return {
            name: _stamps(data, words, starts + a) if name == "stamp"
            else texts(data, words, starts + a, b - a)
            for name, (a, b) in self.printed.items()
        }  # fmt: skip


def texts(data: bytes, words: Words, at: Ints, size: int, same: int | None = None) -> pl.Series:
    """Texts of this size; neighbours mostly have the same, which is read once.

    Args:
        same: a text is as good as the one before if so many bytes of it are the same.
    """
    first = size if same is None else same
    changes: Bools = np.zeros(len(at), np.bool_)
    changes[:1] = True
    mask = np.uint64((1 << 8 * min(first, 8)) - 1)
    for i in (*range(0, first - 8, 8), max(first - 8, 0)):
        word = words[at + i] & mask
        changes[1:] |= word[1:] != word[:-1]
    few = pl.Series([data[i : i + size].decode() for i in at[changes].tolist()], dtype=pl.String())
    return few.gather(np.cumsum(changes) - 1)


def _stamps(data: bytes, words: Words, at: Ints) -> pl.Series:
    """Times printed as 2026-02-23 00:00:27, whose digits are known to be digits."""
    days = texts(data, words, at, 10).str.to_date("%Y-%m-%d", strict=False)
    digit = words[at + 11] ^ _word(b"00:00:00")
    pairs = digit * _10 + (digit >> _8)
    hours, minutes, seconds = ((pairs >> np.uint64(i)) & np.uint64(0xFF) for i in (0, 24, 48))
    of_day = ((hours * np.uint64(60) + minutes) * np.uint64(60) + seconds).view(np.int64)
    times = days.cast(pl.Datetime("us")) + pl.Series(of_day * 1_000_000).cast(pl.Duration("us"))
    wrong = (hours > 23) | (minutes > 59) | (seconds > 59)
    return times.set(pl.Series(wrong), None) if wrong.any() else times


def begins(words: Words, starts: Ints, head: bytes) -> Bools:
    """Whether `head` stands at these places, any digits for its zeros."""
    lifts = bytes(0x76 if c == ord("0") else 0x7F for c in head)
    places = (len(head) - 8, *range(0, len(head) - 8, 8))  # its end sorts nearly all others out
    found: Bools = np.ones(len(starts), np.bool_)
    for at in places:
        text, lift = _word(head[at : at + 8]), _word(lifts[at : at + 8])
        fits = _is(words[starts + at], text, lift)
        if not fits.all():
            found[found] = fits
            starts = starts[fits]
    return found


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


def _is(word: Words, text: np.uint64, lift: np.uint64) -> Bools:
    if lift == _NO_DIGIT:
        same: Bools = word == text
        return same
    differs = word ^ text
    equal: Bools = ((differs + lift) | differs) & _HIGH == 0
    return equal


def stands(words: Words, at: Ints, text: bytes) -> Bools:
    """Whether `text` stands at these places."""
    if len(text) < 8:
        mask = np.uint64((1 << 8 * len(text)) - 1)
        short: Bools = (words[at] & mask) == _word(text)
        return short
    fits: Bools = np.ones(len(at), np.bool_)
    for i in (*range(0, len(text) - 8, 8), len(text) - 8):
        fits &= words[at + i] == _word(text[i : i + 8])
    return fits


def _number(word: Words, decimals: int) -> tuple[npt.NDArray[Any], Ints, Bools]:
    """The number that a word begins with.

    Returns:
        the numbers; their bytes; and whether they are numbers with so many decimals and of at
        most eight bytes. What stands behind a number is for its caller to see.
    """
    digit = word ^ _ZEROS
    others = ((digit + _NINES) | digit) & _HIGH  # marks every byte that is no digit
    bits = before(others)
    good: Bools = bits > 0
    if decimals:
        point = (digit >> bits) & np.uint64(0xFF)
        good &= point == np.uint64(ord(".") ^ ord("0"))
        all_bits = bits + np.uint64(8 * (1 + decimals))
        good &= before(others & (others - np.uint64(1))) == all_bits
        whole = (np.uint64(1) << bits) - np.uint64(1)
        digit = np.bitwise_or(digit & whole, (digit >> _8) & ~whole)  # the point out
        bits = all_bits - _8
    else:
        all_bits = bits
        good &= bits < np.uint64(64)
    digit = np.left_shift(digit, np.uint64(64) - bits)
    pairs = digit * _10 + (digit >> _8)
    value = (pairs & _PAIRS) * np.uint64(100 + (1_000_000 << 32))
    value += ((pairs >> np.uint64(16)) & _PAIRS) * np.uint64(1 + (10_000 << 32))
    number = (value >> np.uint64(32)).view(np.int64)
    size = (all_bits >> np.uint64(3)).view(np.int64)
    # The quotient of two whole numbers is the float nearest to the decimal.
    return number / 10**decimals if decimals else number, size, good


def before(marks: Words) -> Words:
    """The bits of the bytes before the first marked one; 64 where none is."""
    return np.bitwise_count(~marks & (marks - np.uint64(1))).astype(np.uint64) & _BYTES


def _flag(words: Words, at: Ints) -> tuple[Bools, Ints, Bools]:
    true, false = stands(words, at, b"True"), stands(words, at, b"False")
    return true, np.where(true, 4, 5), true | false


def learn(line: str, printed: Mapping[str, Place], fields: Sequence[Field]) -> Form | None:
    """The form of a line, where its fields hold plain numbers and flags.

    Args:
        line: one whole record without its line end.
        printed: what is printed in the head, by its name.
        fields: all fields, in order.
    """
    at = fields[0].start
    if not line.isascii() or at < 8:
        return None
    text = line.encode() + b"\n"
    head = re.sub(rb"[0-9]", b"0", text[:at])
    values: list[_Value] = []
    for f in fields:
        bare = keyvalue.bare(f.value)
        number = _NUMBER.fullmatch(bare)
        if number is None and bare not in FLAGS:
            return None
        decimals = len(number[2] or "") if number else None
        values.append(_Value(f.key, text[at : f.start], decimals))
        at = f.start + len(bare)
    places = {name: (start, end) for name, (_, start, end) in printed.items()}
    form = Form(head, places, tuple(values), text[at:])
    return form if all(v.before for v in values[1:]) else None
