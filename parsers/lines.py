"""Bytes to lines with their places, and what a wrapper put around a line taken off again.

Offsets are bytes of the file, so they are taken from the raw bytes and never from decoded text.
"""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl

ANSI = re.compile(r"\x1b?\[[0-9;]*m")
# Bytes that stand in a log for no text: NUL from preallocated blocks, its caret spelling.
_NOISE = re.compile(r"\x00|\^@|\x1b\[[0-9;]*[A-Za-z]|\[[0-9]+(?:;[0-9]+)*m|\*\*")

# What stands before a record and is none of it, peeled from the left as often as it matches.
_PEEL = re.compile(
    r"""(?x)\s*(?:
    [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:?[0-9]{2})\s (?:(?:stdout|stderr)\s[FP]\s)?
  | [\w.@/-]*\s*\|\s
  | \([A-Za-z][\w.-]*(?:\s[\w=.-]+)*\spid=[0-9]+(?:,\sip=[0-9a-fA-F.:]+)?\)\s?
  | \[pod/[^\]]+\]\s
  | [0-9]{1,4}:\s(?=[\[(A-Z])
  )"""
)
_JSON_TEXT = ("message", "log", "MESSAGE", "msg")


def split(data: bytes, offset: int) -> pl.DataFrame:
    """Lines of a block as a frame.

    Args:
        data: whole lines; the last one may lack its newline.
        offset: bytes of the file before `data`.

    Returns:
        columns line (text without its newline), off (byte of its start), no (lines before it).
    """
    try:
        text = pl.read_lines(data)
    except pl.exceptions.ComputeError:  # some byte is no UTF-8: replaced, places kept from `data`
        text = pl.read_lines(data.decode("utf-8", "replace").encode())
    if data.isascii() and b"\r" not in data:  # the length of a line is that of its bytes
        sizes = text["line"].str.len_bytes().to_numpy()
        starts = pl.Series(
            np.cumsum(sizes, dtype=np.int64) - sizes + np.arange(len(sizes)) + offset
        )
    else:
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
        starts = pl.Series(np.append(0, ends + 1)[: text.height] + offset)
    return text.with_columns(off=starts, no=pl.int_range(text.height, dtype=pl.Int64))


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
