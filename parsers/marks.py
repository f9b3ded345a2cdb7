"""Lines that are no samples but dated facts: boots, milestones, overrides, faults, stops.

A rule names a literal that its lines contain (so that whole blocks are searched at once) and what
the line means. A mark is one such line, read; `ingest.runs` turns marks into runs and events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import polars as pl

from parsers import tracebacks
from parsers.block_text import Text
from parsers.harmless import DUMP, REQUEST, harmless
from parsers.heads import Head, last_stamp, read_head
from parsers.lines import any_of, holding
from parsers.records import RUNS
from parsers.rules import Rule, as_value
from parsers.server_args import redact_text
from parsers.tracebacks import Traceback

_EVIDENCE_CHARS = 2000


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
    effect: bool = False  # what another fault brought about
    borrowed: bool = False  # the stamp is that of a line above
    trace: Traceback | None = None


_NUMBERS = ("duration_s", "memory_gb")
_ONE = re.compile(r"(?<![\d.,])1 (request|token|block)s\b")  # a title counts in the plural


_compiled = cache(re.compile)  # when first asked for: a log needs few of all the rules


@dataclass(slots=True)
class Marker:
    """Reads marks out of blocks with the rules of one or more engines."""

    rules: Sequence[tuple[str | None, Rule]]
    salt: str = ""
    literals: str = field(init=False)  # a pattern of them

    def __post_init__(self) -> None:
        self.literals = any_of(tuple(sorted({rule.literal for _, rule in self.rules})))

    def read(
        self, text: Text, last: Head | None, final: bool = False
    ) -> tuple[list[Mark], int | None]:
        """Marks of a block's lines that are neither samples nor access lines.

        A line without a stamp, its wrapper's included, takes that of the nearest stamped line
        before it, or `last`.

        Returns:
            the marks in file order; and where among all lines a traceback begins that the block's
            end cut off, so that the next block can start with it, else None.
        """
        marks: list[Mark] = []
        others = ~(text.rest["sample"] | text.rest["access"])
        found = holding(text.rest, others, self.literals) if others.any() else text.rest.clear()
        if not found.height:
            return marks, None
        around = cache(text.whole)  # asked for where what stands around a line counts
        stamped = pl.col("wrap").is_not_null() if "wrap" in found.columns else pl.lit(False)
        for line, off, no, has_stamp in found.select("line", "off", "no", stamped).iter_rows():
            head = read_head(line)
            for mark in (self._mark(head, off, no), _harmless(head, off, no)):
                if mark is None:
                    continue
                if mark.kind in ("traceback", "fault") and tracebacks.MARK in line:
                    at = _place(around(), off)
                    trace = tracebacks.read(around()["line"], at, final)
                    if trace is None:
                        return marks, at
                    mark = _with_traceback(mark, trace)
                if mark.time is None and not has_stamp:
                    above = around()["line"].head(_place(around(), off))
                    before = last_stamp(above) or last
                    if before is not None:
                        mark = replace(mark, date=before.date, time=before.time, borrowed=True)
                marks.append(mark)
        return marks, None

    def _mark(self, head: Head, off: int, no: int) -> Mark | None:
        if REQUEST.match(head.message):
            return None
        dump = DUMP.match(head.message)
        for engine, rule in self.rules:
            if rule.literal not in head.message or (dump and rule.severity == "fault"):
                continue
            match = _compiled(rule.pattern).search(head.message) if rule.pattern else None
            if rule.pattern and match is None:
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
        if head.process and rule.severity != "info":
            data["process"] = head.process
        memory, seconds = (read.pop(n, groups.get(n)) for n in ("memory_gb", "duration_s"))
        return Mark(
            off=place[0],
            no=place[1],
            engine=engine,
            kind=rule.kind,
            severity=rule.severity,
            title=_ONE.sub(r"1 \1", rule.title.format(**groups)),
            date=head.date,
            time=head.time,
            evidence=redact_text(head.message[:_EVIDENCE_CHARS]) if rule.keep_text else None,
            duration_s=float(seconds) if seconds is not None else None,
            memory_gb=float(memory) if memory is not None else None,
            data=data or None,
            facts={k: v for k, v in groups.items() if k in RUNS} | read,
            boots=rule.boots,
            ends=rule.ends,
            effect=rule.effect,
        )


def _place(lines: pl.DataFrame, off: int) -> int:
    """Which of the lines begins at an offset."""
    return int(lines["off"].search_sorted(off, side="left"))


def _harmless(head: Head, off: int, no: int) -> Mark | None:
    """Of a line that only quotes the words of a fault, what it says and where."""
    found = harmless(head)
    if found is None:
        return None
    title, quote = found
    return Mark(
        off=off, no=no, engine=None, kind="harmless", severity="info", title=title,
        date=head.date, time=head.time, evidence=quote,
    )  # fmt: skip


def _with_traceback(mark: Mark, trace: Traceback) -> Mark:
    data = (mark.data or {}) | ({"frame": trace.frame} if trace.frame else {})
    return replace(mark, detail=trace.exception, data=data or None, trace=trace)
