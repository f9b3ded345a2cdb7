"""A block of bytes to all that can be told without the blocks before it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ingest import measure, rows_of
from parsers import access, lines, sglang, vllm, wrappers
from parsers.access import Access
from parsers.access_forms import AccessForms, Taken
from parsers.forms import Bools
from parsers.kernels import Block
from parsers.lines import FEW_LINES
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


@dataclass(frozen=True, slots=True)
class Readers:
    """What was learnt of a file's lines: it makes reading faster and changes nothing."""

    samples: Reader
    access: AccessForms = field(default_factory=AccessForms)


def scan(readers: Readers, data: bytes, offset: int, encoding: str | None) -> Scanned:
    """Read a block.

    Args:
        data: whole lines, the last one ended by a newline unless the file ends there.
        offset: bytes of the file before `data`.
        encoding: of a UTF-16 file, else None.
    """
    raw = lines.split(data, offset, encoding)
    text = wrappers.unwrap(raw)
    plain = text is raw and encoding is None
    if b"\r" in data or not plain:
        text = lines.apart(text, "\r", 2 if encoding else 1)
    text, found, requests = _marked(readers, data if plain else b"", text)
    asked, text = rows_of.find_requests(text)
    text, seen = access.read(text, readers.access, requests)
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


def _looks(lines: pl.Series) -> tuple[Bools, Bools]:
    """Which lines may hold a sample, and which an access line."""
    if lines.len() <= FEW_LINES:
        texts = lines.to_list()
        samples = [any(gate in text for gate in GATES) for text in texts]
        return np.array(samples, np.bool_), np.array([access.MARK in t for t in texts], np.bool_)
    found = lines.to_frame("line").select(
        sample=pl.col("line").str.contains_any(GATES),
        access=pl.col("line").str.contains(access.MARK, literal=True),
    )
    return found["sample"].to_numpy(writable=True), found["access"].to_numpy()


def _widened(printed: pl.DataFrame, text: pl.DataFrame) -> pl.DataFrame:
    """Samples of UTF-16 at their places: one behind another in a line is twice as far from its
    start as in the text."""
    starts = printed.join_asof(text.select("off", start="off"), on="off")["start"]
    return printed.with_columns(off=2 * pl.col("off") - starts)


def _marked(
    readers: Readers, data: bytes, text: pl.DataFrame
) -> tuple[pl.DataFrame, Found, pl.DataFrame]:
    """What the lines are.

    Args:
        data: the block, b"" where the lines do not stand in it as they are.

    Returns:
        the lines with columns sample and access; their samples; and those access lines that a
        form has read.
    """
    sample: Bools = np.zeros(text.height, np.bool_)
    frames: list[pl.DataFrame] = []
    requests: list[Taken] = []
    if data:
        block = Block.of(data, text["off"].to_numpy())
        frames, sample = readers.samples.take(block, text)
        requests = readers.access.take(block, ~sample)
    asked: Bools = np.zeros(text.height, np.bool_)
    for of_form in requests:
        asked[of_form.rows] = True
    left = np.flatnonzero(~(sample | asked))
    rest = text[left] if len(left) < text.height else text
    maybe, asked[left] = _looks(rest["line"])
    found = Found(frames)
    if maybe.any():
        alone = readers.samples.read(rest if maybe.all() else rest.filter(pl.Series(maybe)))
        found = Found(frames + alone.frames, alone.damaged)
        if alone.others:
            maybe &= ~np.isin(rest["off"].to_numpy(), alone.others)
    sample[left] = maybe
    text = text.hstack([pl.Series("sample", sample), pl.Series("access", asked)])
    return text, found, access.by_form(requests, text)
