"""Bytes to lines with their places, and what a wrapper put around a line taken off again.

Offsets are bytes of the file, so they are taken from the raw bytes and never from decoded text.
"""

from __future__ import annotations

import json
import re
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl

from parsers import kernels
from parsers.records import FEW_ROWS

# Bytes that stand in a log for no text: NUL from preallocated blocks, its caret spelling.
_NOISE = re.compile(r"\x00|\^@|\x1b\[[0-9;]*[A-Za-z]|\[[0-9]+(?:;[0-9]+)*m|\*\*")

# What stands before a record and is none of it, peeled from the left as often as it matches.
_PEEL = re.compile(
    r"""(?x)\s*(?:
    [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:?[0-9]{2})\s (?:(?:stdout|stderr)\s[FP]\s)?
  | [\w.@/-]*\s*\|\s
  | \([A-Za-z][\w.-]*(?:\s[\w=.-]+)*\spid=[0-9]+(?:,\sip=[0-9a-fA-F.:]+)?\)\s?
  | \[pod/[^\]]+\]\s
  | \[rank[0-9]+\]:\s
  | [0-9]{1,4}:\s(?=[\[(A-Z])
  )"""
)
_JSON_TEXT = ("message", "log", "MESSAGE", "msg")
# So few bytes are cut line by line, as so few rows (FEW_ROWS) are looked at one by one: a log
# that is followed gives a few at a time.
_FEW_BYTES = 1 << 16
_PACKED = (b"\x1f\x8b", b"x\x01", b"x^", b"x\x9c", b"x\xda", b"\x28\xb5\x2f\xfd")


def wide_encoding(head: bytes) -> str | None:
    """The name of a file's encoding where it is UTF-16: by its byte order mark, or by Latin text
    whose every other byte is zero (Windows PowerShell writes it where output is redirected)."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") and 0 in head:
        return "utf-16-le" if head[0] == 0xFF else "utf-16-be"
    pairs = len(head) // 2
    if pairs <= 8:
        return None
    first, second = head[: 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
    if min(first, second) >= pairs / 10 or max(first, second) <= pairs * 9 / 10:
        return None
    return "utf-16-le" if second > first else "utf-16-be"


def split(data: bytes, offset: int, encoding: str | None = None) -> pl.DataFrame:
    """Lines of a block as a frame.

    Args:
        data: whole lines; the last one may lack its newline.
        offset: bytes of the file before `data`.
        encoding: of a UTF-16 file, else None.

    Returns:
        columns line (text without its newline), off (byte of its start), no (lines before it).
    """
    if encoding:
        return _split_wide(data, offset, encoding)
    text = _texts(data)
    n = len(text)
    starts = np.append(0, kernels.newlines(data) + 1)[:n] + offset
    return pl.DataFrame([text, pl.Series("off", starts), pl.Series("no", np.arange(n))])


def of_block(block: kernels.Block, at: npt.NDArray[np.int64], first: int = 0) -> pl.DataFrame:
    """Some lines of a block as a frame like that of `split`.

    Args:
        at: which lines.
        first: number of the block's first line.
    """
    data = block.data if len(at) == block.lines else kernels.gather(block, at)
    off, no = block.starts[at] + block.offset, at + first
    return pl.DataFrame([_texts(data), pl.Series("off", off), pl.Series("no", no)])


def _texts(data: bytes) -> pl.Series:
    """Column line."""
    if len(data) <= _FEW_BYTES:
        return _few_lines(data)
    try:
        return _lines(data)["line"]
    except pl.exceptions.ComputeError:  # some byte is no UTF-8: replaced, places kept
        return _lines(data.decode("utf-8", "replace").encode())["line"]


def _few_lines(data: bytes) -> pl.Series:
    """What `_lines` gives; it takes a while to begin."""
    pieces = data.decode("utf-8", "replace").split("\n")
    if not pieces[-1]:
        pieces.pop()
    return pl.Series("line", [piece.removesuffix("\r") for piece in pieces], dtype=pl.String())


def _lines(data: bytes) -> pl.DataFrame:
    """Column line. What begins like a packed file, polars would unpack: even "x^2"."""
    if data.startswith(_PACKED):
        return pl.read_lines(b"\n" + data).slice(1)
    return pl.read_lines(data)


@cache
def any_of(texts: tuple[str, ...]) -> str:
    """A pattern for lines that hold one of these texts: polars keeps it, where it would make what
    `contains_any` looks for anew each time."""
    return "|".join(map(pl.escape_regex, texts))


def holding(text: pl.DataFrame, among: pl.Series, pattern: str) -> pl.DataFrame:
    """Those lines (column line) in which a pattern is found that means the same to both engines.

    Args:
        among: which lines are searched.
    """
    if text.height > FEW_ROWS:
        return text.filter(among).filter(pl.col("line").str.contains(pattern))
    search = _compiled(pattern).search
    lines = zip(text["line"].to_list(), among.to_list(), strict=True)
    found = [searched and search(line) is not None for line, searched in lines]
    return text.filter(pl.Series(found)) if any(found) else text.clear()


_compiled = cache(re.compile)


def is_open(data: bytes, encoding: str | None) -> bool:
    """Whether the last line of a block has no newline yet."""
    # In UTF-16 of Windows a block may end with the first half of a newline: blocks are cut there.
    return bool(data) and not data.endswith((b"\n", b"\n\0") if encoding == "utf-16-le" else b"\n")


def _split_wide(data: bytes, offset: int, encoding: str) -> pl.DataFrame:
    """Lines of UTF-16. A block is cut after the byte 10, which is half of a newline: the other
    half, if it follows, begins the next line. Units begin at even offsets of the file."""
    pieces = data.split(b"\n")
    if pieces[-1] in (b"", b"\0"):
        pieces.pop()
    texts, starts = [], []
    for piece in pieces:
        units = piece[offset % 2 :]
        decoded = units[: len(units) // 2 * 2].decode(encoding, "replace")
        texts.append(decoded.lstrip("\ufeff"))
        starts.append(offset + offset % 2 + 2 * (len(decoded) - len(texts[-1])))
        offset += len(piece) + 1
    return pl.DataFrame(
        {"line": texts, "off": starts, "no": range(len(texts))},
        schema={"line": pl.String, "off": pl.Int64, "no": pl.Int64},
    )


def apart(text: pl.DataFrame, mark: str, width: int = 1) -> pl.DataFrame:
    """Lines that hold several, parted by a mark: each at its own place, with the same number.

    Args:
        width: bytes of the file for one byte of text.
    """
    several = text["line"].str.contains(mark, literal=True)
    if not several.any():
        return text
    several &= text["line"].str.strip_chars_end("\r").str.contains(mark, literal=True)
    if not several.any():
        return text
    size = (pl.element().str.len_bytes().cast(pl.Int64) + 1) * width
    pieces = pl.col("line").str.split(mark)
    parted = (
        text.filter(several)
        .with_columns(line=pieces)
        .with_columns(at=pl.col("line").list.eval(size.cum_sum().shift(1, fill_value=0)))
        .explode("line", "at")
        .with_columns(off=pl.col("off") + pl.col("at"))
        .drop("at")
    )
    return pl.concat([text.filter(~several), parted]).sort("off", maintain_order=True)


def peel(text: str) -> str:
    """The line without what containers, schedulers and actors put in front of it."""
    text = _NOISE.sub("", text)
    while match := _PEEL.match(text):
        text = text[match.end() :]
    return text.rpartition("\r")[2] if "\r" in text.rstrip("\r") else text


def clean(text: str) -> str:
    """The line without colours, NULs and Markdown emphasis; wrappers stay."""
    return _NOISE.sub("", text)


def unwrap_json(text: str) -> tuple[str, dict[str, object]] | None:
    """Message and fields of a line that is one JSON record, else None."""
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        return None
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    for key in _JSON_TEXT:
        if isinstance(fields.get(key), str):
            return fields[key].rstrip("\n"), fields
    return None
