"""Where the time of a server's start went: stages in a row, from the first line to ready.

A log tells moments, not stages: a stage is the time up to a line that ends it. Where a line says
how long its stage took, only that much is the stage's, and the rest is preparation before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import duckdb
import polars as pl

from data.asked import asked

UNTIL_READY: Final = "until the ready line"
# The stage that a title of an event belongs to, and the words of lines that open it.
_STAGES: Final = (
    ("connecting ranks", r"Ranks connected|Collectives warmed up", r"Connecting ranks"),
    ("weights", r"Weights|Weight files", r"Loading weights"),
    ("KV cache", r"KV cache|Pool:|Memory pool|Prefix cache|State cache|GPU blocks|blocks", r"^$"),
    ("compiling", r"Compiled|Traced|Graph compiled", r"^$"),
    ("graph capture", r"Graphs captured|Graph memory|Graph sizes", r"Capturing graphs"),
    ("warm-up", r"[Ww]arm-up|Profiled", r"^$"),
    ("engine", r"Engine initialised", r"^Engine .*starts$"),
    ("HTTP server", r"HTTP server|Listening", r"^$"),
    (UNTIL_READY, r"^Ready$", r"^$"),
)
_KINDS: Final = ("boot", "engine", "milestone", "capacity", "args", "ready")
_LEAST_S: Final = 0.0005
_OTHERS: Final = 20  # earlier starts that a start is held against
_FEW: Final = 2  # of fewer a median says nothing
_SLOW: Final = 2.0  # times the median that is worth a word
_NOTICED_S: Final = 5.0

WATERFALL: Final[dict[str, pl.DataType]] = {
    "stage": pl.String(),
    "start_s": pl.Float64(),  # seconds since the start
    "end_s": pl.Float64(),
    "seconds": pl.Float64(),
    "until": pl.String(),  # the event that ended it
}


def waterfall(card: Mapping[str, Any], events: pl.DataFrame) -> pl.DataFrame:
    """The stages of a run's start: columns of WATERFALL, in the order of time.

    Args:
        card: a row of queries.runs_table.
        events: parsers.records.EVENTS of that run.
    """
    start, ready = card["started_at"], card["ready_at"]
    if start is None or ready is None:
        return pl.DataFrame(schema=WATERFALL)
    moments = events.filter(
        pl.col("kind").is_in(_KINDS)
        & pl.col("ts").is_between(start, ready)
        # A progress bar of 0 whole seconds stands before the line that says it to the hundredth.
        & ((pl.col("duration_s") > 0) | pl.col("duration_s").is_null())
    ).sort("ts", "byte_offset")
    rows: list[dict[str, Any]] = []
    at, opened = 0.0, ""
    for event in moments.iter_rows(named=True):
        end, (stage, opens) = _seconds(start, event["ts"]), _stage(event["title"])
        if not stage and not opens:
            continue
        if end - at > _LEAST_S:
            lasted = event["duration_s"] if stage else 0.0
            whole = lasted is None or lasted >= end - at
            since = at if whole and stage else end - (lasted or 0.0)
            rows.append(_row(opened or f"before {stage or opens}", at, since, event["title"]))
            rows.append(_row(stage or opened, since, end, event["title"]))
            at = end
        opened = opens
    rows.append(_row(UNTIL_READY, at, _seconds(start, ready), "Ready"))
    return _merged(pl.DataFrame(rows, schema=WATERFALL))


def _stage(title: str) -> tuple[str, str]:
    """The stage that an event ends, and the one that it opens; empty where it does neither."""
    for name, ends, opens in _STAGES:
        if re.search(opens, title) and opens != r"^$":
            return "", name
        if re.search(ends, title):
            return name, ""
    return "", ""


def _seconds(start: datetime, moment: datetime) -> float:
    return (moment - start).total_seconds()


def _row(stage: str, start_s: float, end_s: float, until: str) -> dict[str, Any]:
    seconds = end_s - start_s
    return dict(zip(WATERFALL, (stage, start_s, end_s, seconds, until), strict=True))


def _merged(rows: pl.DataFrame) -> pl.DataFrame:
    """Neighbours of one stage as one; stages without length are left out."""
    kept = rows.filter(pl.col("seconds") > _LEAST_S)
    return (
        kept.with_columns(run=pl.col("stage").rle_id())
        .group_by("run", maintain_order=True)
        .agg(
            pl.col("stage").first(),
            pl.col("start_s").first(),
            pl.col("end_s").last(),
            pl.col("seconds").sum(),
            pl.col("until").last(),
        )
        .select(WATERFALL.keys())
    )


def earlier(con: duckdb.DuckDBPyConnection, card: Mapping[str, Any]) -> list[pl.DataFrame]:
    """The waterfalls of the latest other starts of the same engine and model."""
    runs = asked(
        con,
        "SELECT run_id, started_at, ready_at FROM runs WHERE run_id <> $run_id "
        "AND engine = $engine AND model IS NOT DISTINCT FROM $model "
        "AND ready_at > started_at ORDER BY started_at DESC LIMIT $most",
        {
            "run_id": card["run_id"], "engine": card["engine"], "model": card["model"],
            "most": _OTHERS,
        },
    )  # fmt: skip
    events = asked(
        con,
        "SELECT * FROM events WHERE list_contains($runs, run_id) AND list_contains($kinds, kind)",
        {"runs": runs["run_id"].to_list(), "kinds": list(_KINDS)},
    )
    return [
        waterfall(run, events.filter(pl.col("run_id") == run["run_id"]))
        for run in runs.iter_rows(named=True)
    ]


def slow(stages: pl.DataFrame, others: Sequence[pl.DataFrame]) -> list[str]:
    """A sentence for each stage that took much longer than in other starts.

    Args:
        stages: of `waterfall`.
        others: the same of other starts.
    """
    own, *sums = (
        start.group_by("stage", maintain_order=True).agg(pl.col("seconds").sum())
        for start in (stages, *others)
    )
    each = (
        pl.concat([own.clear(), *sums])
        .group_by("stage")
        .agg(median=pl.col("seconds").median(), starts=pl.len())
    )
    told = own.join(each, on="stage", how="inner", maintain_order="left").filter(
        (pl.col("starts") >= _FEW)
        & (pl.col("seconds") >= _SLOW * pl.col("median"))
        & (pl.col("seconds") - pl.col("median") >= _NOTICED_S)
    )
    return [
        f"{stage} took {seconds:.0f} s, {seconds / median:.1f} times the median of "
        f"{median:.0f} s over {starts} other starts of this model"
        for stage, seconds, median, starts in told.iter_rows()
    ]
