"""A run has one colour, wherever it is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from dashboard import bench_view, compare_state, context, picture, theme
from dashboard.charts import answer, bench
from data import bench as stored
from data import queries
from data.run_names import run_names
from data.store import Store
from tests.pages import forget, shown


def slots(spec: Any) -> Iterator[str]:
    """Palette slots in the rows of a chart."""
    for rows in spec["datasets"].values():
        yield from {str(row["slot"]) for row in rows if "slot" in row}


def test_every_page_draws_a_run_in_its_colour(demo: Store) -> None:
    forget()
    shown("live", demo)
    here = context.current()
    with demo.cursor() as con:
        runs = queries.runs_named(con)
        points = bench_view.with_sets(stored.points(con), queries.runs_table(con))
    run_ids = runs["run_id"].to_list()
    for run_id in run_ids:
        drawn = theme.run_slot(run_id)
        figures = picture.picture(here, run_id, "whole run").figures
        assert {slot for figure in figures for slot in slots(figure.spec)} == {drawn}
        of_run = points.filter(run_id=run_id)
        if of_run.height:
            curve = bench.curve_figure(bench_view.with_slots(of_run))
            assert set(slots(curve.spec)) == {drawn}
        other = next(one for one in run_ids if theme.run_slot(one) != drawn)
        wanted = compare_state.asked(here, [run_id, other], run_names(runs))
        if compare_state.compared(here, str(demo.path), wanted).comparison is not None:
            running = compare_state.drawn(here, str(demo.path), wanted).running
            assert set(slots(running.spec)) == {drawn, theme.run_slot(other)}
        both = runs.filter(pl.col("run_id").is_in([run_id, other])).select("run_id", n=pl.lit(1))
        explored = answer.figure(both, answer.Choice("run_id", "n", "run_id", "bars"))
        assert explored is not None
        assert set(slots(explored.spec)) == {drawn, theme.run_slot(other)}
