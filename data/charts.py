"""The charts of a comparison: frame in, Altair chart out.

Colours are palette slots (`data.legend`): the page's theme or the file's palette fills them in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, cast

import altair as alt
import polars as pl

from data import legend, palette
from data import windows as w
from data.compare import Comparison, Group

MARKS: Final = 2_000  # of one chart at most
_CLOUD: Final = 1_500  # of these the windows, over all configurations
_SPARSE: Final = 200  # windows: fewer are drawn larger and less faint
_SIZE: Final = {"width": 620, "height": 360}


def with_slots(frame: pl.DataFrame, groups: Sequence[Group]) -> pl.DataFrame:
    """The frame with the palette slot of each label."""
    return frame.with_columns(
        slot=pl.col("label").replace_strict(slots(groups), return_dtype=pl.String)
    )


def slots(groups: Sequence[Group]) -> dict[str, str]:
    """The palette slot of each configuration: that of its first run where it is free."""
    places = palette.slots([group.runs[0].card["run_id"] for group in groups])
    return {group.label: str(place) for group, place in zip(groups, places, strict=True)}


def colour(groups: Sequence[Group], *, lines: bool = False) -> alt.Color:
    """The colours of configurations, with their labels in the legend."""
    return legend.colour({place: label for label, place in slots(groups).items()}, lines=lines)


def cloud(groups: Sequence[Group]) -> pl.DataFrame:
    """Windows under load: label, running_reqs (per rank), tok_s, window; evenly thinned."""
    share = _CLOUD // len(groups)
    frames = []
    for group in groups:
        rows = pl.concat([w.measured(run.windows) for run in group.runs]).filter(
            pl.col("window").is_in(["steady", "mixed"]) & (pl.col("running_reqs") > 0)
        )
        frames.append(
            rows.gather_every(max(1, math.ceil(rows.height / share))).select(
                pl.lit(group.label).alias("label"),
                "running_reqs",
                pl.col("gen_tok_s").alias("tok_s"),
                pl.col("window").cast(pl.String),
            )
        )
    return pl.concat(frames)


def rates(groups: Sequence[Group]) -> pl.DataFrame:
    """Σ tokens / Σ seconds of steady windows: label, running_reqs, tok_s, seconds, windows.

    Of many running counts those with most seconds, so that a chart stays small.
    """
    share = (MARKS - _CLOUD) // (3 * len(groups))  # a line and points, and room for the caps
    return pl.concat([
        pl.concat([run.steady for run in group.runs])
        .group_by("running_reqs")
        .agg(
            tok_s=pl.col("tokens").sum() / pl.col("interval_s").sum(),
            seconds=pl.col("interval_s").sum(),
            windows=pl.len(),
        )
        .sort("seconds", descending=True)
        .head(share)
        .sort("running_reqs")
        .select(pl.lit(group.label).alias("label"), "running_reqs", "tok_s", "seconds", "windows")
        for group in groups
    ])  # fmt: skip


def points(groups: Sequence[Group]) -> pl.DataFrame:
    """Benchmark points: label, concurrency, tok_s (mean over repeats)."""
    return pl.concat([
        pl.concat([run.bench.select("concurrency", "output_tok_s") for run in group.runs])
        .drop_nulls()
        .group_by("concurrency")
        .agg(tok_s=pl.col("output_tok_s").mean())
        .sort("concurrency")
        .select(pl.lit(group.label).alias("label"), "concurrency", "tok_s")
        for group in groups
    ])  # fmt: skip


def running_chart(groups: Sequence[Group]) -> alt.TopLevelMixin:
    """Throughput over running requests: steady rates as lines, every window behind them, faint.

    Where a cap was in force the cloud ends; a rule says which cap.
    """
    x = alt.X(
        "running_reqs:Q",
        title="running requests, per rank",
        axis=alt.Axis(tickMinStep=1, format=",d"),
        scale=alt.Scale(zero=True, nice=False, padding=8),
    )
    y = alt.Y("tok_s:Q", title="tokens per second, per rank", axis=alt.Axis(format=",~r"))
    tip = [
        alt.Tooltip("label:N", title="set-up"),
        alt.Tooltip("running_reqs:Q", title="running requests", format=",d"),
        alt.Tooltip("tok_s:Q", title="tok/s", format=",.1f"),
    ]
    windows = cloud(groups)
    dense = windows.height > _SPARSE
    seen = alt.condition(
        "datum.window === 'steady'", alt.value(0.35 if dense else 0.7),
        alt.value(0.15 if dense else 0.4),
    )  # fmt: skip
    key = colour(groups)
    size = 16 if dense else 30
    behind = alt.Chart(with_slots(windows, groups)).mark_point(filled=True, size=size).encode(
        x, y, key, legend.shape(), opacity=seen,
        tooltip=[*tip, alt.Tooltip("window:N")],
    )  # fmt: skip
    held = rates(groups)
    over = alt.Chart(with_slots(held, groups)).encode(x, y, key)
    dots = over.mark_point(filled=True, size=50, opacity=1).encode(
        legend.shape(), tooltip=[*tip, alt.Tooltip("windows:Q", title="steady windows")]
    )
    layers = alt.layer(
        behind, *legend.dashed(over, slots(groups).values()), dots, *_cap_layers(groups, key)
    )
    return cast("alt.TopLevelMixin", layers.properties(**_SIZE))


def caps(groups: Sequence[Group]) -> pl.DataFrame:
    """The caps on running requests of a rank that some window came near: label, cap, near."""
    highest = max((run.steady["running_reqs"].max() or 0 for g in groups for run in g.runs),
                  default=0)  # fmt: skip
    found = [(group.label, group.runs[0].card["max_running_requests"]) for group in groups]
    frame = pl.DataFrame(found, schema={"label": pl.String, "cap": pl.Int64}, orient="row")
    return frame.drop_nulls().with_columns(near=pl.col("cap") <= 1.5 * cast("int", highest))


def _cap_layers(groups: Sequence[Group], key: alt.Color) -> list[Any]:
    """A rule at each cap that the windows came near, and its number on top of it."""
    near = caps(groups).filter("near")
    if near.is_empty():
        return []
    x = alt.X("cap:Q")
    rules = alt.Chart(with_slots(near, groups)).mark_rule(strokeDash=[6, 4], strokeWidth=1.5)
    said = near.select("cap").unique().with_columns(text=pl.format("cap {}", "cap"))
    text = alt.Chart(said).mark_text(align="left", baseline="top", dx=4, dy=2, style=palette.NOTE)
    return [rules.encode(x, key), text.encode(x, y=alt.value(0), text="text:N")]


def bench_chart(groups: Sequence[Group]) -> alt.TopLevelMixin | None:
    """Output throughput over the concurrency of benchmarks; None without any."""
    frame = points(groups)
    if not frame.height:
        return None
    base = alt.Chart(with_slots(frame, groups)).encode(
        alt.X("concurrency:Q", title="concurrent requests of the benchmark"),
        alt.Y("tok_s:Q", title="output tok/s"),
        colour(groups),
    )
    lines = legend.dashed(base, slots(groups).values())
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(
        legend.shape(),
        tooltip=[
            alt.Tooltip("label:N", title="set-up"),
            alt.Tooltip("concurrency:Q", format=",d"),
            alt.Tooltip("tok_s:Q", title="output tok/s", format=",.1f"),
        ],
    )
    return cast("alt.TopLevelMixin", alt.layer(*lines, dots).properties(**_SIZE))


def comparison_chart(comparison: Comparison) -> alt.TopLevelMixin:
    """Everything that can be drawn of a comparison, in one picture."""
    running, bench = running_chart(comparison.groups), bench_chart(comparison.groups)
    return running if bench is None else alt.vconcat(cast("Any", running), cast("Any", bench))


_QUANTILES: Final = ("p10", "p25", "p50", "p75", "p90")


def spread_chart(rows: pl.DataFrame, groups: Sequence[Group]) -> alt.TopLevelMixin:
    """How the windows of each set-up vary at equal running counts: quantiles side by side.

    Args:
        rows: of data.spread.spread, at least one.
    """
    several = rows.group_by("running_reqs", "label").len()["len"].max() != 1
    shown = pl.col("running_reqs").cast(pl.String)
    named = pl.format("{} (graph {})", "running_reqs", "graph") if several else shown
    drawn = with_slots(rows.with_columns(count=named), groups)
    base = alt.Chart(drawn).encode(
        alt.X(
            "count:N", title="running requests, per rank", axis=alt.Axis(labelAngle=0),
            sort=drawn["count"].unique(maintain_order=True).to_list(),
        ),
        alt.XOffset("slot:N", sort=list(slots(groups).values())),
        colour(groups),
        tooltip=[
            alt.Tooltip("label:N", title="set-up"),
            alt.Tooltip("count:N", title="running requests"),
            *(alt.Tooltip(f"{n}:Q", title=f"{n} tok/s", format=",.2f") for n in _QUANTILES),
            alt.Tooltip("windows:Q", title="steady windows", format=",d"),
        ],
    )  # fmt: skip
    y = alt.Scale(zero=False, padding=10)
    title = "tok/s of one request"
    whisker = base.mark_rule(strokeWidth=1.5).encode(
        alt.Y("p10:Q", title=title, scale=y), alt.Y2("p90:Q")
    )
    box = base.mark_bar(opacity=0.45).encode(alt.Y("p25:Q", title=title, scale=y), alt.Y2("p75:Q"))
    middle = base.mark_point(filled=True, size=60, opacity=1).encode(
        alt.Y("p50:Q", title=title, scale=y), legend.shape()
    )
    layers = alt.layer(whisker, box, middle).properties(height=_SIZE["height"])
    return cast("alt.TopLevelMixin", layers)
