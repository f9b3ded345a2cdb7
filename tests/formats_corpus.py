"""The corpus of single lines: one of every form of every release of both engines.

tests/corpus/ENGINE/KIND.jsonl has one object a line: the releases that print it, the line, and
what it becomes alone in a file, without the columns that say where it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.pipeline import Pipeline, SourceInfo
from parsers import records
from tests.logs import one

CORPUS = Path(__file__).parent / "corpus"
FILE_TIME = datetime(2026, 12, 20)
Row = dict[str, Any]

# Columns that depend on the place of a line or on the lines around it.
_PLACE = {*records.PLACE, "ts_inferred", "interval_s", "interval_from", "window"}
_PLACE |= {"detail", "evidence", "incident_id", "count", "seq", "started_at", "ended_at"}
_PLACE |= {"end_state", "config_hash"}
TABLES = ("samples", "events", "requests")


@dataclass(frozen=True)
class Entry:
    """A line of the corpus."""

    engine: str
    kind: str
    versions: str
    line: str
    expect: Row


def entries() -> Iterator[Entry]:
    """All lines of the corpus, by engine and kind."""
    for engine in ("sglang", "vllm"):
        for path in sorted((CORPUS / engine).glob("*.jsonl")):
            for text in path.read_text("utf-8").splitlines():
                row = json.loads(text)
                yield Entry(engine, path.stem, row["versions"], row["line"], row["expect"])


def become(line: str, times: int = 1) -> Row:
    """What a line becomes that stands alone in a file, or several times: then the last one's."""
    pipeline = Pipeline(SourceInfo("corpus", clock_hint=FILE_TIME), "file")
    batch = one([pipeline.feed(f"{line}\n".encode() * times), pipeline.finish()])
    found: Row = {}
    for name in TABLES:
        rows = getattr(batch, name)
        if rows.height:
            last = rows.filter(rows["line_no"] == rows["line_no"].max())
            found[name] = [_said(row) for row in last.rows(named=True)]
    run = _said(batch.run_facts.rows(named=True)[-1]) if batch.run_facts.height else {}
    if "ready_at" in run or ("events" in found and len(run) > 1):
        found["run"] = run
    return found


def _said(row: Row) -> Row:
    said = {k: v for k, v in row.items() if v is not None and k not in _PLACE}
    for name, value in said.items():
        if isinstance(value, datetime):
            said[name] = value.isoformat()
        elif name in ("extra", "data", "args", "effective"):
            said[name] = json.loads(value)
    return said
