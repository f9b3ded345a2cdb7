"""The start of a server as a waterfall: one bar a stage."""

from __future__ import annotations

from typing import Final

import altair as alt
import polars as pl

from dashboard import words
from dashboard.charts.figure import Figure, spec_of
from data import legend, palette

_ROW: Final = 26  # pixels of a stage
_AXIS: Final = "seconds since the start"


def startup_figure(stages: pl.DataFrame, slot: str) -> Figure | None:
    """The stages of data.startup.waterfall as bars over the seconds of the start.

    Args:
        slot: the palette slot of the run.
    """
    if stages.is_empty():
        return None
    nth = pl.int_range(pl.len()).over("stage")
    name = pl.when(nth > 0).then(pl.format("{} ({})", "stage", nth + 1)).otherwise(pl.col("stage"))
    rows = stages.with_columns(
        row=name, slot=pl.lit(slot),
        text=pl.col("seconds").map_elements(words.duration, return_dtype=pl.String),
    )  # fmt: skip
    y = alt.Y("row:N", title=None, sort=rows["row"].to_list(), axis=alt.Axis(labelLimit=170))
    base = alt.Chart(rows).encode(
        y,
        tooltip=[
            alt.Tooltip("stage:N"),
            alt.Tooltip("text:N", title="took"),
            alt.Tooltip("start_s:Q", title="from second", format=",.1f"),
            alt.Tooltip("until:N", title="ended by"),
        ],
    )
    end = float(rows["end_s"][-1])
    x = alt.X(
        "start_s:Q", title=_AXIS, axis=alt.Axis(format=",~r", grid=True),
        scale=alt.Scale(domain=[0, end * 1.12], nice=False),
    )  # fmt: skip
    bars = base.mark_bar(size=14, minBandSize=2).encode(
        x, alt.X2("end_s:Q"), legend.colour({}, shown=False)
    )
    labels = base.mark_text(align="left", dx=5, style=palette.NOTE).encode(
        alt.X("end_s:Q", title=_AXIS), text="text:N"
    )
    chart = alt.layer(bars, labels).properties(height=_ROW * rows.height + 60)
    return Figure("run_startup", "Start-up", spec_of(chart), _text(stages), stages)


def _text(stages: pl.DataFrame) -> str:
    whole = words.duration(float(stages["end_s"][-1]))
    told = ", ".join(
        f"{stage} {words.duration(seconds)}"
        for stage, seconds in stages.select("stage", "seconds").rows()
    )
    return f"Start-up of {whole}: {told}."
