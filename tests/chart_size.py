"""How much a chart that was sent to the browser draws."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
from streamlit.testing.v1 import AppTest

MOST_MARKS = 2_000
MOST_POINTS = 300  # of a series over time


@dataclass(frozen=True, slots=True)
class Charts:
    """The fullest chart of some pages, and the longest series."""

    marks: int = 0
    points: int = 0

    def with_page(self, test: AppTest) -> Charts:
        """The larger of this and what the page shows."""
        seen = [_size(chart.proto) for chart in test.get("vega_lite_chart")]
        return Charts(
            max([self.marks, *(marks for marks, _ in seen)]),
            max([self.points, *(points for _, points in seen)]),
        )


def _size(proto: Any) -> tuple[int, int]:
    """Rows that the layers of a chart draw, and rows of its series where it has some."""
    rows = {data.name: _height(data.data.data) for data in proto.datasets}
    rows[""] = _height(proto.data.data) if proto.data.data else 0
    spec = json.loads(proto.spec)
    marks = sum(rows.get(name, 0) for name in _drawn(spec, spec.get("data", {}).get("name", "")))
    return marks, rows.get("rows", 0)


def _height(data: bytes) -> int:
    return pl.read_ipc_stream(io.BytesIO(data)).height


def _drawn(spec: dict[str, Any], outer: str) -> Iterator[str]:
    """The data set of every layer."""
    name = spec.get("data", {}).get("name", outer)
    inner = [*spec.get("layer", []), *spec.get("hconcat", []), *spec.get("vconcat", [])]
    if "spec" in spec:
        inner.append(spec["spec"])
    for part in inner:
        yield from _drawn(part, name)
    if not inner:
        yield name
