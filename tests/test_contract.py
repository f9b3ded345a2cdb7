"""parsers/records.py and data/schema.sql declare the same columns with the same types."""

from __future__ import annotations

from math import nan
from typing import Any

import polars as pl
import pytest

from parsers import records
from tests.postgres import OpenStore

TYPES: dict[pl.DataType, str] = {
    pl.String(): "VARCHAR",
    pl.Int32(): "INTEGER",
    pl.Int64(): "BIGINT",
    pl.Float64(): "DOUBLE",
    pl.Boolean(): "BOOLEAN",
    pl.Datetime("us"): "TIMESTAMP",
    pl.List(pl.Float64()): "DOUBLE[]",
    **{pl.Enum(choices): "VARCHAR" for choices in records.CHOICES.values()},
}
TABLES = {
    "samples": records.SAMPLES,
    "sample_intervals": records.INTERVALS,
    "events": records.EVENTS,
    "run_facts": records.RUN_FACTS,
    "requests": records.REQUESTS,
    "access_counts": records.ACCESS_COUNTS,
    "ingest_log": records.INGEST_LOG,
    "bench_results": records.BENCH_RESULTS,
    "bench_windows": records.BENCH_WINDOWS,
}


@pytest.mark.parametrize("table", TABLES)
def test_columns_of_table_equal_columns_of_record(table: str, open_store: OpenStore) -> None:
    with open_store() as store, store.cursor() as con:
        declared = con.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? "
            "ORDER BY column_index",
            [table],
        ).fetchall()
    assert declared == [(name, TYPES[kind]) for name, kind in TABLES[table].items()]


def test_view_runs_has_every_column_of_a_run(open_store: OpenStore) -> None:
    with open_store() as store, store.cursor() as con:
        columns = con.sql("SELECT * FROM runs").columns
    assert columns[: len(records.RUNS)] == list(records.RUNS)


@pytest.mark.parametrize(
    ("values", "constant"),
    [
        ([], True), ([None] * 2, True), ([None, 1.0], False), ([1.0, None], False),
        ([2.0, 2.0], True), ([2.0, 3.0, 2.0], False), ([1.0, nan, 1.0], False), (["a", "a"], True),
        (["a", "b", "a"], False), ([True, False, True], False), ([False], True),
    ],
)  # fmt: skip
def test_a_constant_column(values: list[Any], constant: bool) -> None:
    column = pl.Series(values)
    assert records.is_constant(column) is constant
    assert records.is_constant(pl.concat([column, column])) is constant
    if values:
        assert records.is_constant(column.head(1).new_from_index(0, 9))
