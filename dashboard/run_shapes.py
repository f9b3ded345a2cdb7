"""The course of every run in the list, made once for all visitors and kept until it changes."""

from __future__ import annotations

import polars as pl

from dashboard import background, run_cache, words
from dashboard.context import Context
from data import shapes

# By store and run: of how many samples, and their course.
_kept: dict[tuple[str, str], tuple[int, list[float] | None]] = {}


def with_shapes(context: Context, runs: pl.DataFrame) -> pl.DataFrame:
    """The runs with a column shape: data.shapes.shapes, or the one before while many are made.

    A line on the page says so then.
    """
    store = str(context.store.path)
    sizes = {str(card["run_id"]): run_cache.samples_of(card) for card in runs.iter_rows(named=True)}
    new = {run: n for run, n in sizes.items() if _kept.get((store, run), (0, None))[0] != n}
    if sum(new.values()) <= run_cache.LONG:
        _make(context, store, new)
    else:
        said = f"Drawing the course of {words.counted(len(new), 'run')}"
        background.done(
            ("shapes", store), tuple(new.items()),
            lambda runs_then: _make(context, store, dict(runs_then)), said,
        )  # fmt: skip
    found = [_kept.get((store, run), (0, None))[1] for run in sizes]
    return runs.with_columns(shape=pl.Series(found, dtype=pl.List(pl.Float64)))


def _make(context: Context, store: str, sizes: dict[str, int]) -> None:
    if not sizes:
        return
    with context.store.cursor() as con:
        found = shapes.shapes(con, list(sizes))
    _kept.update({(store, run): (n, found.get(run)) for run, n in sizes.items()})
