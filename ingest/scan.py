"""A block of bytes to all that can be told without the blocks before it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from ingest import measure, rows_of
from parsers import access, forms, lines, sglang, vllm, wrappers
from parsers.access import Access
from parsers.access_forms import MARK, AccessForms, Taken
from parsers.block_text import BARE, LEFT, SAMPLE, STAMPED, Kinds, Text
from parsers.forms import Bools
from parsers.kernels import Block
from parsers.lines import any_of
from parsers.records import FEW_ROWS
from parsers.requests import Request
from parsers.samples import Damaged, Found, Reader

_COUNTED_BYTES = 1 << 20
GATES = [*sglang.GATES, *vllm.GATES]
_ANY_GATE = any_of(tuple(GATES))


@dataclass(frozen=True, slots=True)
class Scanned:
    """A block read as far as it can be without knowing the blocks before."""

    text: Text  # with sample and access; numbers from 0
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


@dataclass(frozen=True, slots=True)
class _Read:
    """A block after the forms: what they read, and the lines that are left."""

    text: Text
    samples: list[pl.DataFrame] = field(default_factory=list)
    access: list[Taken] = field(default_factory=list)


def scan(readers: Readers, data: bytes, offset: int, encoding: str | None) -> Scanned:
    """Read a block.

    Args:
        data: whole lines, the last one ended by a newline unless the file ends there.
        offset: bytes of the file before `data`.
        encoding: of a UTF-16 file, else None.
    """
    read = None if encoding else _by_forms(readers, data, offset)
    if read is None:
        read = _Read(Text(_unwrapped(data, offset, encoding)))
    text, found = _marked(readers, read)
    asked, text = rows_of.find_requests(text)
    text, seen = access.read(text, readers.access, read.access)
    printed = measure.together(found.frames)
    return Scanned(
        text,
        _widened(printed, text.rest) if encoding else printed,
        found.damaged,
        asked,
        seen,
        offset + len(data),
        read.text.block.ended if read.text.block else data.count(b"\n"),
    )


def _unwrapped(data: bytes, offset: int, encoding: str | None) -> pl.DataFrame:
    """Lines without their wrappers, those that a bar's carriage returns part by themselves."""
    raw = lines.split(data, offset, encoding)
    text = wrappers.unwrap(raw)
    plain = text is raw and encoding is None and b"\r" not in data
    return text if plain else lines.apart(text, "\r", 2 if encoding else 1)


def _looks(lines: pl.Series) -> tuple[Bools, Bools]:
    """Which lines may hold a sample, and which an access line."""
    if lines.len() <= FEW_ROWS:
        texts = lines.to_list()
        samples = [any(gate in text for gate in GATES) for text in texts]
        return np.array(samples, np.bool_), np.array([MARK in t for t in texts], np.bool_)
    found = lines.to_frame("line").select(
        sample=pl.col("line").str.contains(_ANY_GATE),
        access=pl.col("line").str.contains(MARK, literal=True),
    )
    return found["sample"].to_numpy(writable=True), found["access"].to_numpy()


def _widened(printed: pl.DataFrame, text: pl.DataFrame) -> pl.DataFrame:
    """Samples of UTF-16 at their places: one behind another in a line is twice as far from its
    start as in the text."""
    starts = printed.join_asof(text.select("off", start="off"), on="off")["start"]
    return printed.with_columns(off=2 * pl.col("off") - starts)


def _by_forms(readers: Readers, data: bytes, offset: int) -> _Read | None:
    """A large block of plain lines, nearly all read by their forms; None for any other."""
    if not forms.pay(data.count(b"\n", 0, _COUNTED_BYTES)):
        return None
    block = Block.split(data, offset)
    head = lines.of_block(block, np.arange(min(forms.FEWEST, block.lines)))
    if wrappers.wrapped(head).height:
        return None
    samples, sampled = readers.samples.take(block, head)
    kinds: Kinds = np.where(sampled, np.uint8(SAMPLE), np.uint8(LEFT))
    requests = readers.access.take(block, head, ~sampled)
    for of_form in requests:
        kinds[of_form.rows] = STAMPED if of_form.stamped else BARE
    rest = lines.of_block(block, np.flatnonzero(kinds == LEFT))
    if wrappers.wrapped(rest).height:
        return None
    return _Read(Text(lines.apart(rest, "\r"), block, kinds), samples, requests)


def _marked(readers: Readers, read: _Read) -> tuple[Text, Found]:
    """The lines with columns sample and access, and their samples."""
    rest = read.text.rest
    sample, asked = _looks(rest["line"])
    found = Found(read.samples)
    if sample.any():
        alone = readers.samples.read(rest if sample.all() else rest.filter(pl.Series(sample)))
        found = Found(read.samples + alone.frames, alone.damaged)
        if alone.others:
            sample &= ~np.isin(rest["off"].to_numpy(), alone.others)
    rest = rest.hstack([pl.Series("sample", sample), pl.Series("access", asked)])
    return replace(read.text, rest=rest), found
