"""Incidents over time, a lane a class: frames of `dashboard.incident_view` in, a figure out."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl

from dashboard import theme, words
from dashboard.charts.clock import clock
from dashboard.charts.figure import Figure, spec_of
from dashboard.incident_view import LANES, lane_name

MOST: Final = 900  # incidents drawn; with the spans they stay below 2,000 marks
_LANE_HEIGHT: Final = 30
_ROOM: Final = 80  # pixels for the legend and the axis
_SHAPES: Final = {"fault": "cross", "warning": "diamond"}
_SIZES: Final = (70, 600)


def lanes(found: pl.DataFrame) -> Figure | None:
    """A point an incident at its first line, a bar to its last one; None where none has a time.

    Size says how many lines, shape and colour whether it is a fault. Of more than MOST the
    faults stay longest, then what has most lines.
    """
    timed = found.drop_nulls("first_ts")
    if timed.is_empty():
        return None
    order = [pl.col("severity") == "fault", pl.col("count")]
    drawn = timed.sort(order, descending=True, nulls_last=True, maintain_order=True).head(MOST)
    rows = drawn.select(
        "class", "severity", "what", "run", "count",
        ts=pl.col("first_ts").dt.epoch("ms"),
        end=pl.col("last_ts").dt.epoch("ms"),
        first=pl.col("first_ts").dt.strftime("%Y-%m-%d %H:%M:%S"),
        last=pl.col("last_ts").dt.strftime("%Y-%m-%d %H:%M:%S"),
        lasted=pl.col("last_ts") > pl.col("first_ts"),
    )  # fmt: skip
    present = set(drawn["lane"].to_list())
    order_of_lanes = [lane for lane in LANES if lane in present]
    names = [lane_name(lane) for lane in [*order_of_lanes, *sorted(present - set(LANES))]]
    title = "Incidents by class"
    if drawn.height < timed.height:
        title += f" (the weightiest {MOST:,} of {timed.height:,})"
    table = drawn.select("first_ts", "last_ts", "class", "severity", "count", "what", "run")
    chart = _chart(rows, names)
    return Figure("incidents", title, spec_of(chart), alt_text(drawn, names), table)


def _chart(rows: pl.DataFrame, names: list[str]) -> alt.LayerChart | alt.FacetChart:
    x = alt.X(
        "ts:T", title=None, scale=alt.Scale(type="utc", padding=16),
        axis=alt.Axis(format=clock(rows["ts"]), labelOverlap=True, tickCount=6, grid=False),
    )  # fmt: skip
    y = alt.Y(
        "class:N", title=None, sort=names,
        scale=alt.Scale(domain=names),
        axis=alt.Axis(grid=True, ticks=False, labelLimit=140, labelOverlap=False),
    )  # fmt: skip
    kinds = list(_SHAPES)
    colour = alt.Color(
        "severity:N", title=None, legend=alt.Legend(orient="top"),
        scale=alt.Scale(domain=kinds, range=[theme.FAULT, theme.WARNING]),
    )  # fmt: skip
    shape = alt.Shape(
        "severity:N", title=None, scale=alt.Scale(domain=kinds, range=list(_SHAPES.values()))
    )
    size = alt.Size(
        "count:Q", legend=None, scale=alt.Scale(type="sqrt", domainMin=1, range=list(_SIZES))
    )
    tip = [
        alt.Tooltip("class:N"), alt.Tooltip("severity:N"), alt.Tooltip("what:N"),
        alt.Tooltip("first:N"), alt.Tooltip("last:N"),
        alt.Tooltip("count:Q", title="lines", format=",d"), alt.Tooltip("run:N"),
    ]  # fmt: skip
    base = alt.Chart(rows).encode(x, y, colour)
    layers = [base.mark_point(filled=True, opacity=0.85).encode(shape, size, tooltip=tip)]
    if rows["lasted"].any():  # of a layer without rows Vega warns
        lasting = base.transform_filter("datum.lasted")
        layers.insert(0, lasting.mark_rule(strokeWidth=3).encode(alt.X2("end:T")))
    return alt.layer(*layers).properties(height=_LANE_HEIGHT * len(names) + _ROOM)


def alt_text(drawn: pl.DataFrame, names: list[str]) -> str:
    """The chart in one sentence with its numbers."""
    counts = dict(drawn.group_by("class").len().iter_rows())
    parts = ", ".join(f"{counts[name]} {name}" for name in names)
    first, last = drawn["first_ts"].min(), drawn["first_ts"].max()
    span = f"{words.day_and_clock(first)} to {words.day_and_clock(last)}"  # type: ignore[arg-type]
    return f"Incidents from {span}: {parts}."
