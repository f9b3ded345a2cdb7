"""Lines that are no samples but dated facts: boots, milestones, overrides, faults, stops.

A rule names a literal that its lines contain (so that whole blocks are searched at once) and what
the line means. A mark is one such line, read; `ingest.runs` turns marks into runs and events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from parsers.lines import peel, unwrap_json
from parsers.records import RUNS
from parsers.server_args import redact_text

_STAMP = re.compile(
    r"\[(?:(?P<d1>[0-9]{4}-[0-9]{2}-[0-9]{2}) )?"
    r"(?P<t1>[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,6})?)(?P<ranks>(?: [A-Z][A-Z_]*[0-9]+)*)\] "
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<d2>[0-9]{2}-[0-9]{2})"
    r" (?P<t2>[0-9]{2}:[0-9]{2}:[0-9]{2}) \[?[^\]\[\s]+:[0-9]+\] ?"
)
_ISO = re.compile(
    r"(?P<d1>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T](?P<t1>[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,6})?)"
)
_CLOCK = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
# Lines that quote what a client sent: any word can stand in them.
_REQUEST = re.compile(r"(?:Receive|Finish)(?: OpenAI)?: obj=|Received request |Generated response ")
_UVICORN = re.compile(r"(?:INFO|WARNING|ERROR): {3,}")
TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::|$)")
_EVIDENCE_CHARS = 2000
_TRACEBACK_LINES = 400


@dataclass(frozen=True, slots=True)
class Head:
    """The printed stamp of a line and the message after it."""

    date: str | None
    time: str | None
    message: str
    ranks: str = ""
    bare: bool = False  # no logger wrote this line


@dataclass(frozen=True, slots=True)
class Mark:
    """One line that says something about the run it stands in."""

    off: int
    no: int
    engine: str | None
    kind: str
    severity: str
    title: str
    date: str | None = None
    time: str | None = None
    detail: str | None = None
    evidence: str | None = None
    duration_s: float | None = None
    memory_gb: float | None = None
    data: dict[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # columns of the run card this line gives
    boots: bool = False  # a boot-class line: may open a run
    ends: str | None = None  # stopped, crashed


@dataclass(frozen=True, slots=True)
class Rule:
    """What lines with a certain text mean.

    `pattern` is searched in the message (after stamp and wrappers); its groups may be named
    duration_s, memory_gb or after columns of the run card, all others become the event's data.
    `title` is formatted with the groups. `read` adds facts that need more than groups, from the
    message and the salt of its secrets' hashes; its "data" is the event's. `sets` names the
    argument that an override's line changes; the group "effective" says to what, else `to`.
    """

    literal: str
    kind: str
    title: str
    pattern: str | None = None
    severity: str = "info"
    boots: bool = False
    ends: str | None = None
    read: Callable[[str, str], dict[str, Any]] | None = None
    sets: str | None = None
    to: Any = None
    keep_text: bool = True  # False where the whole line is stored another way (an args dump)


_NUMBERS = ("duration_s", "memory_gb")
_NUMERIC = re.compile(r"-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?$")


@dataclass(slots=True)
class Marker:
    """Reads marks out of blocks with the rules of one or more engines."""

    rules: Sequence[tuple[str | None, Rule]]
    salt: str = ""
    _compiled: list[tuple[str | None, Rule, re.Pattern[str] | None]] = field(init=False)
    literals: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._compiled = [
            (engine, rule, re.compile(rule.pattern) if rule.pattern else None)
            for engine, rule in self.rules
        ]
        self.literals = sorted({rule.literal for _, rule in self.rules})

    def read(
        self, lines: pl.DataFrame, others: pl.Series, last: Head | None, final: bool = False
    ) -> tuple[list[Mark], int | None]:
        """Marks of a block of lines (columns line, off, no); `others` says which of them are
        neither samples nor access lines.

        A line without a stamp, its wrapper's included, takes that of the nearest stamped line
        before it, or `last`.

        Returns:
            the marks in file order; and where in `lines` a traceback begins that the block's end
            cut off, so that the next block can start with it, else None.
        """
        marks: list[Mark] = []
        found = lines.with_row_index("at").filter(others)
        found = found.filter(pl.col("line").str.contains_any(self.literals))
        stamped = pl.col("wrap").is_not_null() if "wrap" in lines.columns else pl.lit(False)
        for line, off, no, at, has_stamp in found.select(
            "line", "off", "no", "at", stamped
        ).iter_rows():
            mark = self._mark(line, off, no)
            if mark is None:
                continue
            if mark.kind in ("traceback", "fault") and TRACEBACK in line:
                exception = exception_after(lines["line"], at)
                if exception is None and not final:
                    return marks, at
                mark = replace(mark, detail=exception or None)
            if mark.time is None and not has_stamp:
                before = last_stamp(lines, at) or last
                if before is not None:
                    mark = replace(mark, date=before.date, time=before.time)
            marks.append(mark)
        return marks, None

    def _mark(self, line: str, off: int, no: int) -> Mark | None:
        head = read_head(line)
        if _REQUEST.match(head.message):
            return None
        for engine, rule, pattern in self._compiled:
            if rule.literal not in head.message:
                continue
            match = pattern.search(head.message) if pattern else None
            if pattern and match is None:
                continue
            return self._made(engine, rule, match, head, (off, no))
        return None

    def _made(
        self,
        engine: str | None,
        rule: Rule,
        match: re.Match[str] | None,
        head: Head,
        place: tuple[int, int],
    ) -> Mark:
        groups = {k: v for k, v in (match.groupdict() if match else {}).items() if v is not None}
        read = rule.read(head.message, self.salt) if rule.read else {}
        data = {k: as_value(v) for k, v in groups.items() if k not in _NUMBERS and k not in RUNS}
        data |= read.pop("data", {})
        if rule.sets:
            effective = groups.get(rule.sets, groups.get("effective"))
            value = rule.to if effective is None else as_value(effective)
            data = {"name": rule.sets, "given": None, "effective": value} | {
                k: v for k, v in data.items() if k != "effective"
            }
        if head.ranks:
            data["rank"] = head.ranks.strip()
        memory, seconds = (read.pop(n, groups.get(n)) for n in ("memory_gb", "duration_s"))
        return Mark(
            off=place[0],
            no=place[1],
            engine=engine,
            kind=rule.kind,
            severity=rule.severity,
            title=rule.title.format(**groups),
            date=head.date,
            time=head.time,
            evidence=redact_text(head.message[:_EVIDENCE_CHARS]) if rule.keep_text else None,
            duration_s=float(seconds) if seconds is not None else None,
            memory_gb=float(memory) if memory is not None else None,
            data=data or None,
            facts={k: v for k, v in groups.items() if k in RUNS} | read,
            boots=rule.boots,
            ends=rule.ends,
        )


def as_value(text: str | None) -> Any:
    """A printed value: a number where it is one, also with a comma every three digits."""
    if text is None or not _NUMERIC.match(text):
        return {"True": True, "False": False}.get(text or "", text and redact_text(text))
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def read_head(line: str) -> Head:
    """The stamp and message of any line; wrappers, colours and JSON taken off."""
    text = peel(line)
    wrapped = unwrap_json(text)
    if wrapped:
        message, fields = wrapped
        stamp = _ISO.search(str(fields.get("asctime") or fields.get("time") or ""))
        if stamp:
            return Head(stamp["d1"], stamp["t1"], message)
        text = peel(message)
    match = _STAMP.match(text) or _STAMP.search(text[:400])
    if match is None:
        iso = _ISO.search(line[: len(line) - len(text)] or text[:40])
        uvicorn = _UVICORN.match(text)
        message = text[uvicorn.end() :] if uvicorn else text
        return Head(
            iso["d1"] if iso else None, iso["t1"] if iso else None, message, bare=not uvicorn
        )
    message = text[match.end() :]
    uvicorn = _UVICORN.match(message)
    return Head(
        match["d1"] or match["d2"],
        match["t1"] or match["t2"],
        message[uvicorn.end() :] if uvicorn else message,
        match["ranks"] or "",
    )


def last_stamp(lines: pl.DataFrame, at: int) -> Head | None:
    """The stamp of the nearest stamped line above row `at`; without its message, which may hold
    secrets: it is kept with the checkpoint."""
    above = lines["line"].slice(0, at)
    for part in (above.tail(20), above):  # mostly the line above has one: no need to search all
        for line in reversed(part.filter(part.str.contains(_CLOCK)).to_list()):
            head = read_head(line[:600])
            if head.time:
                return Head(head.date, head.time, "")
    return None


def exception_after(lines: pl.Series, at: int) -> str | None:
    """The exception that ends the traceback on line `at`.

    Returns:
        its text; "" where other lines follow and none is found; None where the block ends first.
    """
    window = lines.slice(at + 1, _TRACEBACK_LINES).to_list()
    bare = read_head(window[0]).bare if window else True
    for line in window:
        head = read_head(line)
        message = head.message
        if bare and head.time is not None:
            return ""  # other lines follow: nothing to wait for
        if head.bare != bare or not message.strip() or message[0] in " \t":
            continue
        if _EXCEPTION.match(message):
            return redact_text(message.strip()[:_EVIDENCE_CHARS])
        if not message.startswith("Traceback"):
            return ""
    return "" if len(window) == _TRACEBACK_LINES else None
