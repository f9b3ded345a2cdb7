"""Writes docs/formats.md from the corpus of lines: what every release prints, and what it becomes.

python -m tests.formats_doc
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from tests.formats_corpus import CORPUS, Entry, Row, entries

PAGE = CORPUS.parents[1] / "docs" / "formats.md"
ENGINES = {"sglang": "SGLang", "vllm": "vLLM"}
SECTIONS = {
    "benign": "Lines that only look bad",
    "config": "Versions, arguments and engine config",
    "decode": "Decode lines",
    "fault": "Faults, retractions and preemptions",
    "prefill": "Prefill lines",
    "request": "Per-request lines",
    "router": "Router lines",
    "server_args": "Arguments",
    "spec": "Speculation",
    "startup": "Start-up and capacity",
    "stats": "Statistics and figures beside them",
}
_INTRO = """\
# Log lines and what becomes of them

One example of every form of line that the releases of both engines print, and the record that it
becomes. This page is written by `python -m tests.formats_doc` from `tests/corpus/*/*.jsonl`; the
same lines are tested field by field.

A record names the columns that the line fills; names after "extra" or "data" are kept under their
printed names. Fields that no release before had are kept in `extra` as well; a line that begins
like a sample and can not be read is counted in `ingest_log` with its shape.
"""
_LINE_CHARS = 230
_ALWAYS = {"ts", "engine", "kind", "severity", "title", "event"}


def text() -> str:
    """The whole page."""
    parts = [_INTRO]
    for engine, found in groupby(entries(), lambda entry: entry.engine):
        parts.append(f"## {ENGINES[engine]}\n")
        for kind, rows in groupby(found, lambda entry: entry.kind):
            parts.append(f"### {SECTIONS[kind]}\n\n{_table(rows)}")
    return "\n".join(parts)


def _table(rows: Iterable[Entry]) -> str:
    lines = ["| releases | line | becomes |", "| --- | --- | --- |"]
    lines += [f"| {e.versions} | {_code(e.line)} | {_record(e.expect)} |" for e in rows]
    return "\n".join(lines) + "\n"


def _code(line: str) -> str:
    shown = line.replace("\x1b", "␛").replace("\r", "␍")
    if len(shown) > _LINE_CHARS:
        shown = shown[:_LINE_CHARS] + " …"
    return f"`` {shown} ``".replace("|", "\\|")


def _record(expect: Row) -> str:
    return "; ".join(_parts(expect)).replace("|", "\\|") or "no record: known and left out"


def _parts(expect: Row) -> Iterator[str]:
    for row in expect.get("samples", []):
        yield f"sample `{row['kind']}`: {_names(row, 'extra')}"
    for row in expect.get("events", []):
        data = _names(row, "data")
        yield f"event `{row['kind']}` ({row['severity']}), {row['title']}{data and ': ' + data}"
    for row in expect.get("requests", []):
        yield f"request `{row['event']}`: {_names(row, 'extra')}"
    if expect.get("run"):
        facts = {k: v for k, v in expect["run"].items() if k not in ("args", "engine")}
        if names := _names(facts, "effective"):
            yield f"run: {names}"


def _names(row: Row, more: str) -> str:
    names = ", ".join(name for name in row if name not in {*_ALWAYS, more})
    kept = ", ".join(row.get(more) or {})
    return "; ".join(part for part in (names, kept and f"{more}: {kept}") if part)


def main() -> None:
    """Write the page."""
    Path(PAGE).write_text(text(), "utf-8")


if __name__ == "__main__":
    main()
