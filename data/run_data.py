"""Everything the analysis needs of one run, loaded once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import duckdb
import polars as pl

from data import queries
from data import windows as w
from data.card import source_name
from data.names import tame
from data.run_samples import run_samples
from parsers import records


@dataclass(frozen=True)
class RunData:
    """One run: its card, its samples, what happened, and the benchmarks joined to it."""

    card: Mapping[str, Any]  # a row of queries.runs_table
    samples: pl.DataFrame  # parsers.records.SAMPLES, windows final
    events: pl.DataFrame  # parsers.records.EVENTS
    bench: pl.DataFrame  # queries.bench_points: results with what the log says of their time
    access: pl.DataFrame  # queries.access_counts

    @cached_property
    def counted(self) -> pl.DataFrame:
        """The samples of the ranks that count."""
        return w.counted(self.samples)

    @cached_property
    def windows(self) -> pl.DataFrame:
        """Its decode or stats windows."""
        return w.windows(self.counted)

    @cached_property
    def steady(self) -> pl.DataFrame:
        """Its steady windows."""
        return w.steady(self.windows)

    @cached_property
    def args(self) -> dict[str, Any]:
        """What its arguments line says."""
        return dict(json.loads(self.card["args"] or "{}"))

    @cached_property
    def effective(self) -> dict[str, Any]:
        """What the server printed later of its final settings."""
        return dict(json.loads(self.card["effective"] or "{}"))

    @property
    def speculates(self) -> bool:
        """Whether it runs with speculative decoding."""
        return bool(self.card["spec_algorithm"] or self.card["spec_draft_tokens"]) or bool(
            self.windows["accept_len"].is_not_null().any()
        )

    @property
    def name(self) -> str:
        """What a reader knows it by: its label, else its file with the folder."""
        return tame(str(self.card["label"] or source_name(self.card["source_id"])))

    @property
    def ranks(self) -> int:
        """Data-parallel ranks: as the arguments promise, else as seen."""
        return int(self.card["dp"] or max(1, w.ranks_seen(self.counted)))


def load(con: duckdb.DuckDBPyConnection, run_id: str) -> RunData:
    """One run out of the store; it must be there."""
    return replace(but_samples(con, run_id), samples=run_samples(con, run_id))


def but_samples(con: duckdb.DuckDBPyConnection, run_id: str) -> RunData:
    """All but its samples: nothing that is measured of the log is right of it."""
    told = without_samples(con, run_id)
    bench, access = queries.bench_points(con, run_id), queries.access_counts(con, run_id)
    return replace(told, bench=bench, access=access)


def without_samples(con: duckdb.DuckDBPyConnection, run_id: str) -> RunData:
    """What the log tells of the run's settings and faults; nothing is measured of it."""
    card = queries.run_card(con, run_id)
    assert card is not None
    nothing = pl.DataFrame()
    samples = records.empty(records.SAMPLES)
    return RunData(card, samples, queries.events(con, run_id), nothing, nothing)
