"""Time charts of one run: frames in, Altair charts out.

Every chart of a page takes the same span, so that causes line up under each other. A stretch
without samples is a gap: the line breaks there, it is never drawn through and never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import altair as alt
import polars as pl

from dashboard import theme

GAP_MEDIANS: Final = 3  # a rank is idle after three of its median windows without a line
MIN_GAP_S: Final = 3.0  # stamps of whole seconds jitter by one
AXIS_WIDTH: Final = 52  # the same on every chart: their plots start at one x

EVENT_SHAPES: Final = {
    "start": "triangle-right",
    "ready": "circle",
    "retraction": "diamond",
    "fault": "cross",
    "stop": "square",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What one chart shows of a frame: columns, scale and words."""

    column: str
    title: str
    unit: str
    height: int = 150
    band: tuple[str, str] | None = None
    step: bool = False
    percent: bool = False
    floor: float = 0.0
    cap: float | None = None
    cap_text: str = ""


def segments(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Rows that have the value, each with the number of the unbroken stretch it belongs to.

    The frame's own `segment` changes at every gap; a column that has gaps of its own, such as
    the acceptance while nothing is drafted, is broken there as well.
    """
    present = frame.filter(pl.col(column).is_not_null()).sort("ts")
    distance = pl.col("ts").diff().dt.total_microseconds() / 1e6
    gap_s = pl.max_horizontal(pl.lit(MIN_GAP_S), GAP_MEDIANS * distance.median())
    broken = (pl.col("segment").diff() != 0) | (distance > gap_s)
    return present.with_columns(segment=broken.fill_null(False).cum_sum())


def time_chart(
    frame: pl.DataFrame,
    look: Look,
    span: tuple[datetime, datetime],
    slot: str,
    marks: pl.DataFrame,
    *,
    with_symbols: bool = False,
) -> alt.LayerChart | alt.FacetChart:
    """One quantity over time, with the event marks behind and the cap above it."""
    data = _timed(segments(frame, look.column)).with_columns(slot=pl.lit(slot))
    x = _x(span)
    layers: list[alt.Chart] = []
    if not marks.is_empty():
        layers += _event_layers(marks, x, with_symbols=with_symbols)
    top = _top(look, data)
    layers += _value_layers(data, look, x, _y(look, top))
    layers += _cap_layers(look, span[1], top, x)
    return alt.layer(*layers).properties(
        height=look.height,
        padding={"left": 0, "right": 8, "top": 0, "bottom": 0},
        title=alt.TitleParams(look.title, anchor="start", fontSize=14, offset=8),
    )


def _timed(frame: pl.DataFrame) -> pl.DataFrame:
    """With the clock in words, and as a number that no browser moves to its own zone."""
    return frame.with_columns(
        pl.col("ts").dt.epoch("ms"), clock=pl.col("ts").dt.strftime("%H:%M:%S")
    )


def _x(span: tuple[datetime, datetime]) -> alt.X:
    edge = (span[1] - span[0]) / 100  # marks at the ends are not cut
    start, end = (moment.isoformat() + "Z" for moment in (span[0] - edge, span[1] + edge))
    return alt.X(
        "ts:T",
        title=None,
        scale=alt.Scale(domain=[start, end], type="utc", nice=False),
        axis=alt.Axis(format="%H:%M:%S", labelOverlap=True, tickCount=6, grid=False),
    )


def _y(look: Look, top: float) -> alt.Y:
    return alt.Y(
        f"{look.column}:Q",
        title=look.unit,
        scale=alt.Scale(domain=[look.floor, top], nice=False),
        axis=alt.Axis(
            format=".0%" if look.percent else "~s" if top >= 10_000 else ",~r",
            values=[0, 0.5, 1] if look.percent else alt.Undefined,
            tickCount=4,
            minExtent=AXIS_WIDTH,
            maxExtent=AXIS_WIDTH,
        ),
    )


def _top(look: Look, data: pl.DataFrame) -> float:
    """The end of the y axis: the cap counts only once the values come near it."""
    if look.percent:
        return 1.0
    names = [look.column, *(look.band or ())]
    highest = max((float(data[name].cast(pl.Float64).max() or 0.0) for name in names), default=0.0)
    if look.cap is not None and highest >= look.cap / 3:
        highest = max(highest, look.cap)
    return max(highest * 1.1, look.floor + 1.0)


def _value_layers(data: pl.DataFrame, look: Look, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    colour = alt.Color("slot:N", scale=alt.Scale(domain=theme.SLOTS), legend=None)
    tip = [
        alt.Tooltip("clock:N", title="time"),
        alt.Tooltip(f"{look.column}:Q", title=look.unit, format=".1%" if look.percent else ",.3~r"),
    ]
    base = alt.Chart(data)
    layers = []
    if look.band:
        low, high = look.band
        layers.append(
            base.mark_area(opacity=0.22, interpolate="linear").encode(
                x,
                alt.Y(f"{low}:Q", title=look.unit),
                alt.Y2(f"{high}:Q"),
                colour,
                detail="segment:N",
            )
        )
    line = base.mark_line(
        strokeWidth=1.8, interpolate="step-after" if look.step else "linear", clip=True
    )
    layers.append(line.encode(x, y, colour, detail="segment:N", tooltip=tip))
    # A stretch of one sample has no line to draw; the last sample is what "now" means.
    single = data.filter((pl.len().over("segment") == 1) | (pl.int_range(pl.len()) == pl.len() - 1))
    layers.append(
        alt.Chart(single)
        .mark_point(filled=True, size=28, opacity=1, clip=True)
        .encode(x, y, colour, tooltip=tip)
    )
    return layers


def _cap_layers(look: Look, end: datetime, top: float, x: alt.X) -> list[alt.Chart]:
    """The cap as a dashed rule; a cap beyond the scale as words at the upper edge."""
    if look.cap is None:
        return []
    inside = look.cap <= top
    text = look.cap_text if inside else f"{look.cap_text}, above this scale"
    data = _timed(pl.DataFrame({"ts": [end], "cap": [min(look.cap, top)], "text": [text]}))
    y = alt.Y("cap:Q", title=look.unit)
    words = (
        alt.Chart(data)
        .mark_text(color=theme.RULE, align="right", dx=-4, dy=-7 if inside else 7, fontSize=12)
        .encode(x, y, text="text:N")
    )
    rule = alt.Chart(data).mark_rule(color=theme.RULE, strokeDash=[6, 4]).encode(y)
    return [rule, words] if inside else [words]


def _event_layers(marks: pl.DataFrame, x: alt.X, *, with_symbols: bool) -> list[alt.Chart]:
    colour = alt.condition(
        "datum.severity == 'fault'", alt.value(theme.FAULT), alt.value(theme.RULE)
    )
    data = _timed(marks)
    base = alt.Chart(data).encode(
        x,
        color=colour,
        tooltip=[alt.Tooltip("clock:N", title="time"), alt.Tooltip("title:N", title="event")],
    )
    layers = [base.mark_rule(strokeDash=[2, 3], opacity=0.8, clip=True)]
    if with_symbols:
        shape = alt.Shape(
            "mark:N",
            legend=None,
            scale=alt.Scale(domain=list(EVENT_SHAPES), range=list(EVENT_SHAPES.values())),
        )
        layers.append(
            base.mark_point(filled=True, size=60, opacity=1, clip=True).encode(
                shape, y=alt.value(6)
            )
        )
    return layers
