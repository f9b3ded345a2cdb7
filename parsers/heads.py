"""Heads of lines: what stamp, ranks and process stand before a message."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from parsers.lines import peel, unwrap_json
from parsers.records import FEW_ROWS

_STAMP = re.compile(
    r"\[(?:(?P<d1>[0-9]{4}-[0-9]{2}-[0-9]{2}) )?"
    r"(?P<t1>[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,6})?)(?P<ranks>(?: [A-Z][A-Z_]*[0-9]+)*)\] "
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<d2>[0-9]{2}-[0-9]{2})"
    r" (?P<t2>[0-9]{2}:[0-9]{2}:[0-9]{2}) \[?[^\]\[\s]+:[0-9]+\] ?"
)
_ISO = re.compile(
    r"(?P<d1>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T](?P<t1>[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,6})?)"
)
_CLOCK = re.compile("[0-9]{2}:[0-9]{2}:[0-9]{2}")
_UVICORN = re.compile(r"(?:INFO|WARNING|ERROR): {3,}")
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z][\w.-]*(?: [\w=]+)?) pid=(?P<pid>[0-9]+)|\[(?P<rank>rank[0-9]+)\]: "
)


@dataclass(frozen=True, slots=True)
class Head:
    """The printed stamp of a line and the message after it."""

    date: str | None
    time: str | None
    message: str
    ranks: str = ""
    bare: bool = False  # no logger wrote this line
    process: str = ""  # "EngineCore_DP0 pid=120", or torch's "rank1", as printed before it


def read_head(line: str) -> Head:
    """The stamp and message of any line; wrappers, colours and JSON taken off."""
    text = peel(line)
    process = _process(line[: len(line) - len(text)]) if text != line else ""
    wrapped = unwrap_json(text)
    if wrapped:
        message, fields = wrapped
        stamp = _ISO.search(str(fields.get("asctime") or fields.get("time") or ""))
        if stamp:
            return Head(stamp["d1"], stamp["t1"], message, process=process)
        text = peel(message)
    match = _STAMP.match(text) or _STAMP.search(text[:400])
    if match is None:
        iso = _ISO.search(line[: len(line) - len(text)] or text[:40])
        uvicorn = _UVICORN.match(text)
        message = text[uvicorn.end() :] if uvicorn else text
        return Head(
            iso["d1"] if iso else None,
            iso["t1"] if iso else None,
            message,
            bare=not uvicorn,
            process=process,
        )
    message = text[match.end() :]
    uvicorn = _UVICORN.match(message)
    return Head(
        match["d1"] or match["d2"],
        match["t1"] or match["t2"],
        message[uvicorn.end() :] if uvicorn else message,
        match["ranks"] or "",
        process=process or _process(text[: match.start()]),
    )


def _process(before: str) -> str:
    """The process that the text before a message names last."""
    found = [*_PROCESS.finditer(before)]
    if not found:
        return ""
    return found[-1]["rank"] or f"{found[-1]['name']} pid={found[-1]['pid']}"


def first_stamp(below: pl.DataFrame) -> tuple[int, Head] | None:
    """Where among these lines (line, off) the first one with a stamp stands, and its stamp."""
    for line, off in below.select("line", "off").iter_rows():
        head = read_head(line[:600]) if _CLOCK.search(line[:600]) else None
        if head is not None and head.time:
            return off, Head(head.date, head.time, "")
    return None


def last_stamp(above: pl.Series) -> Head | None:
    """The stamp of the last of these lines that has one; without its message, which may hold
    secrets: it is kept with the checkpoint."""
    for part in (above.tail(20), above):  # mostly the line above has one: no need to search all
        if part.len() > FEW_ROWS:
            part = part.filter(part.str.contains(_CLOCK.pattern))
        for line in reversed(part.to_list()):
            head = read_head(line[:600]) if _CLOCK.search(line) else None
            if head is not None and head.time:
                return Head(head.date, head.time, "")
    return None
