"""Rows of `events` from the marks of lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from ingest import overrides
from ingest.incidents import incident_of, judge
from ingest.runs import Run
from ingest.succession import Places
from parsers.marks import Mark


def rows(places: Places, mark: Mark, ts: datetime | None, run: Run) -> Iterator[dict[str, Any]]:
    """The event of a mark, and the overrides that its line shows against the arguments; the run
    learns from each."""
    mark = replace(mark, data=overrides.completed(mark, run))
    yield _row(places, mark, ts, run)
    for found in overrides.inferred(mark, run):
        title = f"{found['name']} is {found['effective']}, not {found['given']}"
        shown = replace(
            mark, kind="override", severity="warning", title=title, data=found, facts={},
            memory_gb=None, duration_s=None,
        )  # fmt: skip
        yield _row(places, shown, ts, run)


def _row(places: Places, mark: Mark, ts: datetime | None, run: Run) -> dict[str, Any]:
    verdict = judge(mark, run)
    place = places.of(mark.off, mark.no)
    run.learn(mark, ts)
    incident = incident_of(verdict, run, place["byte_offset"], ts)
    if verdict.ends is not None:
        run.end(verdict.ends, mark.off, ts)
    return {
        "run_id": run.run_id,
        **place,
        "ts": ts,
        "kind": verdict.kind,
        "severity": verdict.severity,
        "title": verdict.title,
        "detail": mark.detail,
        "evidence": mark.evidence,
        "incident_id": incident,
        "count": 1,
        "duration_s": mark.duration_s,
        "memory_gb": mark.memory_gb,
        "data": json.dumps(mark.data) if mark.data else None,
    }
