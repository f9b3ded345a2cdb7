"""All samples of one run, put together from the tables in which data/compact.py keeps them.

The view `samples_timed` gives the same rows, but hands out a text for every run, place and kind
of every row: three times slower for a run of a million.
"""

from __future__ import annotations

import duckdb
import polars as pl

from data import long_run, minutes
from data.compact import COLUMNS, GROUP, TABLES
from data.literal import literal
from parsers.records import CHOICES, SAMPLES, Schema

_KEPT: Schema = {
    name: pl.String() if name in CHOICES else kind
    for name, kind in SAMPLES.items()
    if name != "extra"
}
_AT = ("file_id", "byte_offset")


def run_samples(con: duckdb.DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    """A run's samples, windows final: columns of parsers.records.SAMPLES but extra, in no order.

    Of a run that was rolled up, or has too many (data/long_run.py), rows of pieces of time.
    """
    seconds = long_run.piece_s(con, run_id)
    if seconds is not None:
        found = long_run.samples(con, run_id, seconds)
        return pl.concat([found, _by_minute(con, run_id)], how="diagonal_relaxed")
    # With a parameter DuckDB 1.5.5 hands rows over one by one: 40 times slower (660,000 rows).
    of_run = f"FROM sample_groups WHERE run_id = {literal(run_id)}"
    groups = con.sql(f"SELECT DISTINCT * {of_run}").pl()
    frames = [pl.DataFrame(schema=_KEPT)]
    for kind in groups["kind"].unique().sort():
        names = [name for name in COLUMNS[kind] if name in _KEPT]
        rows = con.sql(
            f"SELECT group_id, {', '.join(names)} FROM {TABLES[kind]} "
            f"WHERE group_id IN (SELECT group_id {of_run})"
        ).pl()
        frames.append(rows.join(groups.select("group_id", *GROUP), on="group_id").drop("group_id"))
    found = pl.concat([*frames, _by_minute(con, run_id)], how="diagonal")
    late = con.sql(
        "SELECT file_id, byte_offset, interval_s AS late_s FROM sample_intervals "
        f"WHERE run_id = {literal(run_id)}"
    ).pl()
    return _corrected(found, late) if late.height else found


def _by_minute(con: duckdb.DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    """What of a run was rolled up."""
    rolled_up = con.sql(
        f"SELECT 1 FROM {minutes.TABLE} WHERE group_id IN "
        f"(SELECT group_id FROM sample_groups WHERE run_id = {literal(run_id)}) LIMIT 1"
    ).fetchone()
    if rolled_up is None:  # mostly; planning the view takes longer than this question
        return pl.DataFrame(schema=_KEPT)
    return con.sql(
        "SELECT * EXCLUDE (extra) FROM samples "
        f"WHERE run_id = {literal(run_id)} AND interval_from = {literal(minutes.MARK)}"
    ).pl()


def _corrected(samples: pl.DataFrame, late: pl.DataFrame) -> pl.DataFrame:
    """With the windows that were still open when their sample was stored."""
    known = pl.when(pl.col("late_s").is_not_null()).then(pl.lit("stamps"))
    return (
        samples.join(late, on=_AT, how="left")
        .with_columns(
            interval_s=pl.coalesce("late_s", "interval_s"),
            interval_from=pl.coalesce("interval_from", known),
        )
        .drop("late_s")
    )
