"""The stacked charts of the Live page: which quantities, in which order, and their alt texts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import polars as pl

from dashboard import words
from dashboard.charts.figure import Figure
from dashboard.charts.series import CLICK, Look, fill, segments

LOOKS: Final = (
    Look(
        "gen_tok_s", "Generation throughput", "tok/s", height=250, symbols=True,
        band=("gen_tok_s_min", "gen_tok_s_max"),
    ),
    Look("running_reqs", "Running requests", "requests", step=True, at="gauges_at"),
    Look("queued_reqs", "Queued requests", "requests", step=True, at="gauges_at"),
    Look("accept_len", "Accept length", "tokens a step", floor=1.0),
    Look("kv_usage", "KV use, worst rank", "of the pool", percent=True, at="kv_at"),
)  # fmt: skip


def figures(
    curves: pl.DataFrame,
    marks: pl.DataFrame,
    span: tuple[datetime, datetime],
    slot: str,
    cap: int | None,
    *,
    speculates: bool,
    bands: pl.DataFrame | None = None,
) -> list[Figure]:
    """One figure a quantity, in the order of the page; the acceptance where a run speculates.

    What has no values yet is drawn empty, so that nothing moves when the first one comes.
    """
    inside = marks.filter(pl.col("ts").is_between(*span))
    made = []
    for look in LOOKS:
        rows = segments(curves, look.column, look.at)
        if rows.is_empty() and look.column == "accept_len" and not speculates:
            continue
        limit = cap if look.column == "running_reqs" else None
        spec = fill(look, rows, inside, span, slot, limit, bands)
        table = rows.select("ts", look.column, *(look.band or ()))
        alt = alt_text(look, rows, limit)
        made.append(Figure(look.column, look.title, spec, alt, table, CLICK))
    return made


def alt_text(look: Look, rows: pl.DataFrame, cap: int | None = None) -> str:
    """One sentence with the numbers of a chart."""
    if rows.is_empty():
        return f"{look.title}: no samples."
    values = rows[look.column].to_list()
    show: Callable[[float | None], str] = words.percent if look.percent else words.number
    unit = "" if look.percent else f" {look.unit}"
    gaps = words.counted(rows["segment"].n_unique() - 1, "gap")
    return (
        f"{look.title} from {words.clock(rows['ts'][0])} to {words.clock(rows['ts'][-1])}: "
        f"last {show(values[-1])}{unit}, lowest {show(min(values))}, "
        f"highest {show(max(values))}; {gaps}." + (f" The cap is {cap:,}." if cap else "")
    )


SPARK_POINTS: Final = 60


def sparks(curves: pl.DataFrame) -> dict[str, list[float]]:
    """The shape of each curve in at most SPARK_POINTS values; empty where there are none."""
    found = {}
    for look in LOOKS:
        values = curves.sort("bucket")[look.column].cast(pl.Float64).drop_nulls()
        every = -(-values.len() // SPARK_POINTS) or 1
        # Counted from the end: the last value is the one that the tile shows.
        found[look.column] = values.reverse().gather_every(every).reverse().to_list()
    return found
