"""What tells the lines and points of a chart apart: colour, shape and dash by palette slot.

A chart holds slots, not colours, so that a page's theme can lay its light or dark set over them;
the legend turns a slot into the name that belongs to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import altair as alt

from data.names import tame
from data.palette import LIGHT
from data.pictures import drawable

SLOTS: Final = [str(place) for place in range(len(LIGHT))]
_SHAPES: Final = (
    "circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right",
    "triangle-left",
)  # fmt: skip
_DASHES: Final = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [5, 2], [12, 4], [4, 4], [1, 3])
_NAME_WIDTH: Final = 300  # pixels of a name in the legend
_ROW: Final = 22  # pixels
_LONG: Final = 20  # characters: of longer names one stands in a line


def colour(names: Mapping[str, str], *, shown: bool = True, lines: bool = False) -> alt.Color:
    """The colour by the column `slot`.

    Args:
        names: what the legend says of each slot that is drawn.
        shown: whether there is a legend.
        lines: it shows lines, not points.
    """
    # In an expression a character is spelled out, where no later look at the chart finds it.
    said = "".join(
        f"datum.label == '{slot}' ? {json.dumps(drawable(tame(name)))} : "
        for slot, name in names.items()
    )
    columns = _columns(names)
    # A symbol of points has no rim, else it is larger where lines join the points.
    symbol: dict[str, Any] = (
        {"symbolType": "stroke", "symbolSize": 500}
        if lines
        else {"symbolType": "circle", "symbolSize": 110, "symbolStrokeWidth": 0}
    )
    legend = alt.Legend(
        title=None, orient="top", columns=columns, labelLimit=_NAME_WIDTH, values=list(names),
        labelExpr=f"{said}datum.label", symbolOpacity=1, **symbol,
    ) if shown else None  # fmt: skip
    return alt.Color("slot:N", scale=alt.Scale(domain=SLOTS), legend=legend)


def _columns(names: Mapping[str, str]) -> int:
    return 1 if max(map(len, names.values()), default=0) > _LONG else 2


def height(names: Mapping[str, str]) -> int:
    """Pixels of the legend's rows beyond the first: it stands within the height of a chart."""
    return _ROW * (-(-len(names) // _columns(names)) - 1)


def shape() -> alt.Shape:
    """Besides its colour a slot has a shape."""
    return alt.Shape("slot:N", scale=alt.Scale(domain=SLOTS, range=_SHAPES), legend=None)


def dash() -> alt.StrokeDash:
    """Besides its colour a slot has a kind of line; for charts without points."""
    scale = alt.Scale(domain=SLOTS, range=[list(dashes) for dashes in _DASHES])
    return alt.StrokeDash("slot:N", scale=scale, legend=None)


def dashed(base: alt.Chart, slots: Iterable[str]) -> list[Any]:
    """A line a slot in its kind of line; unlike `dash` it leaves the legend to the points."""
    return [
        base.transform_filter(f"datum.slot == '{slot}'").mark_line(
            strokeWidth=1.8, strokeDash=list(_DASHES[int(slot) % len(_DASHES)])
        )
        for slot in slots
    ]
