"""Lines of one form read straight from the bytes: the way of nearly all lines of a long log.

A form is learnt from one line: fixed texts, and between them numbers and flags. What it takes is
exactly what the pattern of the same line would take, at a tenth of the cost; what it does not
take (a number in another notation, another text) is read by the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from parsers import kernels, keyvalue
from parsers.kernels import Block
from parsers.keyvalue import Field
from parsers.records import TEXT, constant

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Place = tuple[str, int, int]  # a value, where it starts and ends in the line

FEWEST = 500  # lines of a block; for fewer the pattern is as fast
_NUMBER = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?")
FLAGS = ("True", "False")
_FLAG = -1


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
    end: bytes  # fixed text after the last value

    def take(self, block: Block, lines: Ints) -> tuple[Ints, dict[str, npt.NDArray[Any]]]:
        """Those of these lines that have this form, and their values by label."""
        texts = [v.before for v in self.values]
        decimals = [_FLAG if v.decimals is None else v.decimals for v in self.values]
        rows, found = kernels.values(block, lines, self.head, texts, decimals, self.end)
        columns: dict[str, npt.NDArray[Any]] = {}
        for value, of_value in zip(self.values, found, strict=True):
            if value.decimals is None:
                columns[value.label] = of_value == 1
            else:
                columns[value.label] = of_value.view(np.float64) if value.decimals else of_value
        return rows, columns

    def places(self, block: Block, rows: Ints) -> dict[str, pl.Series]:
        """What is printed in the head of lines of this form, by its name; a stamp as a time, null
        if it is none."""
        starts = block.starts[rows]
        return {
            name: _stamps(block, starts + a) if name == "stamp"
            else texts(block, starts + a, starts + b)
            for name, (a, b) in self.printed.items()
        }  # fmt: skip


def pay(lines: int) -> bool:
    """Whether reading so many lines by their forms is worth it, and possible."""
    return lines >= FEWEST and kernels.BUILT


def texts(block: Block, starts: Ints, ends: Ints) -> pl.Series:
    """Texts of a block; most are like one before, which is read once."""
    code, firsts = kernels.distinct(block, starts, ends, len(block.data))
    few = read(block, starts[firsts], ends[firsts])
    return constant("", few[0], TEXT, len(code)) if len(few) == 1 else few.gather(code)


def read(block: Block, starts: Ints, ends: Ints) -> pl.Series:
    """Texts of a block, one by one."""
    where = zip(starts.tolist(), ends.tolist(), strict=True)
    return pl.Series([block.data[a:b].decode("latin-1") for a, b in where], dtype=pl.String())


def _stamps(block: Block, starts: Ints) -> pl.Series:
    """Times printed as 2026-02-23 00:00:27, null where it is none."""
    found, none = kernels.stamps(block, starts)
    times = pl.Series(found).cast(pl.Datetime("us"))
    return times.set(pl.Series(found == kernels.NO_TIME), None) if none else times


def learn(line: str, printed: Mapping[str, Place], fields: Sequence[Field]) -> Form | None:
    """The form of a line, where its fields hold plain numbers and flags.

    Args:
        line: one whole record without its line end.
        printed: what is printed in the head, by its name.
        fields: all fields, in order.
    """
    at = fields[0].start
    if not line.isascii():
        return None
    text = line.encode()
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
