"""The records that one line of text holds, found anywhere in it: the tolerant way to a sample.

A line may hold several (glued by a progress bar or by two processes), half of one, or what only
looks like one because a client sent it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from parsers import keyvalue
from parsers.forms import Place
from parsers.keyvalue import Field
from parsers.lines import clean
from parsers.records import TEXT, TIME, Schema
from parsers.server_args import is_secret

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
RECORD_START = re.compile(
    r"\[(?:[0-9]{4}-[0-9]{2}-[0-9]{2} )?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,6})?"
    r"(?: [A-Z][A-Z_]*[0-9]+)*\] "
    r"|(?:\([A-Za-z]\w* pid=[0-9]+\) )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
    r" [0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} \[?[^\]\[\s]+:[0-9]+\] "
)
# A line, or a text field in it, that quotes what a client sent: what looks like a record after it
# is none. No word of a periodic line may match.
QUOTING = re.compile(
    r"(?:Receive|Finish)(?: OpenAI)?: obj=|Received request |Generated response "
    r"|\"event\": \"request|\b(?:prompt|text|content|output)\\*['\"]?\s?[=:]\s?[\[{(]*\\*['\"]"
)
_BAR = re.compile(r"(?:it/s|s/it)\]")
_LOOSE_END = re.compile(r"[\s,.]*$")


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


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands in its text."""

    kind: Kind
    printed: dict[str, Place]  # date, time, ranks, engine_no
    fields: list[Field]
    plain: bool  # the fields stand in the text as read, so that a pattern can be made of it


def read_one(kinds: Sequence[Kind], text: str) -> Record | None:
    """The one record of a text, or None where there is none; a torn last value is left out."""
    text = text.rstrip("\r")
    for kind in kinds:
        start = kind.start.search(text)
        if start is None:
            continue
        before = text[: start.start()]
        head = next((m for rx in _HEADS if (m := rx.search(before))), None)
        if QUOTING.search(before) and '"message"' not in before:
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
        return Record(kind, printed, adapted, plain)
    return None


def _ends_cleanly(text: str, fields: list[Field]) -> bool:
    rest = text[fields[-1].end :] if fields else text
    return bool(_LOOSE_END.match(rest)) or rest.startswith('"')


def records_of(line: str) -> Iterator[tuple[int, str]]:
    """The records of one line with their byte places in it.

    The first one keeps what wraps it and starts where the line does, unless a progress bar
    stands before it. Whatever looks like a record after a quoting word is quoted.
    """
    text = clean(line)
    quoting = QUOTING.search(text)
    starts = [
        m.start() for m in RECORD_START.finditer(text, 0, quoting.start() if quoting else len(text))
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
