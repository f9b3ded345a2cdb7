"""Time charts of one run: frames in, charts out.

Every chart of a page takes the same span, so that causes line up under each other. A stretch
without samples is a gap: the line breaks there, it is never drawn through and never zero.

Altair checks a chart against its schema while it builds it, which takes longer than all queries
of a redraw. So a chart is built once for each kind (`template`) and filled with data, the ends
of its axes and its title at every redraw (`fill`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import altair as alt
import polars as pl

from dashboard import theme
from data import legend, palette

AT: Final = "at"  # the moment that the reader has chosen: `at_moment` fills it in
CLICK: Final = "click"  # the selection of a point
AXIS_WIDTH: Final = 52  # the same on every chart: their plots start at one x
CLOCK: Final = alt.Tooltip("clock:N", title="time")

# The ends of the axes are data too: a chart whose values alone are new is not built anew by the
# browser. It has no rows yet when it is first drawn.
ENDS: Final = "ends"
_ENDS: Final = [
    {"name": name, "expr": f"length(data('{ENDS}')) ? data('{ENDS}')[0]['{name}'] : {first}"}
    for name, first in (("from", 0), ("to", 1), ("top", 1))
]

EVENT_SHAPES: Final = {
    "start": "triangle-right",
    "ready": "circle",
    "retraction": "diamond",
    "fault": "cross",
    "stop": "square",
}


@dataclass(frozen=True, slots=True)
class Look:
    """How one quantity of a frame is drawn."""

    column: str
    title: str
    unit: str
    height: int = 150
    band: tuple[str, str] | None = None
    step: bool = False
    percent: bool = False
    floor: float = 0.0
    symbols: bool = False  # the event marks as symbols too
    at: str = "ts"  # the column of its moments


def segments(frame: pl.DataFrame, column: str, at: str = "ts") -> pl.DataFrame:
    """Rows that have the value, each with the number of the unbroken stretch it belongs to.

    A bucket without the value is a gap, also where other columns have one, such as the
    acceptance while nothing is drafted. `at` names the moments that become `ts`.
    """
    present = frame.filter(pl.col(column).is_not_null()).sort("bucket")
    broken = pl.col("bucket").diff() > 1
    return present.with_columns(ts=pl.col(at), segment=broken.fill_null(False).cum_sum())


def fill(
    look: Look,
    rows: pl.DataFrame,
    marks: pl.DataFrame,
    span: tuple[datetime, datetime],
    slot: str,
    cap: int | None = None,
    bands: pl.DataFrame | None = None,
) -> dict[str, Any]:
    """The chart of these rows (made by `segments`) as Vega-Lite.

    Args:
        bands: spans of benchmark points as `dashboard.charts.bands` makes them.
    """
    top = _top(look, rows, cap)
    title = look.title if rows.height else f"{look.title} (no samples)"
    if cap is not None and cap > top:
        title = f"{title} (cap {cap:,}, above this scale)"
    # A stretch of one sample has no line to draw; the last sample is what "now" means.
    alone = (pl.len().over("segment") == 1) | (pl.int_range(pl.len()) == pl.len() - 1)
    columns = ["ts", "segment", look.column, *(look.band or ())]
    data = _timed(rows.select(columns)).with_columns(slot=pl.lit(slot), dot=alone)
    caps = []
    if cap is not None and cap <= top:
        caps = [{"cap": cap, "ts": _ms(span[1]), "text": f"cap {cap:,}"}]
    edge = (span[1] - span[0]) / 100  # marks at the ends are not cut
    return template(look) | {
        "title": {"text": title, "anchor": "start", "fontSize": 14, "offset": 8},
        "params": [*_ENDS, *template(look)["params"]],
        "datasets": {
            ENDS: [{"from": _ms(span[0] - edge), "to": _ms(span[1] + edge), "top": top}],
            "rows": data.to_dicts(),
            "marks": _timed(marks).to_dicts(),
            "caps": caps,
            "bands": [] if bands is None else bands.to_dicts(),
            AT: [],
        },
    }


@cache
def template(look: Look) -> dict[str, Any]:
    """The chart without its data, title and ends of the axes."""
    x = alt.X(
        "ts:T",
        title=None,
        scale=alt.Scale(
            type="utc", nice=False, domainMin=alt.ExprRef("from"), domainMax=alt.ExprRef("to")
        ),
        axis=alt.Axis(format="%H:%M:%S", labelOverlap=True, tickCount=6, grid=False),
    )
    layers = [
        _ends_layer(), *_band_layers(x, look), *_event_layers(x, look), *_value_layers(x, look),
        *_cap_layers(x, look), *_moment_layers(x, look),
    ]  # fmt: skip
    chart = alt.layer(*layers).properties(
        height=look.height, padding={"left": 0, "right": 8, "top": 0, "bottom": 0}
    )
    spec: dict[str, Any] = chart.to_dict()
    return spec


def _ends_layer() -> alt.Chart:
    """Nothing to see: Vega keeps only data that a layer draws."""
    layer: alt.Chart = alt.Chart(alt.NamedData(ENDS)).mark_point(opacity=0, size=0, aria=False)
    return layer


def _y(look: Look, name: str) -> alt.Y:
    return alt.Y(
        f"{name}:Q",
        title=look.unit,
        scale=alt.Scale(nice=False, domainMin=look.floor, domainMax=alt.ExprRef("top")),
        axis=alt.Axis(
            format=".0%" if look.percent else ",~r",
            values=[0, 0.5, 1] if look.percent else alt.Undefined,
            tickCount=4,
            tickMinStep=1 if look.step else alt.Undefined,
            minExtent=AXIS_WIDTH,
            maxExtent=AXIS_WIDTH,
        ),
    )


def _value_layers(x: alt.X, look: Look) -> list[alt.Chart]:
    base = alt.Chart(alt.NamedData("rows")).encode(
        x, alt.Color("slot:N", scale=alt.Scale(domain=legend.SLOTS), legend=None)
    )
    tip = _tip(look)
    y = _y(look, look.column)
    line = base.mark_line(
        strokeWidth=1.8, interpolate="step-after" if look.step else "linear", clip=True
    )
    dots = base.mark_point(filled=True, size=28, opacity=1, clip=True)
    layers = [
        line.encode(y, detail="segment:N", tooltip=tip),
        dots.transform_filter("datum.dot").encode(y, tooltip=tip),
    ]
    if look.band:
        low, high = look.band
        band = base.mark_area(opacity=0.22, clip=True)
        layers.insert(0, band.encode(_y(look, low), alt.Y2(high), detail="segment:N"))
    return layers


def _cap_layers(x: alt.X, look: Look) -> list[alt.Chart]:
    if not look.step:
        return []
    base = alt.Chart(alt.NamedData("caps")).encode(_y(look, "cap"))
    return [
        base.mark_rule(color=theme.RULE, strokeDash=[6, 4]),
        base.mark_text(style=palette.NOTE, align="right", dy=-7, fontSize=12).encode(
            x, text="text:N"
        ),
    ]


def _band_layers(x: alt.X, look: Look) -> list[alt.Chart]:
    """The minutes of benchmark points, with what their client measured."""
    base = alt.Chart(alt.NamedData("bands")).encode(
        x, tooltip=[alt.Tooltip("told:N", title="benchmark"), alt.Tooltip("client:N")]
    )
    band = base.mark_rect(color=theme.RULE, opacity=0.16, clip=True).encode(x2="until:T")
    if not look.symbols:
        return [band]
    text = base.mark_text(style=palette.NOTE, align="left", baseline="bottom", dx=3, clip=True)
    return [band, text.encode(text="short:N", y=alt.value(look.height - 3))]


def _moment_layers(x: alt.X, look: Look) -> list[alt.Chart]:
    """The chosen moment as a rule, and the points that can be chosen."""
    chosen = alt.Chart(alt.NamedData(AT)).encode(x)
    rule = chosen.mark_rule(color=theme.CHOSEN, strokeWidth=2, clip=True)
    click = alt.selection_point(
        name=CLICK, fields=["ts", "turn"], nearest=True, on="click", clear=False
    )
    base = alt.Chart(alt.NamedData("rows")).encode(x, _y(look, look.column))
    points = base.mark_point(opacity=0, size=60, clip=True).encode(tooltip=_tip(look))
    return [rule, points.add_params(click)]


def _tip(look: Look) -> list[alt.Tooltip]:
    form = ".1%" if look.percent else ",.3~r"
    return [CLOCK, alt.Tooltip(f"{look.column}:Q", title=look.unit, format=form)]


def at_moment(spec: dict[str, Any], at: datetime | None, turn: int) -> dict[str, Any]:
    """The chart with this moment marked.

    Args:
        turn: another one after each choice. A browser does not tell that the same was chosen
            again, and the same point of the next turn is another.
    """
    sets = spec["datasets"]
    rows = [row | {"turn": turn} for row in sets["rows"]]
    chosen = [] if at is None else [{"ts": _ms(at)}]
    return spec | {"datasets": sets | {"rows": rows, AT: chosen}}


def moment_of(selection: Sequence[Mapping[str, Any]]) -> datetime | None:
    """The moment of a chosen point."""
    if not selection or "ts" not in selection[0]:
        return None
    return datetime.fromtimestamp(selection[0]["ts"] / 1000, UTC).replace(tzinfo=None)


def _event_layers(x: alt.X, look: Look) -> list[alt.Chart]:
    base = alt.Chart(alt.NamedData("marks")).encode(
        x,
        color=alt.condition(
            "datum.severity == 'fault'", alt.value(theme.FAULT), alt.value(theme.RULE)
        ),
        tooltip=[CLOCK, alt.Tooltip("title:N", title="event")],
    )
    layers = [base.mark_rule(strokeDash=[2, 3], opacity=0.8, clip=True)]
    if look.symbols:
        scale = alt.Scale(domain=list(EVENT_SHAPES), range=list(EVENT_SHAPES.values()))
        symbol = base.mark_point(filled=True, size=60, opacity=1, clip=True)
        shape = alt.Shape("mark:N", legend=None, scale=scale)
        layers.append(symbol.encode(shape, y=alt.value(6)))
    return layers


def _top(look: Look, rows: pl.DataFrame, cap: int | None) -> float:
    """The end of the y axis: the cap counts only once the values come near it."""
    if look.percent:
        return 1.0
    names = [look.column, *(look.band or ())]
    highest = max(rows.select(pl.col(names).cast(pl.Float64).max().fill_null(0.0)).row(0))
    if cap is not None and highest >= cap / 3:
        highest = max(highest, cap)
    return float(max(highest * 1.1, look.floor + 1.0))


def _timed(frame: pl.DataFrame) -> pl.DataFrame:
    """With the clock in words, and as a number that no browser moves to its own zone."""
    return frame.with_columns(
        pl.col("ts").dt.epoch("ms"), clock=pl.col("ts").dt.strftime("%H:%M:%S")
    )


def _ms(moment: datetime) -> int:
    return round(moment.replace(tzinfo=UTC).timestamp() * 1000)
