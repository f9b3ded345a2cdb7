"""Periodic lines of either engine, found anywhere in a line, to columns.

Every line that may hold a sample is first tried against the patterns learnt so far, all lines at
once. The first line that fits none is read by itself; if it is one whole record, its pattern joins
the others, else (glued, torn, coloured, wrapped oddly) it is read alone. `Reader` keeps patterns
between blocks: they make it fast and never change what is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from parsers import forms, keyvalue
from parsers.keyvalue import Field
from parsers.lines import clean
from parsers.records import ENGINE, KIND, TEXT, TIME, Schema
from parsers.server_args import is_secret, redact_text

# Where and when a sample was printed; the rest of the frame is contract columns.
PRINTED: Schema = {
    "off": pl.Int64(),
    "no": pl.Int64(),
    "stamp": TIME,  # the whole stamp to the second; else null, and what there is of it in:
    "date": TEXT,  # YYYY-MM-DD, MM-DD or null
    "time": TEXT,  # HH:MM:SS with fraction if printed, or null
    "ranks": TEXT,  # " DP0 TP0" as printed
    "engine_no": TEXT,  # vLLM's "000"
}
_HEADS = (
    # SGLang: [2026-02-23 00:00:27.123 DP0 TP0]
    re.compile(
        r"\[(?:(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}) )?(?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2}"
        r"(?:[.,][0-9]{1,6})?)(?P<ranks>(?: [A-Z][A-Z_]*[0-9]+)*)\] (?:\[gpu(?:_id)?=[0-9]+\] )?$"
    ),
    # vLLM: INFO 02-23 00:00:27 [loggers.py:236]
    re.compile(
        r"[A-Z]{4,8} (?P<date>[0-9]{2}-[0-9]{2}) (?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})"
        r" \[?[^\]\[\s]+:[0-9]+\] $"
    ),
    # vLLM's JSON records
    re.compile(
        r"\"asctime\": \"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}) "
        r"(?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,6})?)\".*\"message\": \"$"
    ),
    # any other logger or wrapper: its last full stamp
    re.compile(
        r"(?s:.*)(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2}"
        r"(?:[.,][0-9]{1,6})?)"
    ),
)
# The data-parallel rank of the process that printed a line.
_CORE = re.compile(r"\(EngineCore_DP([0-9]+) pid=")
_RECORD_START = re.compile(
    r"\[(?:[0-9]{4}-[0-9]{2}-[0-9]{2} )?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,6})?"
    r"(?: [A-Z][A-Z_]*[0-9]+)*\] "
    r"|(?:\([A-Za-z]\w* pid=[0-9]+\) )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
    r" [0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} \[?[^\]\[\s]+:[0-9]+\] "
)
# A line, or a text field in it, that quotes what a client sent: what looks like a record after it
# is none. No word of a periodic line may match.
_QUOTING = re.compile(
    r"(?:Receive|Finish)(?: OpenAI)?: obj=|Received request |Generated response "
    r"|\"event\": \"request|\b(?:prompt|text|content|output)\\*['\"]?\s?[=:]\s?[\[{(]*\\*['\"]"
)
_BAR = re.compile(r"(?:it/s|s/it)\]")
_LOOSE_END = re.compile(r"[\s,.]*$")
_MAX_PATTERNS = 48
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
_AS = "printed_"  # keeps PRINTED columns apart from a field that is called "time"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of periodic line of one engine.

    `start` matches the message from its first word up to the first field. `columns` maps printed
    names to contract columns; `adapt` rewrites fields of shapes that are not `name: value`.
    """

    engine: str
    kind: str
    start: re.Pattern[str]
    columns: Callable[[Sequence[str]], dict[str, pl.Expr]]
    adapt: Callable[[re.Match[str], list[Field]], list[Field]] = lambda _, fields: fields
    tail: Callable[[str, int], list[Field]] = keyvalue.tail  # the fields from `start` on
    needs: tuple[str, ...] = ()  # a line with none of these names is no record
    # Whether the last value is whole; the text is what stands after it: blanks and commas.
    whole: Callable[[Sequence[Field], str], bool] = lambda *_: True


_Place = tuple[str, int, int]  # a value, where it starts and ends in the line


@dataclass(frozen=True, slots=True)
class _Record:
    kind: Kind
    printed: dict[str, _Place]  # date, time, ranks, engine_no
    fields: list[Field]
    plain: bool  # fields stand in the text as read


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

    def take(self, data: bytes, lines: pl.DataFrame) -> tuple[list[pl.DataFrame], Bools]:
        """Samples of those lines that have a form known so far, read straight from the bytes.

        Args:
            data: the block.
            lines: columns line, off, no: all lines of the block.

        Returns:
            frames as of `read`; and which lines they were.
        """
        taken: Bools = np.zeros(lines.height, np.bool_)
        frames: list[pl.DataFrame] = []
        if lines.height < forms.FEWEST:
            return frames, taken
        if not self._forms:
            start = lines["line"].head(forms.FEWEST)
            self.read(lines.head(forms.FEWEST).filter(start.str.contains_any(list(self.gates))))
        words = forms.words_of(data)
        off, no = lines["off"].to_numpy(), lines["no"].to_numpy()
        starts = off - off[0]
        for kind, form in list(self._forms):
            rows, values = form.take(words, starts)
            if len(rows):
                printed = form.places(data, words, starts[rows])
                found = _found({"off": off[rows], "no": no[rows], **printed}, values)
                frames.append(_columns(kind, found, list(values)))
                taken[rows] = True
        return frames, taken

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
        gated = lines["line"].str.contains(pattern.gate, literal=True)
        maybe = lines if gated.all() else lines.filter(gated)
        values = _by_regex(pattern, maybe["line"])
        fits = values["v0"].is_not_null()
        if not fits.any():
            return lines
        found = maybe.select(pl.col("off", "no").name.prefix(_AS)).hstack(
            values.rename({f"v{i}": label for i, label in enumerate(pattern.labels)})
        )
        whole = bool(fits.all())
        kept = found if whole else found.filter(fits)
        frames.append(_columns(pattern.kind, kept, pattern.labels))
        self._learn_form(pattern, maybe["line"].filter(fits)[0])
        rest = lines.clear() if maybe.height == lines.height else lines.filter(~gated)
        return rest if whole else pl.concat([rest, maybe.filter(~fits)]).sort("off")

    def _learn(self, line: str) -> _Pattern | None:
        if len(_RECORD_START.findall(line)) > 1 or next(_records(line))[0]:
            return None  # several records, or one behind the rest of a progress bar
        record = _read_one(self.kinds, line)
        if record is None or not record.plain or not record.fields:
            return None
        if "time" not in record.printed and clean(line) != line:
            return None  # colours inside the stamp
        spans = [
            (at, end, f"(?P<{_AS}{name}>{_RANKS if name == 'ranks' else keyvalue.blank(value)})")
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
        record = _read_one(self.kinds, line)
        if record is not None and len(self._forms) < _MAX_PATTERNS:
            form = forms.learn(line, _with_stamp(record.printed, line), record.fields)
            if form is not None and (pattern.kind, form) not in self._forms:
                self._forms.append((pattern.kind, form))

    def _read_alone(self, lines: pl.DataFrame) -> Found:
        """Reads lines one by one: several records in one line, colours, torn ends."""
        groups: dict[tuple[int, tuple[str, ...]], list[dict[str, object]]] = {}
        told = Found()
        for line, off, no in lines.select("line", "off", "no").iter_rows():
            seen = False
            for at, text in _records(line):
                record = _read_one(self.kinds, text)
                if record is None:
                    damaged = self._damaged(text, off + at)
                    told.damaged += [damaged] if damaged else []
                    seen |= damaged is not None
                    continue
                seen = True
                row: dict[str, object] = {_AS + "off": off + at, _AS + "no": no}
                row |= {_AS + name: value for name, (value, _, _) in record.printed.items()}
                row |= {f.key: keyvalue.bare(f.value) for f in record.fields}
                labels = tuple(f.key for f in record.fields)
                key = (self.kinds.index(record.kind), labels)
                groups.setdefault(key, []).append(row)
            if not seen:
                told.others.append(off)
        for (kind, labels), rows in groups.items():
            schema = {_AS + name: dtype for name, dtype in PRINTED.items() if name != "stamp"}
            schema |= dict.fromkeys(labels, TEXT)
            found = pl.DataFrame([{k: r.get(k) for k in schema} for r in rows], schema=schema)
            told.frames.append(_columns(self.kinds[kind], found, labels))
        return told

    def _damaged(self, text: str, off: int) -> Damaged | None:
        if _QUOTING.search(text):
            return None
        if any(k.start.search(text) for k in self.kinds):
            return Damaged(off, text)
        start = _RECORD_START.search(text)
        if start and self.looks.match(text, start.end()):
            return Damaged(off, text, "unknown")
        return None

    def _remember(self, pattern: _Pattern) -> None:
        self._patterns.append(pattern)
        del self._patterns[:-_MAX_PATTERNS]


def _found(
    places: Mapping[str, pl.Series | Ints], values: Mapping[str, npt.NDArray[Any]]
) -> pl.DataFrame:
    columns = {_AS + name: column for name, column in places.items()}
    flags = [name for name, of_label in values.items() if of_label.dtype == np.bool_]
    return pl.DataFrame(columns | dict(values)).with_columns(
        pl.when(name).then(pl.lit("True")).otherwise(pl.lit("False")).alias(name) for name in flags
    )


def _by_regex(pattern: _Pattern, lines: pl.Series) -> pl.DataFrame:
    return lines.str.extract_groups(pattern.regex).struct.unnest()


def _gate(line: str, first: Field) -> str:
    """The longest text before the first value that has no number in it: all lines hold it."""
    return re.split(r"[0-9]", line[: first.start])[-1]


_RANKS = r"(?: [A-Z][A-Z_]*[0-9]+)*"


def _read_one(kinds: Sequence[Kind], text: str) -> _Record | None:
    """The one record of a text, or None where there is none; a torn last value is left out."""
    text = text.rstrip("\r")
    for kind in kinds:
        start = kind.start.search(text)
        if start is None:
            continue
        before = text[: start.start()]
        head = next((m for rx in _HEADS if (m := rx.search(before))), None)
        if _QUOTING.search(before) and '"message"' not in before:
            return None
        fields = kind.tail(text, start.end())
        rest = text[fields[-1].end :] if fields else ""
        torn = bool(fields) and not rest.strip(" \t,") and not kind.whole(fields, rest)
        if torn:
            fields = fields[:-1]
        adapted = [f for f in kind.adapt(start, fields) if f.key[0] == "#" or not is_secret(f.key)]
        if len({f.key for f in adapted}) != len(adapted):
            return None
        if kind.needs and not any(f.key in kind.needs for f in adapted):
            return None
        printed = {}
        for match in (head, start):
            for name, value in match.groupdict().items() if match else ():
                if name in PRINTED and value is not None:
                    printed[name] = (value, match.start(name), match.end(name))  # type: ignore[union-attr]
        plain = adapted == fields and not torn and _ends_cleanly(text, fields)
        if kind.kind == "metrics" and "engine_no" not in printed:
            core = _CORE.search(before)
            if core:
                printed["engine_no"] = (core[1], core.start(1), core.end(1))
        plain &= all(text[f.start : f.end] == f.value for f in fields)
        return _Record(kind, printed, adapted, plain)
    return None


def _ends_cleanly(text: str, fields: list[Field]) -> bool:
    rest = text[fields[-1].end :] if fields else text
    return bool(_LOOSE_END.match(rest)) or rest.startswith('"')


def _records(line: str) -> Iterator[tuple[int, str]]:
    """The records of one line with their byte places in it.

    The first one keeps what wraps it and starts where the line does, unless a progress bar
    stands before it. Whatever looks like a record after a quoting word is quoted.
    """
    text = clean(line)
    quoting = _QUOTING.search(text)
    starts = [
        m.start()
        for m in _RECORD_START.finditer(text, 0, quoting.start() if quoting else len(text))
    ]
    if starts and (text.rfind("\r", 0, starts[0]) >= 0 or _BAR.search(text[: starts[0]])):
        pass
    else:
        starts[:1] = [0]
    seen = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        at = line.find(piece[:24], seen) if start else 0
        seen = max(at, 0) + 1
        yield (len(line[:at].encode()) if at > 0 else 0), piece.rstrip("\r")


def _columns(kind: Kind, found: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    """Printed values to contract columns; names without a column go to `extra`."""
    mapped = kind.columns(labels)
    # A value folded with others into one column (the fullest of several pools) stays in `extra`.
    roots = [expr.meta.root_names() for expr in mapped.values()]
    used = {names[0] for names in roots if len(names) == 1}
    extra = [label for label in labels if label not in used]
    if found.schema.get(_AS + "stamp") == TEXT:
        stamp = pl.col(_AS + "stamp").str.slice(0, 19)
        found = found.with_columns(stamp.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False))
    exprs = [
        (pl.col(_AS + name) if _AS + name in found.columns else pl.lit(None, dtype)).alias(name)
        for name, dtype in PRINTED.items()
    ]
    exprs += [expr.alias(name) for name, expr in mapped.items()]
    if extra:
        found = found.with_columns(_redacted(found[label]) for label in extra)
        exprs.append(_extra(extra).alias("extra"))
    return found.select(
        pl.lit(kind.engine, ENGINE).alias("engine"), pl.lit(kind.kind, KIND).alias("kind"), *exprs
    )


def _redacted(values: pl.Series) -> pl.Series:
    """Values without secrets: only what is neither a number nor a word can hold one."""
    if values.dtype != TEXT or values.str.contains(r"^(?:[A-Za-z]*|-?[0-9.]+)$").all():
        return values
    texts = values.drop_nulls().unique().to_list()
    return values.replace({text: redact_text(text) for text in texts})


def _with_stamp(printed: dict[str, _Place], line: str) -> dict[str, _Place]:
    """Date and time as one value where they stand side by side in full, to the second."""
    date, time = printed.get("date"), printed.get("time")
    if not date or not time or (len(date[0]), len(time[0])) != (10, 8) or time[1] != date[2] + 1:
        return printed
    rest = {name: place for name, place in printed.items() if name not in ("date", "time")}
    return rest | {"stamp": (line[date[1] : time[2]], date[1], time[2])}


def _extra(labels: Sequence[str]) -> pl.Expr:
    """A JSON object of the printed fields: numbers as numbers, all else as text."""
    pieces: list[pl.Expr] = []
    for i, label in enumerate(labels):
        value = pl.col(label).cast(pl.String)
        quoted = value.str.replace_all("\\", "\\\\", literal=True).str.replace_all(
            '"', '\\"', literal=True
        )
        whole = value.str.contains(r"^-?(?:0|[1-9][0-9]*)$")
        broken = value.str.contains(r"^-?[0-9]+\.[0-9]+$")
        number = value.cast(pl.Float64, strict=False).cast(pl.String)
        pieces += [
            pl.lit(("{" if not i else ", ") + f"{json.dumps(label)}: "),
            pl.when(whole)
            .then(value)
            .when(broken)
            .then(number)
            .otherwise(pl.concat_str(pl.lit('"'), quoted, pl.lit('"'))),
        ]
    return pl.concat_str(*pieces, pl.lit("}"))
