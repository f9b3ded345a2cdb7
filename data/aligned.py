"""The curves of several runs on one axis: since ready, since the first request, or by the clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from data import run_curves
from data.asked import side_by_side
from data.run_data import RunData
from data.store import Store

READY, FIRST_REQUEST, CLOCK = "ready", "first request", "clock"
ORIGINS: Final = (READY, FIRST_REQUEST, CLOCK)
_POINTS: Final = 300  # of the longest run
_ALL: Final = 900  # of all runs together: each is drawn as a line and may stand as a dot
_BUCKET_S: Final = 2.0  # stamps are whole seconds: a shorter one would show their rounding

SERIES: Final[dict[str, pl.DataType]] = {
    "run_id": pl.String(),
    "ts": pl.Datetime("us"),  # start of the bucket, as the log's clock shows it
    "at_s": pl.Float64(),  # seconds since the origin; by the clock since the first run's first line
    "bucket": pl.Int64(),
    "gen_tok_s": pl.Float64(),
    "running_reqs": pl.Int64(),
}


def origin(run: RunData, by: str) -> datetime | None:
    """The moment of a run that is laid on the others'; None where its log does not tell.

    Args:
        by: one of ORIGINS.
    """
    if by == READY:
        ready: datetime | None = run.card["ready_at"]
        return ready
    if by == CLOCK:
        first: datetime | None = run.card["first_ts"]
        return first
    served = run.counted.filter(
        (pl.col("window").is_null() | (pl.col("window") != "startup"))
        & ((pl.col("kind") == "prefill") | (pl.col("running_reqs") > 0))
        & (pl.lit(run.card["ready_at"]).is_null() | (pl.col("ts") >= run.card["ready_at"]))
    )
    start = served["ts"].min()
    return start if isinstance(start, datetime) else None


def series(store: Store, runs: Sequence[RunData], by: str) -> tuple[pl.DataFrame, list[RunData]]:
    """The throughput of runs in buckets of one length.

    Returns:
        a frame of SERIES, and the runs whose log does not tell the origin.
    """
    origins = [(run, origin(run, by)) for run in runs]
    known = [(run, start) for run, start in origins if start is not None]
    silent = [run for run, start in origins if start is None]
    if not known:
        return pl.DataFrame(schema=SERIES), silent
    spans = [_span(run) for run, _ in known]
    seconds = [(end - start).total_seconds() for start, end in spans]
    width = max(_BUCKET_S, max(seconds) / _POINTS, sum(seconds) / _ALL)
    zero = min(start for _, start in known)

    def of_run(place: tuple[RunData, datetime, tuple[datetime, datetime]]) -> pl.DataFrame:
        run, start, (first, last) = place
        since = zero if by == CLOCK else start
        buckets = max(1, math.ceil((last - first).total_seconds() / width))
        end = first + timedelta(seconds=buckets * width)
        with store.cursor() as con:
            found = run_curves.series(con, run.card["run_id"], first, end, buckets)
        return found.select(
            pl.lit(run.card["run_id"]).alias("run_id"),
            "ts",
            ((pl.col("ts") - since).dt.total_microseconds() / 1e6).alias("at_s"),
            "bucket",
            "gen_tok_s",
            "running_reqs",
        ).cast(pl.Schema(SERIES))

    places = [(run, start, span) for (run, start), span in zip(known, spans, strict=True)]
    return pl.concat(side_by_side(of_run, places)), silent


def _span(run: RunData) -> tuple[datetime, datetime]:
    first, last = run.card["first_ts"], run.card["last_ts"]
    return first, max(last, first + timedelta(seconds=_BUCKET_S))
