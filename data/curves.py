"""A run's curves and its latest state out of the samples of a short time.

They are asked for each second. DuckDB would take longer to plan such a question over a thousand
rows than polars takes to answer it. `series_long.sql` has the curves of many samples.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import duckdb
import polars as pl

from data import one_run
from data.asked import asked

Frame = pl.LazyFrame

_LATE: Final = """
SELECT file_id, byte_offset, interval_s AS late_s FROM sample_intervals
WHERE run_id = $run_id AND byte_offset BETWEEN $first AND $last
"""
_GAUGES: Final = ("running_reqs", "queued_reqs", "kv_usage")
_WAITED: Final = ("after_idle", "startup")
_IDLE_WINDOWS: Final = 3.0  # median windows of a rank without a line
_WINDOW_S: Final = 10.0  # of a rank that has printed no rate yet
_BORDER: Final = 1e-9  # of a bucket: what lies on its border
_LEAST_S: Final = 1e-6  # of a window: less than this in a bucket is rounding


def samples(
    con: duckdb.DuckDBPyConnection, held: one_run.Held, place: dict[str, Any]
) -> pl.DataFrame:
    """The counted samples of a run between two times, in the order of time, and those of the two
    minutes after them: a window that begins before the end may be stamped after it.

    Args:
        place: start, end.
    """
    found = asked(con, one_run.between(held), place)
    rows = _corrected(con, held, found.join(held.groups, on="group_id"))
    waited = pl.col("window").is_in(_WAITED).fill_null(False)
    return rows.sort("ts", "byte_offset").with_columns(nth=pl.int_range(pl.len()), waited=waited)


def _corrected(
    con: duckdb.DuckDBPyConnection, held: one_run.Held, rows: pl.DataFrame
) -> pl.DataFrame:
    """With the windows that were still open when their sample was stored."""
    if rows.is_empty():
        return rows
    first, last = rows["byte_offset"].min(), rows["byte_offset"].max()
    late = asked(con, _LATE, {"run_id": held.run_id, "first": first, "last": last})
    if late.is_empty():
        return rows
    return rows.join(late, on=["file_id", "byte_offset"], how="left").with_columns(
        interval_s=pl.coalesce("late_s", "interval_s")
    )


def latest(rows: pl.DataFrame) -> pl.DataFrame:
    """The latest state of every rank, sorted by rank.

    Columns: rank, last_ts, idle_after_s, idle, gen_tok_s, running_reqs, queued_reqs, kv_usage,
    accept_len, draft_accept_rate, request_steps.

    Args:
        rows: of `samples`.
    """
    told = pl.col("accept_len").is_not_null()
    # A rate that averages over idleness or loading is no rate of now.
    rate = pl.when(~pl.col("waited")).then("gen_tok_s")
    paced = pl.col("interval_s").filter(~pl.col("waited") & pl.col("gen_tok_s").is_not_null())
    return (
        rows.group_by("rank")
        .agg(
            _idle_after(paced),
            last_ts=pl.col("ts").max(),
            gen_tok_s=rate.filter(pl.col("gen_tok_s").is_not_null()).last(),
            running_reqs=_running(),
            queued_reqs=_last("queued_reqs"),
            kv_usage=_last("kv_usage"),
            accept_len=_last("accept_len"),
            draft_accept_rate=_last("draft_accept_rate", told),
            request_steps=_last("request_steps", told),
        )
        .with_columns(
            idle=(pl.lit(rows["ts"].max()) - pl.col("last_ts")).dt.total_microseconds() / 1e6
            > pl.col("idle_after_s")
        )
        .sort("rank")
    )


def curves(rows: pl.DataFrame, start: datetime, width: float, buckets: int) -> pl.DataFrame:
    """The columns of `data.run_curves.series`, in buckets of `width` seconds from `start` on.

    Rates are spread over their windows; gauges stand at their stamps.

    Args:
        rows: of `samples`.
    """
    counted = _counted(rows, start)
    rates = _rates(_parted(_placed(counted), width, buckets), width)
    gauges = _gauges(_standing(counted, width, buckets))
    joined = rates.join(gauges, on="bucket", how="full", coalesce=True)
    begun = pl.col("bucket") * width

    def moment(seconds: pl.Expr) -> pl.Expr:
        return pl.lit(start, pl.Datetime("us")) + pl.duration(
            microseconds=(seconds * 1e6).round().cast(pl.Int64)
        )

    return (
        joined.sort("bucket")
        .select(
            moment(begun).alias("ts"), "bucket", "gen_tok_s", "prompt_tok_s", "gen_tok_s_min",
            "gen_tok_s_max", "running_reqs", "queued_reqs",
            moment(pl.coalesce("last_at", begun)).alias("gauges_at"), "kv_usage",
            moment(pl.coalesce("kv_at", begun)).alias("kv_at"), "accept_len",
        )
        .collect()
    )  # fmt: skip


def _counted(rows: pl.DataFrame, start: datetime) -> Frame:
    """With b, the stamp in seconds since the start, and what counts of each sample."""
    # A window after idleness averages over the idle time, one of the start-up over the loading:
    # it stands for its moment only.
    timed = ~pl.col("waited") & (pl.col("interval_s") > 0)
    prefill = pl.col("kind") == "prefill"
    at, zero = pl.col("ts").dt.epoch("us"), pl.lit(start, pl.Datetime("us")).dt.epoch("us")
    return rows.lazy().select(
        "kind", "rank", "nth", *_GAUGES, "accept_len",
        b=at / 1e6 - zero / 1e6,
        seconds=pl.when(timed).then("interval_s"),
        gen_tok_s=pl.when(timed).then("gen_tok_s"),
        low=pl.when(timed).then("gen_tok_s_min"),
        high=pl.when(timed).then("gen_tok_s_max"),
        prompt_tokens=pl.coalesce(
            pl.col("prompt_tok_s") * pl.col("interval_s"),
            pl.when(prefill).then(pl.col("new_tokens").cast(pl.Float64)),
        ),
        request_steps=pl.when(pl.col("accept_len").is_not_null()).then("request_steps"),
    )  # fmt: skip


def _placed(counted: Frame) -> Frame:
    """With a and z, where each window begins and ends, and its length.

    Windows computed from steps can be longer than the time since the stamp before: those of one
    stamp share that time, each in proportion, so that no moment is drawn twice.
    """
    lane = ["rank", "kind"]
    sofar = counted.with_columns(sofar=pl.col("seconds").cum_sum().over(lane))
    stamps = (
        sofar.filter(pl.col("seconds").is_not_null())
        .group_by(*lane, "b")
        .agg(wanted=pl.col("seconds").sum(), at_end=pl.col("sofar").max())
        .sort("b")
        .with_columns(since=pl.col("b") - pl.col("b").shift(1).over(lane))
        .with_columns(scale=pl.min_horizontal("wanted", "since") / pl.col("wanted"))
        .select(*lane, "b", "at_end", "scale")
    )
    later = pl.col("b") - pl.col("scale") * (pl.col("at_end") - pl.col("sofar"))
    return (
        sofar.join(stamps, on=[*lane, "b"], how="left")
        .with_columns(length=pl.col("seconds") * pl.col("scale"), z=pl.coalesce(later, "b"))
        .with_columns(a=pl.col("z") - pl.col("length").fill_null(0.0))
    )


def _parted(placed: Frame, width: float, buckets: int) -> Frame:
    """A row for each bucket that a window reaches into, with how much of it lies there.

    Windows are closed at their end, so a moment on a border is in the bucket before it.
    """
    untimed = pl.col("length").is_null()
    first = pl.when(untimed).then(_bucket_of("b", width)).otherwise((pl.col("a") / width).floor())
    inside = pl.min_horizontal("z", (pl.col("bucket") + 1) * width) - pl.max_horizontal(
        "a", pl.col("bucket") * width
    )
    return (
        placed.with_columns(
            first=pl.max_horizontal(first, 0.0).cast(pl.Int64),
            data_start=pl.col("a").min(), data_end=pl.col("b").max(),
        )
        .pipe(_exploded, "first", "z", width, buckets)
        .with_columns(overlap=inside)
        .filter(untimed | (pl.col("overlap") > _LEAST_S))
        .with_columns(
            share=pl.when(untimed).then(1.0).otherwise(pl.col("overlap") / pl.col("seconds"))
        )
    )  # fmt: skip


def _rates(parted: Frame, width: float) -> Frame:
    known = pl.col("gen_tok_s").is_not_null()
    of_ranks = parted.group_by("bucket", "rank").agg(
        # Over the seconds that the rank has data for: a bucket filled by half is no drop.
        gen_tok_s=_sum(pl.col("gen_tok_s") * pl.col("overlap"))
        / _sum(pl.col("overlap").filter(known)),
        gen_tok_s_min=pl.col("low").min(),
        gen_tok_s_max=pl.col("high").max(),
        prompt_tokens=_sum(pl.col("prompt_tokens") * pl.col("share")),
        accept=_sum(pl.col("accept_len") * pl.col("request_steps") * pl.col("share")),
        steps=_sum(pl.col("request_steps") * pl.col("share")),
        data_start=pl.col("data_start").first(),
        data_end=pl.col("data_end").first(),
    )
    # The first and the last bucket are as long as there is data in them.
    begin = pl.max_horizontal(pl.col("bucket") * width, "data_start")
    end = pl.min_horizontal((pl.col("bucket") + 1) * width, "data_end")
    return of_ranks.group_by("bucket").agg(
        *(_sum(pl.col(name)) for name in ("gen_tok_s", "gen_tok_s_min", "gen_tok_s_max")),
        prompt_tok_s=_sum(pl.col("prompt_tokens")) / _not_zero((end - begin).first()),
        accept_len=_sum(pl.col("accept")) / _not_zero(_sum(pl.col("steps"))),
    )


def _standing(counted: Frame, width: float, buckets: int) -> Frame:
    """A row for each bucket in which a gauge stands: from its stamp to the rank's next one, but
    not while the rank is idle."""
    paced = pl.col("seconds").filter(pl.col("gen_tok_s").is_not_null())
    pace = counted.group_by("rank").agg(_idle_after(paced))
    following = pl.col("b").shift(-1).over("rank", pl.col("kind") == "prefill")
    return (
        counted.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in _GAUGES))
        .join(pace, on="rank")
        .sort("nth")
        .with_columns(
            own=pl.max_horizontal(_bucket_of("b", width), 0.0).cast(pl.Int64),
            until=pl.min_horizontal(
                following, pl.col("b") + pl.col("idle_after_s"), pl.col("b").max()
            ),
        )
        .pipe(_exploded, "own", "until", width, buckets)
    )


def _gauges(standing: Frame) -> Frame:
    own = pl.col("bucket") == pl.col("own")
    at_most = pl.col("kv_usage").filter(own).arg_max()
    of_ranks = standing.sort("nth").group_by("bucket", "rank").agg(
        running_reqs=_running(),
        queued_reqs=_last("queued_reqs"),
        kv_usage=pl.coalesce(pl.col("kv_usage").filter(own).max(), _last("kv_usage")),
        last_at=pl.col("b").filter(own).max(),
        kv_at=pl.col("b").filter(own).get(at_most, null_on_oob=True),
    )  # fmt: skip
    fullest = pl.col("kv_usage").arg_max()
    return of_ranks.group_by("bucket").agg(
        *(_sum(pl.col(name).cast(pl.Int64)) for name in ("running_reqs", "queued_reqs")),
        pl.col("kv_usage").max(),
        last_at=pl.col("last_at").max(),
        kv_at=pl.col("kv_at").get(fullest, null_on_oob=True),
    )


def _exploded(rows: Frame, first: str, until: str, width: float, buckets: int) -> Frame:
    """Each row once for every bucket from `first` to that of the moment `until`."""
    end = pl.max_horizontal(pl.col(first) + 1, (pl.col(until) / width).ceil().cast(pl.Int64))
    upto = pl.min_horizontal(end, pl.lit(buckets, pl.Int64))
    return (
        rows.filter(pl.col(first) < buckets)
        .with_columns(bucket=pl.int_ranges(first, upto))
        .explode("bucket")
    )


def _bucket_of(name: str, width: float) -> pl.Expr:
    """The bucket of a moment; on a border it is the one before."""
    return (pl.col(name) / width - _BORDER).ceil() - 1


def _idle_after(seconds: pl.Expr) -> pl.Expr:
    """Idle: three of its median windows without a line (whole-second stamps: at least 3 s)."""
    median = seconds.median().fill_null(_WINDOW_S)
    return (_IDLE_WINDOWS * pl.max_horizontal(median, 1.0)).alias("idle_after_s")


def _running() -> pl.Expr:
    # SGLang's prefill lines count the running requests before their own batch.
    other = _last("running_reqs", pl.col("kind") != "prefill")
    return pl.coalesce(other, _last("running_reqs"))


def _last(name: str, condition: pl.Expr | None = None) -> pl.Expr:
    """The last value that is known, of rows in the order of time."""
    values = pl.col(name) if condition is None else pl.col(name).filter(condition)
    return values.drop_nulls().last()


def _sum(values: pl.Expr) -> pl.Expr:
    """The sum of what is known; null where nothing is."""
    return pl.when(values.count() > 0).then(values.sum())


def _not_zero(value: pl.Expr) -> pl.Expr:
    return pl.when(value != 0).then(value)
