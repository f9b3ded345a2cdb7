"""A run's curves and its latest state, over any time of it, as pages and files ask for them.

Of many samples they are made in the store (`series_long.sql`), of few here (`data.curves`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from data import curves, minutes, one_run, queries
from data.asked import asked

_LONG_SERIES = Path(__file__).with_name("series_long.sql").read_text()
_COUNT = """
WITH inside AS (
    SELECT s.ts FROM counted_timed s
    WHERE s.run_id = $run_id AND s.ts BETWEEN $start AND $end
)
SELECT count(*), false FROM inside
"""
_COUNT_MINUTES = (
    "SELECT count(*), bool_or(interval_from = 'minute') FROM samples "
    "WHERE run_id = $run_id AND ts BETWEEN $start AND $end"
)

MANY_SAMPLES = 40_000  # of more, neighbours are not looked at: a second takes too long to place

MINUTE_S = 60.0
_LATEST = timedelta(minutes=15)  # of a run that are read at once
_SEEN = timedelta(minutes=10)  # in which a rank that is seen at all has printed


@dataclass(frozen=True, slots=True)
class Latest:
    """The end of a run, read once for its tiles and its curves."""

    minutely: bool  # some of the run was rolled up by minute
    start: datetime
    end: datetime  # the run's last stamp
    rows: pl.DataFrame  # of data.curves.samples


@dataclass(frozen=True, slots=True)
class LiveTiles:
    """The latest state of a run over all its ranks; idle ranks add no throughput."""

    last_ts: datetime
    gen_tok_s: float | None  # sum over ranks that are not idle
    running_reqs: int | None  # sum over ranks
    running_cap: int | None  # sum of the ranks' caps; None: not known
    queued_reqs: int | None  # sum over ranks
    kv_usage: float | None  # worst rank
    accept_len: float | None  # weighted by request steps
    draft_accept_rate: float | None  # strict, weighted by request steps
    idle_after_s: float  # without a line for so long, the run is idle
    ranks_seen: int
    ranks_idle: int
    ranks_expected: int | None  # what the args promise


def latest_samples(con: duckdb.DuckDBPyConnection, card: Mapping[str, Any]) -> Latest | None:
    """The end of a run, for `live_tiles` and `series`; None while it has no samples.

    Args:
        card: of `run_card`.
    """
    end = card["last_ts"]
    if end is None:
        return None
    place = {"start": end - _LATEST, "end": end}
    held = one_run.held(con, card["run_id"])
    return Latest(held.by_minute, place["start"], end, curves.samples(con, held, place))


def live_tiles(latest: Latest | None, card: Mapping[str, Any]) -> LiveTiles | None:
    """The latest values of a run over its ranks; None while it has no samples.

    Args:
        card: of `run_card`.
    """
    if latest is None:
        return None
    ranks = curves.latest(latest.rows.filter(pl.col("ts") >= latest.end - _SEEN)).to_dicts()
    expected, cap = card["dp"], card["max_running_requests"]
    return LiveTiles(
        last_ts=max(rank["last_ts"] for rank in ranks),
        gen_tok_s=_total([rank["gen_tok_s"] for rank in ranks if not rank["idle"]]),
        running_reqs=_total([rank["running_reqs"] for rank in ranks]),
        running_cap=None if cap is None else cap * max(len(ranks), expected or 1),
        queued_reqs=_total([rank["queued_reqs"] for rank in ranks]),
        kv_usage=max((r["kv_usage"] for r in ranks if r["kv_usage"] is not None), default=None),
        accept_len=_weighted(ranks, "accept_len"),
        draft_accept_rate=_weighted(ranks, "draft_accept_rate"),
        idle_after_s=max(rank["idle_after_s"] for rank in ranks),
        ranks_seen=len(ranks),
        ranks_idle=sum(bool(rank["idle"]) for rank in ranks),
        ranks_expected=expected,
    )


def _total(values: list[Any]) -> Any:
    """The sum of the known values; None where none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _weighted(ranks: list[dict[str, Any]], name: str) -> float | None:
    """The mean over ranks, weighted by their request steps."""
    known = [rank for rank in ranks if rank[name] is not None and rank["request_steps"]]
    steps = sum(rank["request_steps"] for rank in known)
    return sum(rank[name] * rank["request_steps"] for rank in known) / steps if steps else None


def series(
    con: duckdb.DuckDBPyConnection,
    run_id: str,
    start: datetime,
    end: datetime,
    points: int = 300,
    latest: Latest | None = None,
) -> pl.DataFrame:
    """A run's curves between two times in at most `points` buckets of at least one second, or one
    minute where samples were rolled up by minute.

    Columns: ts (start of the bucket), bucket (its number: a missing one is a gap), gen_tok_s
    (tokens falling in the bucket over the seconds of it that have data, a rank at a time, summed
    over ranks; windows after idleness left out), gen_tok_s_min and gen_tok_s_max (of the windows in
    the bucket, summed over ranks), prompt_tok_s, running_reqs and queued_reqs (last value of each
    rank that is not idle, summed) with gauges_at (their last stamp), kv_usage (worst rank's
    highest) with kv_at (its stamp), accept_len (weighted by request steps). A bucket without data
    is absent. `latest`: the end of this run, where it was read already.
    """
    span = (end - start).total_seconds()
    if latest is not None and latest.start <= start and latest.end == end and not latest.minutely:
        width = max(1.0, span / points)
        rows = latest.rows.filter(pl.col("ts") >= start)
        return curves.curves(rows, start, width, _buckets(span, width))
    place = {"run_id": run_id, "start": start, "end": end}
    held = one_run.held(con, run_id)
    many, minutely = _size(con, held, place)
    width = max(MINUTE_S if minutely else 1.0, span / points)
    buckets = _buckets(span, width)
    if not many:
        rows = curves.samples(con, held, {"start": start, "end": end})
        return curves.curves(rows, start, width, buckets)
    shape = {"width": width, "buckets": buckets}
    return asked(con, one_run.narrowed(_LONG_SERIES, held), place | shape)


def _buckets(span: float, width: float) -> int:
    return max(1, math.ceil(round(span / width, 9)))


def _size(
    con: duckdb.DuckDBPyConnection, held: one_run.Held, place: dict[str, Any]
) -> tuple[bool, bool]:
    """Whether there are more than MANY_SAMPLES in a time, and whether any is a minute's."""
    # Whether any is a minute's is asked only of a run that has some: no other query knows.
    # With the ranks that do not count there are only more, and they are counted in a sixth.
    if not held.by_minute and one_run.at_most(con, held, place) <= MANY_SAMPLES:
        return False, False
    count = _COUNT_MINUTES if held.by_minute else one_run.narrowed(_COUNT, held)
    counted = con.execute(count, place).fetchone()
    assert counted is not None
    return counted[0] > MANY_SAMPLES, bool(counted[1])


def by_minute_until(con: duckdb.DuckDBPyConnection, run_id: str) -> datetime | None:
    """Up to when a run's samples were rolled up by minute; None where all are there."""
    row = con.execute(
        f"SELECT max(m.ts) FROM {minutes.TABLE} m JOIN sample_groups g ON g.group_id = m.group_id "
        "WHERE g.run_id = $run_id",
        {"run_id": run_id},
    ).fetchone()
    return row[0] if row else None


def series_of_runs(
    con: duckdb.DuckDBPyConnection, run_ids: list[str], every_s: float
) -> pl.DataFrame:
    """The curves of these runs, or of all, one row per interval of `every_s` seconds; of a minute
    at least where a run was rolled up by minute.

    Columns: run_id, those of `series`, and interval_s (the interval's length). Intervals begin at
    the whole second of a run's first line; one without data is absent.
    """
    spans = queries.runs_table(con).filter(pl.col("first_ts").is_not_null())
    if run_ids:
        spans = spans.filter(pl.col("run_id").is_in(run_ids))
    frames = [
        _curve(con, run_id, first, last, every_s)
        for run_id, first, last in spans.select("run_id", "first_ts", "last_ts").iter_rows()
    ]
    nothing = datetime(1970, 1, 1)
    return pl.concat(frames) if frames else _curve(con, "", nothing, nothing, every_s)


def _curve(
    con: duckdb.DuckDBPyConnection, run_id: str, first: datetime, last: datetime, every_s: float
) -> pl.DataFrame:
    start = first.replace(microsecond=0)
    rolled_up = by_minute_until(con, run_id)
    if rolled_up is not None and rolled_up >= start:
        every_s = max(every_s, MINUTE_S)
    buckets = math.floor((last - start).total_seconds() / every_s) + 1
    end = start + timedelta(seconds=buckets * every_s)
    found = series(con, run_id, start, end, buckets)
    return found.select(
        pl.lit(run_id).alias("run_id"), pl.all(), pl.lit(every_s).alias("interval_s")
    )
