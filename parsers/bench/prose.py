"""Lines that private scripts print: `C=16: 1,536 tok/s`, or a row a prompt.

A load line names its concurrency and is a point. Rows of single prompts, one after another, are
gathered into one point.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from parsers.bench.columns import recognise
from parsers.bench.per_prompt import Row, gather
from parsers.bench.points import Found, Point, keep, new_point, put
from parsers.bench.serving_text import clean
from parsers.server_args import redact_text

TOOL = "printed lines"
_LINE_MAX = 400
_MEASURE = re.compile(r"(?i)[0-9]\s*(?:tok|t\s*/\s*s|ms\b)")
_LOAD = re.compile(
    r"(?i)^[\s\-*>]*(?:\[\s*)?(?:c|conc|concurrency|concurrent|parallel|streams?|users?|clients?"
    r"|bs|batch(?: size)?|n_?parallel)\s*[=:@]?\s*(?P<load>[0-9]+)\b"
)
_PROMPT = re.compile(
    r"(?i)^[\s\-*>]*(?:\[\s*(?P<a>[0-9]+)\s*(?:/\s*[0-9]+)?\s*\]"
    r"|(?:prompt|request|req|run|iter(?:ation)?|sample|query|test)\s*[#=:]?\s*(?P<b>[0-9]+)"
    r"(?:\s*/\s*[0-9]+)?\b|#?(?P<c>[0-9]+)(?:\s*/\s*[0-9]+)?\s*[.):|](?=\s))"
)
_PAIR = re.compile(
    r"(?P<name>[A-Za-zτ][A-Za-z_τ0-9 .%-]*?)?\s*[=:]?\s*"
    r"(?P<value>(?<![\w.])[0-9][0-9,]*(?:\.[0-9]+)?)"
    r"\s*(?P<unit>(?:tok(?:en)?s?|t)\s*/\s*s(?:ec(?:ond)?)?\b|req(?:uest)?s?\s*/\s*s(?:ec)?\b"
    r"|ms\b|s(?:ec(?:ond)?s?)?\b|tok(?:en)?s?\b)?"
)
_MS_PER_TOKEN = re.compile(r"(?i)([0-9.]+)\s*ms\s*(?:/|per)\s*tok(?:en)?\b")
_SUMMARY = re.compile(r"(?i)^[\s\-*>]*(mean|avg|average|total|overall|aggregate|summary|median)\b")
_NAMED = re.compile(r"^[^:]{1,40}:\s")  # the prompt's name
_ONE = re.compile(r"(?i)single[- ]?(?:stream|user|request)|sequential|one at a time|one by one")
_FILLERS = {
    "in",
    "at",
    "and",
    "with",
    "of",
    "took",
    "after",
    "for",
    "the",
    "is",
    "was",
    "->",
    "done",
}
_WHOLE = {
    "",
    "time",
    "total",
    "elapsed",
    "latency",
    "wall",
    "duration",
    "total time",
    "e2e",
    "wall time",
}
_GAP = 3  # other lines between two rows of one group


@dataclass(slots=True)
class _Group:
    rows: list[Row]
    concurrency: int | None
    title: str
    last_line: int


def read(text: str) -> Found:
    """The points that the lines of a text make; none where no line looks like a measurement."""
    points: list[Point] = []
    group: _Group | None = None
    title, concurrency = "", None
    for at, raw in enumerate(text.splitlines()):
        line = clean(raw).strip() if len(raw) <= _LINE_MAX else ""
        if not _MEASURE.search(line):
            if line and (group is None or at - group.last_line > _GAP):
                title, concurrency = redact_text(line).strip("#=*- :"), _stated(line)
            continue
        if (load := _LOAD.match(line)) and (point := _load_point(line, load, title)):
            points += [*_closed(group), point]
            group = None
            continue
        row = _prompt_row(line)
        if row is None:
            if line and (group is None or at - group.last_line > _GAP):
                title, concurrency = redact_text(line).strip("#=*- :"), _stated(line)
            continue
        if group is None or not _goes_on(group, row, at):
            points += _closed(group)
            group = _Group([], concurrency, title, at)
        group.rows.append(row)
        group.last_line = at
    points += _closed(group)
    return Found("lines of a script", points)


def _goes_on(group: _Group, row: Row, at: int) -> bool:
    last = group.rows[-1].index if group.rows else None
    forward = last is None or row.index is None or row.index > last
    return forward and at - group.last_line <= _GAP


def _stated(line: str) -> int | None:
    """The concurrency that a heading states."""
    if _ONE.search(line):
        return 1
    match = re.search(r"(?i)\b(?:c|conc|concurrency|streams?)\s*[=:]?\s*([0-9]+)\b", line)
    return int(match[1]) if match else None


def _load_point(line: str, load: re.Match[str], title: str) -> Point | None:
    rest = line[load.end() :]
    row = _read(rest)
    if row.rate is None and not any(name.endswith("tok_s") for name in row.columns):
        return None
    point = new_point(TOOL, concurrency=float(load["load"]), **row.columns)
    put(point, "output_tok_s", row.rate)
    put(point, "duration_s", row.seconds)
    for column, value in (("output_tokens", row.output_tokens), ("input_tokens", row.input_tokens)):
        put(point, column, None if value is None else round(value))
    _describe(point, title, line)
    return point


def _prompt_row(line: str) -> Row | None:
    """A line about one prompt: numbered, or with its time, its TPOT and its rate."""
    match = _PROMPT.match(line)
    row = _read(line[match.end() :] if match else _NAMED.sub("", line))
    timed = row.seconds is not None or row.output_tokens is not None
    tpot = any(name.startswith("tpot") for name in row.columns)
    if match is not None:
        row.index = int(match["a"] or match["b"] or match["c"])
        return row if timed and (row.rate is not None or tpot) else None
    whole = row.seconds is not None and tpot and row.rate is not None
    return row if whole and not _SUMMARY.match(line) else None


def _read(text: str) -> Row:
    row = Row()
    for match in _PAIR.finditer(_MS_PER_TOKEN.sub(r"tpot \1 ms", text)):
        name = _name(match["name"] or "")
        value = float(match["value"].replace(",", ""))
        unit = re.sub(r"\s", "", (match["unit"] or "").lower())
        if "/s" in unit:
            _put_rate(row, name, unit, value)
        elif unit.startswith("tok") or (not unit and name.endswith("tokens")):
            side = "input" if re.search(r"prompt|input|\bin$", name) else "output"
            if getattr(row, f"{side}_tokens") is None:
                setattr(row, f"{side}_tokens", value)
        elif unit:
            _put_time(row, name, unit, value)
    return row


def _name(text: str) -> str:
    words = [word for word in re.split(r"[\s_]+", text.strip(" .-").lower()) if word]
    while words and words[0] in _FILLERS:
        del words[0]
    return " ".join(words)


def _put_rate(row: Row, name: str, unit: str, value: float) -> None:
    if unit.startswith("req"):
        row.columns.setdefault("request_throughput_rps", value)
    elif "peak" in name:
        row.columns.setdefault("peak_output_tok_s", value)
    elif name.startswith("total"):
        row.columns.setdefault("total_tok_s", value)
    elif not re.search(r"user|each|prompt|prefill|input", name) and row.rate is None:
        row.rate = value


def _put_time(row: Row, name: str, unit: str, value: float) -> None:
    column = recognise(f"{name} ({unit})")
    if column is not None and "_ms_" in column.name and not column.name.startswith("e2e"):
        row.columns.setdefault(column.name, value * column.factor)
    elif name in _WHOLE and row.seconds is None:
        row.seconds = value / 1000 if unit == "ms" else value


def _closed(group: _Group | None) -> list[Point]:
    """The point of a group of rows."""
    if group is None or not group.rows:
        return []
    return [gather(TOOL, group.rows, group.concurrency, redact_text(group.title))]


def _describe(point: Point, title: str, line: str) -> None:
    said = {"title": redact_text(title), "line": redact_text(line)}
    keep(point, {name: text for name, text in said.items() if text})
