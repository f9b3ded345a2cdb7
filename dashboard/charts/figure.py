"""A chart with all that a page shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart ready to show: Vega-Lite, its words for those who cannot see it, its rows."""

    key: str  # of its widgets and its files: letters, digits, underscores
    title: str
    spec: dict[str, Any]
    alt: str
    table: pl.DataFrame
    click: str | None = None  # the selection of a point, where one can be chosen


def spec_of(chart: Any) -> dict[str, Any]:
    """An Altair chart as Vega-Lite that is as wide as the page lets it be.

    Not checked against the schema, which takes longer than all else of a page; tests do that.
    """
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec.pop("width", None)
    return spec
