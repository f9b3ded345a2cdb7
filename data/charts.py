"""The charts of a comparison: frame in, Altair chart out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import altair as alt
import polars as pl

from data import windows as w
from data.compare import Comparison, Group
from data.palette import LIGHT

_CLOUD = 1_500  # windows of one configuration that are drawn
_SIZE = {"width": 620, "height": 320}


def cloud(groups: Sequence[Group]) -> pl.DataFrame:
    """Windows under load: label, running_reqs (per rank), tok_s, window; evenly thinned."""
    frames = []
    for group in groups:
        rows = pl.concat([w.measured(run.windows) for run in group.runs]).filter(
            pl.col("window").is_in(["steady", "mixed"]) & (pl.col("running_reqs") > 0)
        )
        frames.append(
            rows.gather_every(max(1, rows.height // _CLOUD)).select(
                pl.lit(group.label).alias("label"),
                "running_reqs",
                pl.col("gen_tok_s").alias("tok_s"),
                pl.col("window").cast(pl.String),
            )
        )
    return pl.concat(frames)


def rates(groups: Sequence[Group]) -> pl.DataFrame:
    """Σ tokens / Σ seconds of steady windows: label, running_reqs, tok_s."""
    return pl.concat([
        pl.concat([run.steady for run in group.runs])
        .group_by("running_reqs")
        .agg(tok_s=pl.col("tokens").sum() / pl.col("interval_s").sum())
        .select(pl.lit(group.label).alias("label"), "running_reqs", "tok_s")
        for group in groups
    ])  # fmt: skip


def points(groups: Sequence[Group]) -> pl.DataFrame:
    """Benchmark points: label, concurrency, tok_s (mean over repeats)."""
    return pl.concat([
        pl.concat([run.bench.select("concurrency", "output_tok_s") for run in group.runs])
        .drop_nulls()
        .group_by("concurrency")
        .agg(tok_s=pl.col("output_tok_s").mean())
        .select(pl.lit(group.label).alias("label"), "concurrency", "tok_s")
        for group in groups
    ])  # fmt: skip


def running_chart(groups: Sequence[Group]) -> alt.TopLevelMixin:
    """Throughput over running requests: steady rates as lines, every window behind them, faint.

    Where a cap was in force the cloud ends; a rule says which cap.
    """
    labels = [group.label for group in groups]
    colour = alt.Color(
        "label:N",
        title=None,
        legend=alt.Legend(symbolOpacity=1),
        scale=alt.Scale(domain=labels, range=LIGHT[: len(labels)]),
    )
    whole = alt.Axis(tickMinStep=1, format="d")
    x = alt.X("running_reqs:Q", title="running requests, per rank", axis=whole)
    y = alt.Y("tok_s:Q", title="tokens per second, per rank")
    behind = alt.Chart(cloud(groups)).mark_circle(size=18).encode(
        x, y, colour, opacity=alt.condition("datum.window === 'steady'", alt.value(0.35),
                                            alt.value(0.12)),
    )  # fmt: skip
    held = rates(groups)
    line = alt.Chart(held).mark_line(point=True).encode(x, y, colour)
    layers = alt.layer(behind, line, _caps(groups, held, colour))
    return cast("alt.TopLevelMixin", layers.properties(**_SIZE))


def _caps(groups: Sequence[Group], held: pl.DataFrame, colour: alt.Color) -> Any:
    """A rule at each cap that the windows came near."""
    highest = max(held["running_reqs"].to_list(), default=0)
    caps = [(group.label, group.runs[0].card["max_running_requests"]) for group in groups]
    near = [(label, cap) for label, cap in caps if cap and cap <= 1.5 * highest]
    frame = pl.DataFrame(near, schema={"label": pl.String, "cap": pl.Int64}, orient="row")
    return alt.Chart(frame).mark_rule(strokeDash=[4, 3]).encode(x=alt.X("cap:Q"), color=colour)


def bench_chart(groups: Sequence[Group]) -> alt.TopLevelMixin | None:
    """Output throughput over the concurrency of benchmarks; None without any."""
    frame = points(groups)
    if not frame.height:
        return None
    labels = [group.label for group in groups]
    chart = (
        alt.Chart(frame)
        .mark_line(point=True)
        .encode(
            alt.X("concurrency:Q", title="concurrency of the benchmark"),
            alt.Y("tok_s:Q", title="output tokens per second"),
            alt.Color("label:N", title=None, sort=labels,
                      scale=alt.Scale(domain=labels, range=LIGHT[: len(labels)])),
        )
        .properties(**_SIZE)
    )  # fmt: skip
    return cast("alt.TopLevelMixin", chart)


def comparison_chart(comparison: Comparison) -> alt.TopLevelMixin:
    """Everything that can be drawn of a comparison, in one picture."""
    running, bench = running_chart(comparison.groups), bench_chart(comparison.groups)
    return running if bench is None else alt.vconcat(cast("Any", running), cast("Any", bench))
