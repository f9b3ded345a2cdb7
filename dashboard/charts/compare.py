"""The charts of the Compare page with their words and rows: a comparison in, figures out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import altair as alt
import polars as pl

from dashboard import words
from dashboard.charts.clock import clock
from dashboard.charts.figure import Figure, spec_of
from dashboard.charts.series import segments
from data import aligned, charts, legend
from data.compare import Group
from data.spread import spread

_HEIGHT: Final = 360
_TOLD: Final = 5  # numbers of one set-up in an alt text
AXES: Final = {
    aligned.READY: "since the server was ready",
    aligned.FIRST_REQUEST: "since the first request",
    aligned.CLOCK: "by the log's clock",
}
_UNITS: Final = ((3.0 * 3600, "hours", 3600.0), (300.0, "minutes", 60.0), (0.0, "seconds", 1.0))


def running_figure(groups: Sequence[Group]) -> Figure:
    """Throughput against running requests, with the caps."""
    rates = charts.rates(groups)
    parts = []
    for group in groups:
        own = rates.filter(pl.col("label") == group.label)
        pairs = own.select("tok_s", "running_reqs").head(_TOLD).rows()
        told = ", ".join(f"{words.number(tok_s)} tok/s at {n}" for tok_s, n in pairs)
        parts.append(f"{group.label}: {told or 'no steady window'}")
    alt_text = f"Throughput of a rank by running requests. {'; '.join(parts)}."
    caps = map(cap_sentence, groups)
    spec = spec_of(charts.running_chart(groups))
    title = "Throughput by running requests"
    return Figure("compare_running", title, spec, " ".join([alt_text, *caps]), rates)


def cap_sentence(group: Group) -> str:
    """How near a configuration came to its cap."""
    cap = group.runs[0].card["max_running_requests"]
    if cap is None:
        return f"The cap of {group.label} is not known."
    seen = [run.windows["running_reqs"].max() for run in group.runs]
    most = max((int(cast("int", n)) for n in seen if n is not None), default=0)
    rank = " a rank" if group.runs[0].ranks > 1 else ""
    if most >= cap:
        return f"{group.label} ends at its cap: never more than {cap:,} running requests{rank}."
    return f"{group.label} is allowed {cap:,} running requests{rank}; the most seen is {most:,}."


def aligned_figure(frame: pl.DataFrame, groups: Sequence[Group], by: str) -> Figure | None:
    """The throughput of every run on one axis; None where no log tells its origin.

    Args:
        frame: of data.aligned.series.
        by: one of data.aligned.ORIGINS.
    """
    label_of = {run.card["run_id"]: group.label for group in groups for run in group.runs}
    parts = [
        segments(rows, "gen_tok_s") for _, rows in frame.group_by("run_id", maintain_order=True)
    ]
    if not parts or not sum(rows.height for rows in parts):
        return None
    rows = pl.concat(parts)
    unit, size = _unit(rows["at_s"])
    rows = rows.with_columns(
        label=pl.col("run_id").replace_strict(label_of),
        line=pl.concat_str("run_id", pl.col("segment").cast(pl.String), separator="/"),
        at=pl.col("at_s") / size,
        clock=pl.col("ts").dt.strftime("%Y-%m-%d %H:%M:%S"),
        alone=pl.len().over("run_id", "segment") == 1,
    )
    drawn = charts.with_slots(rows, groups).select(
        "slot", "label", "line", "at", "clock", "gen_tok_s", "running_reqs", "alone",
        pl.col("ts").dt.epoch("ms"),
    )  # fmt: skip
    table = rows.select("label", "run_id", "ts", "at_s", "gen_tok_s", "running_reqs")
    spec = spec_of(_lines(drawn, groups, by, unit))
    title = "Generation throughput over time"
    return Figure("compare_series", title, spec, _series_text(rows, by), table)


def _lines(drawn: pl.DataFrame, groups: Sequence[Group], by: str, unit: str) -> Any:
    if by == aligned.CLOCK:
        x: alt.X = alt.X(
            "ts:T", title=None, scale=alt.Scale(type="utc", nice=False),
            axis=alt.Axis(
                format=clock(drawn["ts"]), labelOverlap=True, tickCount=6, grid=False
            ),
        )  # fmt: skip
    else:
        x = alt.X(
            "at:Q", title=f"{unit} {AXES[by]}", scale=alt.Scale(nice=False),
            axis=alt.Axis(format=",~r", grid=False),
        )  # fmt: skip
    y = alt.Y("gen_tok_s:Q", title="tok/s, all ranks", axis=alt.Axis(format=",~r"))
    tip = [
        alt.Tooltip("label:N", title="set-up"),
        alt.Tooltip("clock:N", title="time"),
        alt.Tooltip("gen_tok_s:Q", title="tok/s", format=",.1f"),
        alt.Tooltip("running_reqs:Q", title="running requests", format=",d"),
    ]
    base = alt.Chart(drawn).encode(x, y, charts.colour(groups, lines=True), tooltip=tip)
    line = base.mark_line(strokeWidth=1.6).encode(legend.dash(), detail="line:N")
    layers = [line]
    if drawn["alone"].any():
        dots = base.mark_point(filled=True, size=26, opacity=1)
        layers.append(dots.transform_filter("datum.alone"))
    return alt.layer(*layers).properties(height=_HEIGHT)


def _unit(at_s: pl.Series) -> tuple[str, float]:
    """The unit of an axis and its seconds."""
    longest = float(cast("float", at_s.abs().max() or 0.0))
    return next((name, size) for least, name, size in _UNITS if longest >= least)


def _series_text(rows: pl.DataFrame, by: str) -> str:
    parts = [
        f"{label}: {words.duration(last - first)}, highest {words.number(highest)} tok/s"
        for label, first, last, highest in rows.group_by("label", maintain_order=True)
        .agg(pl.col("at_s").min(), last=pl.col("at_s").max(), highest=pl.col("gen_tok_s").max())
        .iter_rows()
    ]
    return f"Generation throughput {AXES[by]}. {'; '.join(parts)}."


def spread_figure(groups: Sequence[Group]) -> Figure | None:
    """How the windows of each set-up vary at equal running counts; None where none is shared."""
    rows = spread(groups)
    if rows.is_empty():
        return None
    chart = charts.spread_chart(rows, groups)
    return Figure(
        "compare_spread", "Decode speed of one request at equal running counts", spec_of(chart),
        _spread_text(rows), rows,
    )  # fmt: skip


def _spread_text(rows: pl.DataFrame) -> str:
    told = [
        f"{row['label']} at {row['running_reqs']}: median {words.number(row['p50'])} tok/s, "
        f"p10 to p90 {words.number(row['p10'])} to {words.number(row['p90'])}"
        for row in rows.head(2 * _TOLD).iter_rows(named=True)
    ]
    return f"Decode speed of one request at equal running counts. {'; '.join(told)}."
