"""The stacked charts of the Live page: which quantities, in which order, and their alt texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import polars as pl

from dashboard import words
from dashboard.charts.series import Look, segments, time_chart


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart ready to show: Vega-Lite, its words for those who cannot see it, its rows."""

    key: str
    title: str
    spec: dict[str, Any]
    alt: str
    table: pl.DataFrame


_TALL: Final = 250
_LOOKS: Final = (
    Look("gen_tok_s", "Generation throughput", "tok/s", _TALL, ("gen_tok_s_min", "gen_tok_s_max")),
    Look("running_reqs", "Running requests", "requests", step=True),
    Look("queued_reqs", "Queued requests", "requests", step=True),
    Look("accept_len", "Accept length", "tokens a step", floor=1.0),
    Look("kv_usage", "KV use, worst rank", "of the pool", percent=True),
)


def figures(
    curves: pl.DataFrame,
    marks: pl.DataFrame,
    span: tuple[datetime, datetime],
    slot: str,
    cap: int | None,
) -> list[Figure]:
    """One figure for each quantity that the run has values of, in the order of the page."""
    start, end = span
    inside = marks.filter(pl.col("ts").is_between(start, end))
    made = []
    for look in _LOOKS:
        if curves[look.column].is_null().all():
            continue
        if look.column == "running_reqs" and cap is not None:
            look = replace(look, cap=float(cap), cap_text=f"cap {cap:,}")
        chart = time_chart(
            curves, look, span, slot, inside, with_symbols=look.column == "gen_tok_s"
        )
        table = curves.select("ts", look.column, *(look.band or ())).drop_nulls(look.column)
        # Vega-Lite's schema holds (a test checks it); checking at every redraw costs the most.
        spec = chart.to_dict(validate=False)
        made.append(Figure(look.column, look.title, spec, alt_text(curves, look), table))
    return made


def alt_text(curves: pl.DataFrame, look: Look) -> str:
    """One sentence with the numbers of a chart."""
    rows = segments(curves, look.column)
    if rows.is_empty():
        return f"{look.title}: no values."
    values = rows[look.column].to_list()
    show: Callable[[float | None], str] = words.percent if look.percent else words.number
    unit = f" {look.unit}" if not look.percent else ""
    cap = "" if look.cap is None else f" The cap is {words.whole(look.cap)}."
    gaps = words.counted(rows["segment"].n_unique() - 1, "gap")
    return (
        f"{look.title} from {words.clock(rows['ts'][0])} to {words.clock(rows['ts'][-1])}: "
        f"last {show(values[-1])}{unit}, lowest {show(min(values))}, "
        f"highest {show(max(values))}; {gaps}.{cap}"
    )
