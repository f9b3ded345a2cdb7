"""Periodic lines of either engine, found anywhere in a line, to columns.

Every line that may hold a sample is first tried against the patterns learnt so far, all lines at
once. The first line that fits none is read by itself; if it is one whole record, its pattern joins
the others, else (glued, torn, coloured, wrapped oddly) it is read alone. `Reader` keeps patterns
between blocks: they make it fast and never change what is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from parsers import forms, keyvalue
from parsers.forms import Bools, Ints, Place
from parsers.kernels import Block
from parsers.keyvalue import Field
from parsers.lines import clean
from parsers.record_search import (
    PRINTED,
    QUOTING,
    RECORD_START,
    Kind,
    read_one,
    records_of,
)
from parsers.records import FEW_ROWS, TEXT
from parsers.sample_columns import AS_PRINTED, to_columns

_MAX_PATTERNS = 48
_RANKS = r"(?: [A-Z][A-Z_]*[0-9]+)*"


@dataclass(frozen=True, slots=True)
class _Pattern:
    kind: Kind
    gate: str  # a text that all its lines contain
    regex: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Damaged:
    """A line that starts like a sample and could not be read as one."""

    off: int
    text: str
    kind: str = "damaged"  # unknown: it begins like no release that is known


@dataclass(slots=True)
class Found:
    """What candidate lines hold.

    Attributes:
        frames: PRINTED plus engine, kind and the contract columns each shape has, in no order.
        damaged: lines that could not be read.
        others: offsets of candidates that are no samples at all.
    """

    frames: list[pl.DataFrame] = field(default_factory=list)
    damaged: list[Damaged] = field(default_factory=list)
    others: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Reader:
    """Reads samples out of candidate lines; `kinds` are tried in order. A message that `looks`
    like a sample and is of none of them is told as unknown."""

    kinds: Sequence[Kind]
    gates: Sequence[str]  # each line that may hold a sample contains one of these
    looks: re.Pattern[str] = re.compile(r"(?!)")
    _patterns: list[_Pattern] = field(default_factory=list)
    _forms: list[tuple[Kind, forms.Form]] = field(default_factory=list)

    def take(self, block: Block, head: pl.DataFrame) -> tuple[list[pl.DataFrame], Bools]:
        """Samples of those lines that have a form known so far, read straight from the bytes.

        Args:
            block: lines in no wrapper.
            head: the first ones: columns line, off, no.

        Returns:
            frames as of `read`; and which lines they were.
        """
        taken: Bools = np.zeros(block.lines, np.bool_)
        frames: list[pl.DataFrame] = []
        if not self._forms:
            self._learn_forms(head.filter(pl.col("line").str.contains_any(list(self.gates))))
        for kind, form in list(self._forms):
            rows, values = form.take(block, np.flatnonzero(~taken))
            if len(rows):
                places = {"off": block.starts[rows] + block.offset, "no": rows}
                found = _found({**places, **form.places(block, rows)}, values)
                frames.append(to_columns(kind, found, list(values)))
                taken[rows] = True
        return frames, taken

    def _learn_forms(self, lines: pl.DataFrame) -> None:
        """The patterns of candidate lines, and a form of each."""
        self.read(lines)
        for pattern in self._patterns:
            for line in lines["line"].filter(lines["line"].str.contains(pattern.regex)).head(1):
                self._learn_form(pattern, line)

    def read(self, lines: pl.DataFrame) -> Found:
        """Samples of candidate lines (columns line, off, no)."""
        frames: list[pl.DataFrame] = []
        odd: list[pl.DataFrame] = []
        rest = lines
        for pattern in list(self._patterns):
            rest = self._take(pattern, rest, frames)
        budget = _MAX_PATTERNS
        while rest.height and budget:
            budget -= 1
            pattern_or_none = self._learn(rest.item(0, "line"))
            before = rest.height
            if pattern_or_none is not None:
                rest = self._take(pattern_or_none, rest, frames)
            if rest.height == before:
                odd.append(rest.head(1))
                rest = rest.slice(1)
            elif pattern_or_none is not None:
                self._remember(pattern_or_none)
        found = self._read_alone(pl.concat([*odd, rest]) if odd else rest)
        found.frames += frames
        return found

    def _take(
        self, pattern: _Pattern, lines: pl.DataFrame, frames: list[pl.DataFrame]
    ) -> pl.DataFrame:
        """Reads the lines that fit into `frames`; returns the others."""
        if lines.height <= FEW_ROWS:
            return self._take_few(pattern, lines, frames)
        gated = lines["line"].str.contains(pattern.gate, literal=True)
        maybe = lines if gated.all() else lines.filter(gated)
        values = _by_regex(pattern, maybe["line"])
        fits = values["v0"].is_not_null()
        if not fits.any():
            return lines
        found = maybe.select(pl.col("off", "no").name.prefix(AS_PRINTED)).hstack(
            values.rename({f"v{i}": label for i, label in enumerate(pattern.labels)})
        )
        whole = bool(fits.all())
        kept = found if whole else found.filter(fits)
        frames.append(to_columns(pattern.kind, kept, pattern.labels))
        self._learn_form(pattern, maybe["line"].filter(fits)[0])
        rest = lines.clear() if maybe.height == lines.height else lines.filter(~gated)
        return rest if whole else pl.concat([rest, maybe.filter(~fits)]).sort("off")

    def _take_few(
        self, pattern: _Pattern, lines: pl.DataFrame, frames: list[pl.DataFrame]
    ) -> pl.DataFrame:
        """The same, line by line."""
        match = _compiled(pattern.regex).match
        matches = [match(line) for line in lines["line"].to_list()]
        fits = [m is not None for m in matches]
        if not any(fits):
            return lines
        values = zip(*(m.groups() for m in matches if m), strict=True)
        columns = [
            pl.Series(label, value, dtype=TEXT)
            for label, value in zip(_groups(pattern), values, strict=True)
        ]
        whole = all(fits)
        fitting = pl.Series(fits)
        places = (lines[name].alias(AS_PRINTED + name) for name in ("off", "no"))
        kept = [place if whole else place.filter(fitting) for place in places]
        frames.append(to_columns(pattern.kind, pl.DataFrame([*kept, *columns]), pattern.labels))
        return lines.clear() if whole else lines.filter(~fitting)

    def _learn(self, line: str) -> _Pattern | None:
        if len(RECORD_START.findall(line)) > 1 or next(records_of(line))[0]:
            return None  # several records, or one behind the rest of a progress bar
        record = read_one(self.kinds, line)
        if record is None or not record.plain or not record.fields:
            return None
        if "time" not in record.printed and clean(line) != line:
            return None  # colours inside the stamp
        spans = [
            (
                at,
                end,
                f"(?P<{AS_PRINTED}{name}>{_RANKS if name == 'ranks' else keyvalue.blank(value)})",
            )
            for name, (value, at, end) in _with_stamp(record.printed, line).items()
        ]
        spans += [
            (f.start, f.end, keyvalue.value_pattern(f.value, f"v{i}"))
            for i, f in enumerate(record.fields)
        ]
        regex, at = "^", 0
        for start, end, piece in sorted(spans):
            regex += keyvalue.blank(line[at:start]) + piece
            at = end
        rest = line[at:]
        # No "." in the loose end: it would be ambiguous after a number, and the regex engine
        # reads unambiguous patterns several times faster.
        regex += "[, \t\r]*$" if not rest.strip(", \t\r") else keyvalue.blank(rest) + "$"
        labels = tuple(f.key for f in record.fields)
        return _Pattern(record.kind, _gate(line, record.fields[0]), regex, labels)

    def _learn_form(self, pattern: _Pattern, line: str) -> None:
        """Of lines that a pattern takes those like this one will be read by their form."""
        record = read_one(self.kinds, line)
        if record is not None and len(self._forms) < _MAX_PATTERNS:
            form = forms.learn(line, _with_stamp(record.printed, line), record.fields)
            if form is not None and (pattern.kind, form) not in self._forms:
                self._forms.append((pattern.kind, form))

    def _read_alone(self, lines: pl.DataFrame) -> Found:
        """Reads lines one by one: several records in one line, colours, torn ends."""
        if not lines.height:
            return Found()
        groups: dict[tuple[int, tuple[str, ...]], list[dict[str, object]]] = {}
        told = Found()
        for line, off, no in lines.select("line", "off", "no").iter_rows():
            seen = False
            for at, text in records_of(line):
                record = read_one(self.kinds, text)
                if record is None:
                    damaged = self._damaged(text, off + at)
                    told.damaged += [damaged] if damaged else []
                    seen |= damaged is not None
                    continue
                seen = True
                row: dict[str, object] = {AS_PRINTED + "off": off + at, AS_PRINTED + "no": no}
                row |= {AS_PRINTED + name: value for name, (value, _, _) in record.printed.items()}
                row |= {f.key: keyvalue.bare(f.value) for f in record.fields}
                labels = tuple(f.key for f in record.fields)
                key = (self.kinds.index(record.kind), labels)
                groups.setdefault(key, []).append(row)
            if not seen:
                told.others.append(off)
        for (kind, labels), rows in groups.items():
            schema = {
                AS_PRINTED + name: dtype for name, dtype in PRINTED.items() if name != "stamp"
            }
            schema |= dict.fromkeys(labels, TEXT)
            found = pl.DataFrame([{k: r.get(k) for k in schema} for r in rows], schema=schema)
            told.frames.append(to_columns(self.kinds[kind], found, labels))
        return told

    def _damaged(self, text: str, off: int) -> Damaged | None:
        if QUOTING.search(text):
            return None
        if any(k.start.search(text) for k in self.kinds):
            return Damaged(off, text)
        start = RECORD_START.search(text)
        if start and self.looks.match(text, start.end()):
            return Damaged(off, text, "unknown")
        return None

    def _remember(self, pattern: _Pattern) -> None:
        self._patterns.append(pattern)
        del self._patterns[:-_MAX_PATTERNS]


def _found(
    places: Mapping[str, pl.Series | Ints], values: Mapping[str, npt.NDArray[Any]]
) -> pl.DataFrame:
    columns = {AS_PRINTED + name: column for name, column in places.items()}
    flags = [name for name, of_label in values.items() if of_label.dtype == np.bool_]
    return pl.DataFrame(columns | dict(values)).with_columns(
        pl.when(name).then(pl.lit("True")).otherwise(pl.lit("False")).alias(name) for name in flags
    )


def _by_regex(pattern: _Pattern, lines: pl.Series) -> pl.DataFrame:
    return lines.str.extract_groups(pattern.regex).struct.unnest()


# The patterns are plain: both engines of regular expressions read them the same.
_compiled = lru_cache(4 * _MAX_PATTERNS)(re.compile)


def _groups(pattern: _Pattern) -> list[str]:
    """What each group of a pattern holds, in its order."""
    names = _compiled(pattern.regex).groupindex
    return [pattern.labels[int(n[1:])] if n[1:].isdigit() else n for n in names]


def _gate(line: str, first: Field) -> str:
    """The longest text before the first value that has no number in it: all lines hold it."""
    return re.split(r"[0-9]", line[: first.start])[-1]


def _with_stamp(printed: dict[str, Place], line: str) -> dict[str, Place]:
    """Date and time as one value where they stand side by side in full, to the second."""
    date, time = printed.get("date"), printed.get("time")
    if not date or not time or (len(date[0]), len(time[0])) != (10, 8) or time[1] != date[2] + 1:
        return printed
    rest = {name: place for name, place in printed.items() if name not in ("date", "time")}
    return rest | {"stamp": (line[date[1] : time[2]], date[1], time[2])}
