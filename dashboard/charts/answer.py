"""An answer in SQL as a chart of the user's choice: a frame in, a figure out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import altair as alt
import polars as pl

from dashboard.charts.clock import clock
from dashboard.charts.figure import Figure, spec_of
from data import legend, palette

MARKS: Final = 2_000
COLOURS: Final = 8  # kinds that eyes can tell apart
HEIGHT: Final = 360
KINDS: Final = ("points", "line", "bars")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which columns of the answer a chart shows, and how; colour None: one colour."""

    x: str
    y: str
    colour: str | None
    kind: str


def x_columns(frame: pl.DataFrame) -> list[str]:
    """Columns that can lie along x: all that have one value a row."""
    return [name for name, kind in frame.schema.items() if not kind.is_nested()]


def y_columns(frame: pl.DataFrame) -> list[str]:
    """Columns of numbers."""
    return [name for name, kind in frame.schema.items() if kind.is_numeric()]


def colour_columns(frame: pl.DataFrame) -> list[str]:
    """Columns of few values."""
    return [name for name in x_columns(frame) if 2 <= frame[name].n_unique() <= COLOURS]


def suggested(frame: pl.DataFrame) -> Choice | None:
    """A first chart: over time if there is one, else the first column; None without numbers."""
    numbers = y_columns(frame)
    times = [name for name, kind in frame.schema.items() if kind.is_temporal()]
    x = times[0] if times else next(iter(x_columns(frame)), None)
    y = next((name for name in numbers if name != x), None)
    if x is None or y is None:
        return None
    texts = [name for name in colour_columns(frame) if frame[name].dtype == pl.String]
    colour = next((name for name in texts if name not in (x, y)), None)
    is_text = frame[x].dtype in (pl.String, pl.Boolean)
    return Choice(x, y, colour, "bars" if is_text else "points")


def figure(frame: pl.DataFrame, choice: Choice) -> Figure | None:
    """The chart; None where no row has both values. Of too many rows every n-th is drawn."""
    names = {"x": choice.x, "y": choice.y, "colour": choice.colour or choice.y}
    rows = frame.select(pl.col(name).alias(short) for short, name in names.items())
    rows = rows.drop_nulls(["x", "y"]).with_columns(pl.col("y").cast(pl.Float64))
    rows = rows.filter(pl.col("y").is_finite())
    if rows.is_empty():
        return None
    step = -(-rows.height // MARKS)
    drawn = rows.gather_every(step)
    title = f"{choice.y} by {choice.x}" + (f", every {step}th row" if step > 1 else "")
    low, high = min(drawn["y"].to_list()), max(drawn["y"].to_list())
    alt_text = f"{choice.y} by {choice.x}: {drawn.height:,} values from {low:,.6g} to {high:,.6g}."
    shown = {choice.x: "x", choice.y: "y"} | ({choice.colour: "colour"} if choice.colour else {})
    table = drawn.select(pl.col(short).alias(name) for name, short in shown.items())
    return Figure("answer", title, _spec(drawn, choice), alt_text, table)


def _spec(drawn: pl.DataFrame, choice: Choice) -> dict[str, Any]:
    kind = drawn["x"].dtype
    data = drawn.drop("colour")
    if choice.colour is not None:
        named = drawn["colour"].cast(pl.String).fill_null("–")
        data = data.with_columns(named, slot=named.replace_strict(_slots(named, choice)))
    tips = [_tip("x", choice.x), alt.Tooltip("y:Q", title=choice.y, format=",.6~g")]
    if kind.is_temporal():
        shown = pl.col("x").cast(pl.String)
        at = pl.col("x").cast(pl.Datetime("ms")).dt.epoch("ms") if kind != pl.Time else shown
        data = data.with_columns(shown=shown, x=at)
        tips[0] = _tip("shown", choice.x)
    encoded = [
        _x(data["x"], kind, choice),
        alt.Y("y:Q", title=choice.y, scale=alt.Scale(zero=choice.kind == "bars"))
    ]  # fmt: skip
    if choice.colour is not None:
        tips.append(_tip("colour", choice.colour))
    chart = {
        "points": alt.Chart(data).mark_point(filled=True, size=40, opacity=0.8),
        "line": alt.Chart(data).mark_line(strokeWidth=1.8),
        "bars": alt.Chart(data).mark_bar(),
    }[choice.kind].encode(*encoded, tooltip=tips)
    return spec_of(_coloured(chart, data, choice).properties(height=HEIGHT))


def _slots(named: pl.Series, choice: Choice) -> dict[str, str]:
    """The palette slot of each value: runs have theirs, as on every page."""
    values = named.unique().sort().to_list()
    places = palette.slots(values) if choice.colour == "run_id" else range(len(values))
    return {value: str(place) for value, place in zip(values, places, strict=True)}


def _x(values: pl.Series, kind: pl.DataType, choice: Choice) -> alt.X:
    if kind.is_temporal() and kind != pl.Time:
        axis = alt.Axis(format=clock(values), labelOverlap=True, tickCount=8)
        return alt.X("x:T", title=choice.x, scale=alt.Scale(type="utc", nice=False), axis=axis)
    if kind.is_numeric():
        return alt.X("x:Q", title=choice.x, scale=alt.Scale(zero=False))
    return alt.X("x:N", title=choice.x, sort=None, axis=alt.Axis(labelLimit=120))


def _tip(name: str, title: str) -> alt.Tooltip:
    return alt.Tooltip(f"{name}:N", title=title)


def _coloured(chart: alt.Chart, data: pl.DataFrame, choice: Choice) -> alt.Chart:
    """Colour, and for points shape as well, for lines dash: never colour alone."""
    if choice.colour is None:
        return chart
    names = dict(data.select("slot", "colour").unique(maintain_order=True).rows())
    coloured = chart.encode(legend.colour(names, lines=choice.kind == "line"))
    if choice.kind == "points":
        return coloured.encode(legend.shape())
    return coloured.encode(legend.dash()) if choice.kind == "line" else coloured
