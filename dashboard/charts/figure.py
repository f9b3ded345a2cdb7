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
