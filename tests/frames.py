"""Hand-made frames for tests of the store, in the schemas of parsers.records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from parsers import records

START = datetime(2026, 3, 1, 12, 0, 0)


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of one append; what is not given is empty."""

    samples: pl.DataFrame = field(default_factory=lambda: records.empty(records.SAMPLES))
    intervals: pl.DataFrame = field(default_factory=lambda: records.empty(records.INTERVALS))
    events: pl.DataFrame = field(default_factory=lambda: records.empty(records.EVENTS))
    run_facts: pl.DataFrame = field(default_factory=lambda: records.empty(records.RUN_FACTS))
    requests: pl.DataFrame = field(default_factory=lambda: records.empty(records.REQUESTS))
    access_counts: pl.DataFrame = field(
        default_factory=lambda: records.empty(records.ACCESS_COUNTS)
    )
    ingest_log: pl.DataFrame = field(default_factory=lambda: records.empty(records.INGEST_LOG))


def at(seconds: float) -> datetime:
    """A moment of the test's clock."""
    return START + timedelta(seconds=seconds)


def decode(seconds: float, **values: Any) -> dict[str, Any]:
    """A decode sample of SGLang, one second long unless told otherwise."""
    return {
        "run_id": "r1", "source_id": "s", "file_id": "f", "byte_offset": int(seconds * 1000),
        "line_no": int(seconds), "ts": at(seconds), "ts_inferred": False, "engine": "sglang",
        "kind": "decode", "running_reqs": 1, "queued_reqs": 0, "gen_tok_s": 100.0,
        "interval_s": 1.0, "interval_from": "steps", "window": "steady", **values,
    }  # fmt: skip


def samples(rows: Iterable[Mapping[str, Any]]) -> Frames:
    """An append of samples only."""
    return Frames(samples=records.frame(rows, records.SAMPLES))


def facts(*rows: Mapping[str, Any]) -> Frames:
    """An append of run facts only."""
    return Frames(run_facts=records.frame(rows, records.RUN_FACTS))


def events(*rows: Mapping[str, Any]) -> Frames:
    """An append of events only."""
    return Frames(events=records.frame(rows, records.EVENTS))
