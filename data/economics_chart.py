"""The chart of speculation: the cost of a step against what it yields, over the break-even line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import altair as alt
import polars as pl

from data import charts, legend, palette
from data.compare import Comparison, Group

_HEIGHT: Final = 400
_COUNTS: Final = 6  # said beside points that coincide
_YIELD, _COST = "tokens a step yields (accept length)", "cost of a step, in plain steps"


def economics(comparison: Comparison) -> pl.DataFrame:
    """What speculation costs and yields: a row a set-up and running count that can be told."""
    rows: list[Mapping[str, Any]] = [
        {
            "label": pair.label, "running_reqs": row.running, "accept_len": row.accept_len,
            "step_cost": row.cost, "speedup": row.speedup, "step_ms": row.step_ms,
            "cost_low": row.cost_interval.low if row.cost_interval else None,
            "cost_high": row.cost_interval.high if row.cost_interval else None,
            "windows": row.windows, "sentence": row.sentence,
        }
        for pair in comparison.pairs
        for row in pair.economics
        if row.accept_len is not None and row.cost is not None and not row.refused
    ]  # fmt: skip
    schema = {
        "label": pl.String(), "running_reqs": pl.Int64(), "accept_len": pl.Float64(),
        "step_cost": pl.Float64(), "speedup": pl.Float64(), "step_ms": pl.Float64(),
        "cost_low": pl.Float64(), "cost_high": pl.Float64(), "windows": pl.Int64(),
        "sentence": pl.String(),
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


def diagonal(rows: pl.DataFrame, groups: Sequence[Group]) -> Any:
    """The break-even line, the side of it that loses, and a point a set-up and count."""
    values = pl.concat([rows["accept_len"], rows["step_cost"], rows["cost_high"].drop_nulls()])
    low = min(0.9, float(cast("float", values.min())) * 0.95)
    high = max(2.0, float(cast("float", values.max())) * 1.1)
    ends = alt.Scale(domain=[low, high], nice=False)
    drawn = [group for group in groups if group.label in set(rows["label"])]
    names = {charts.slots(groups)[group.label]: group.label for group in drawn}
    points = alt.Chart(charts.with_slots(_labelled(rows), groups)).encode(
        alt.X("accept_len:Q", title=_YIELD, scale=ends),
        legend.colour(names),
        tooltip=[
            alt.Tooltip("label:N", title="set-up"),
            alt.Tooltip("running_reqs:Q", title="running requests", format=",d"),
            alt.Tooltip("accept_len:Q", title="accept length", format=",.2f"),
            alt.Tooltip("step_cost:Q", title="cost in plain steps", format=",.2f"),
            alt.Tooltip("speedup:Q", title="times the base", format=",.2f"),
        ],
    )
    y = alt.Y("step_cost:Q", title=_COST, scale=ends)
    sure = alt.Y("cost_low:Q", title=_COST, scale=ends)
    layers = (
        *_sides(low, high, ends),
        points.mark_rule(strokeWidth=1.5).encode(sure, alt.Y2("cost_high:Q")),
        points.mark_point(filled=True, size=110, opacity=1).encode(y, legend.shape()),
        points.mark_text(align="left", dx=9, fontSize=12).encode(y, text="counts:N"),
    )
    return alt.layer(*layers).properties(height=_HEIGHT)


def _labelled(rows: pl.DataFrame) -> pl.DataFrame:
    """With the column counts: the running counts of a point, said once where points coincide."""
    place = ["label", pl.col("accept_len").round(1), pl.col("step_cost").round(1)]
    nth = pl.int_range(pl.len()).over(place)
    some = pl.col("running_reqs").cast(pl.String).head(_COUNTS).str.join(", ")
    more = pl.when(pl.len() > _COUNTS).then(pl.lit(" …")).otherwise(pl.lit(""))
    said = pl.concat_str(some, more).over(place)
    return rows.with_columns(counts=pl.when(nth == 0).then(said).otherwise(pl.lit("")))


def _sides(low: float, high: float, ends: alt.Scale) -> list[Any]:
    """The line where a step costs what it yields, and words for both sides of it."""
    edge = pl.DataFrame({"accept_len": [low, high], "step_cost": [low, high], "top": [high, high]})
    base = alt.Chart(edge).encode(
        alt.X("accept_len:Q", title=_YIELD, scale=ends),
        alt.Y("step_cost:Q", title=_COST, scale=ends),
    )
    loses = base.mark_area(opacity=0.12, color=palette.FAULT).encode(alt.Y2("top:Q"))
    even = base.mark_line(strokeDash=[6, 4], color=palette.RULE, strokeWidth=1.5)
    return [loses, even, _said("costs more than it yields", True), _said("pays", False)]


def _said(text: str, left: bool) -> Any:
    words = alt.Chart(pl.DataFrame({"text": [text]})).mark_text(
        align="left" if left else "right", baseline="top" if left else "bottom",
        dx=8 if left else -8, dy=8 if left else -8, fontSize=12, style=palette.NOTE,
    )  # fmt: skip
    corner = (0, 0) if left else ("width", "height")
    return words.encode(x=alt.value(corner[0]), y=alt.value(corner[1]), text="text:N")
