"""A block of bytes to all that can be told without the blocks before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ingest import measure, rows_of
from parsers import access, lines, sglang, vllm, wrappers
from parsers.access import Access
from parsers.forms import Bools
from parsers.requests import Request
from parsers.samples import Damaged, Found, Reader

GATES = [*sglang.GATES, *vllm.GATES]


@dataclass(frozen=True, slots=True)
class Scanned:
    """A block read as far as it can be without knowing the blocks before."""

    text: pl.DataFrame  # line, off, no (from 0), sample, access; wrap, zoned in a wrapped block
    printed: pl.DataFrame  # samples as printed, no from 0
    damaged: list[Damaged]
    requests: list[Request]  # no from 0
    access: Access  # no from 0
    end: int  # bytes of the file up to the block's end
    lines: int  # lines ended in it


def scan(reader: Reader, data: bytes, offset: int, encoding: str | None) -> Scanned:
    """Read a block.

    Args:
        reader: of samples; what it learns makes it faster and changes nothing.
        data: whole lines, the last one ended by a newline unless the file ends there.
        offset: bytes of the file before `data`.
        encoding: of a UTF-16 file, else None.
    """
    raw = lines.split(data, offset, encoding)
    text = wrappers.unwrap(raw)
    plain = text is raw and encoding is None
    if b"\r" in data or not plain:
        text = lines.apart(text, "\r", 2 if encoding else 1)
    text, found = _samples(reader, data if plain else b"", text)
    asked, text = rows_of.find_requests(text)
    text, seen = access.read(text)
    printed = measure.together(found.frames)
    return Scanned(
        text,
        _widened(printed, text) if encoding else printed,
        found.damaged,
        asked,
        seen,
        offset + len(data),
        raw.height - lines.is_open(data, encoding),
    )


def _widened(printed: pl.DataFrame, text: pl.DataFrame) -> pl.DataFrame:
    """Samples of UTF-16 at their places: one behind another in a line is twice as far from its
    start as in the text."""
    starts = printed.join_asof(text.select("off", start="off"), on="off")["start"]
    return printed.with_columns(off=2 * pl.col("off") - starts)


def _samples(reader: Reader, data: bytes, text: pl.DataFrame) -> tuple[pl.DataFrame, Found]:
    """Samples of the lines; and the lines with columns sample and access.

    Args:
        data: the block, b"" where the lines do not stand in it as they are.
    """
    taken: Bools = np.zeros(text.height, np.bool_)
    read: list[pl.DataFrame] = []
    if data:
        read, taken = reader.take(data, text)
    gates = pl.DataFrame({"sample": taken, "access": False})
    rest = text.filter(~gates["sample"]) if taken.any() else text
    line = pl.col("line").str
    marked = rest.select(
        sample=line.contains_any(GATES), access=line.contains(access.MARK, literal=True)
    )
    found = Found(read)
    if marked["sample"].any():
        alone = reader.read(rest.filter(marked["sample"]))
        found = Found(read + alone.frames, alone.damaged)
        if alone.others:
            marked = marked.with_columns(marked["sample"] & ~rest["off"].is_in(alone.others))
    if taken.any():
        at = np.flatnonzero(~taken)
        marked = gates.with_columns(
            gates[name].scatter(at, marked[name]) for name in marked.columns
        )
    return text.hstack(marked), found
