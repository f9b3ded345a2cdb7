"""Benchmark points as spans of time, to be laid behind the curves of the run that served them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import polars as pl

from dashboard import bench_view, words

MOST: Final = 100  # of a chart
_LABELLED: Final = 0.06  # of the span: narrower ones have no room for words
SCHEMA: Final = {
    "ts": pl.Int64(),  # ms since 1970, as the charts have their times
    "until": pl.Int64(),
    "told": pl.String(),  # which point
    "client": pl.String(),  # what its client measured
    "short": pl.String(),  # the same for a label; empty where there is no room
}


def bands(points: pl.DataFrame, span: tuple[datetime, datetime]) -> pl.DataFrame:
    """The points of data.queries.bench_points that lie in the span: columns of SCHEMA."""
    start, end = span
    inside = points.filter(
        (pl.col("window_started_at") < end) & (pl.col("window_ended_at") > start)
    ).sort("window_started_at")
    least = (end - start).total_seconds() * _LABELLED
    rows = [_band(row, least) for row in inside.head(MOST).iter_rows(named=True)]
    times = inside.head(MOST).select(
        ts=pl.col("window_started_at").dt.epoch("ms"),
        until=pl.col("window_ended_at").dt.epoch("ms"),
    )
    told = pl.DataFrame(rows, schema=["told", "client", "short"], orient="row")
    return pl.concat([times, told], how="horizontal").cast(SCHEMA)  # type: ignore[arg-type]


def _band(row: Mapping[str, Any], least_s: float) -> tuple[str, str, str]:
    lasted = (row["window_ended_at"] - row["window_started_at"]).total_seconds()
    load = bench_view.at(row).removeprefix(" at ") or "benchmark point"
    made = f"{words.number(row['output_tok_s'])} tok/s"
    latencies = [
        f"{name} {words.number(row[column])} ms"
        for name, column in (("TTFT", "ttft_ms_median"), ("TPOT", "tpot_ms_median"))
        if row[column] is not None
    ]
    return load, ", ".join([made, *latencies]), f"{load}: {made}" if lasted >= least_s else ""


def sentence(found: pl.DataFrame) -> str | None:
    """All bands in words, for those who cannot point at them."""
    told = [f"{load} ({client})" for load, client in found.select("told", "client").iter_rows()]
    if not told:
        return None
    more = f", and {len(told) - 4} more" if len(told) > 4 else ""
    return f"Benchmark points in grey, as their client measured them: {'; '.join(told[:4])}{more}."
