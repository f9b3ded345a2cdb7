"""A question of the user's own: whatever DuckDB answers can be shown and written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from data.errors import CommandError
from data.export import FORMATS, render, table
from data.question import select
from data.store import Store
from tests.command import run
from tests.frames import decode, samples
from tests.postgres import OpenStore


@pytest.fixture(scope="module")
def con(open_module_store: OpenStore) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_module_store() as store, store.cursor() as cursor:
        yield cursor


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("INTERVAL 3 DAY", "3 days"),
        ("'infinity'::TIMESTAMP", "infinity"),
        ("'-infinity'::DATE", "-infinity"),
        ("'infinity'::TIMESTAMPTZ", "infinity"),
        ("'infinity'::TIMESTAMP_NS", "infinity"),
        ("DATE '200000-01-01'", "200000-01-01"),
        ("'\\xAA\\x00'::BLOB", "\\xAA\\x00"),
        ("'101'::BIT", "101"),
        ("{'a': INTERVAL 1 DAY}", "{'a': 1 day}"),
        ("[INTERVAL 1 DAY]", "[1 day]"),
        ("['infinity'::TIMESTAMP]", "[infinity]"),
        ("[[1], [2]]", "[[1], [2]]"),
        ("MAP {'a': 1}", "{a=1}"),
        ("union_value(a := 1)", "1"),
        ("[1, 2]::INTEGER[2]", "[1, 2]"),
        ("[1, NULL]", "[1, None]"),
        ("12345678901234567890::HUGEINT", "12345678901234567890"),
        ("TIMESTAMP '2026-03-01 12:00:00'", "2026-03-01 12:00:00"),
        ("NULL", "-"),
    ],
)
def test_any_value_in_any_form(con: duckdb.DuckDBPyConnection, value: str, shown: str) -> None:
    frame = select(con, f'SELECT {value} AS "a""b", 7 AS n', 10, 5.0)
    assert table(frame).splitlines()[1].split("  ")[0].strip() == shown
    assert frame["n"].to_list() == [7]
    assert all(render(frame, form) for form in FORMATS)


def test_one_row_more_than_asked_tells_that_there_are_more(con: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT range FROM range(5) ORDER BY 1"
    assert select(con, query, 5, 5.0)["range"].to_list() == [0, 1, 2, 3, 4]
    assert select(con, query, 3, 5.0)["range"].to_list() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("limit", "seconds", "says"),
    [
        (0, 1.0, "--limit is 1 to"),
        (10**20, 1.0, "--limit is 1 to"),
        (1, 1e300, "--timeout is 0.1 to 600 seconds"),
        (1, float("nan"), "--timeout is 0.1 to 600 seconds"),
        (1, 0.0, "--timeout is 0.1 to 600 seconds"),
    ],
)
def test_bounds(con: duckdb.DuckDBPyConnection, limit: int, seconds: float, says: str) -> None:
    with pytest.raises(CommandError, match=says):
        select(con, "SELECT 1", limit, seconds)


def test_the_command_says_that_rows_were_cut(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        store.append(samples([decode(second) for second in range(4)]), None)
    query = ["sql", "SELECT byte_offset FROM samples ORDER BY 1", "--format", "csv"]
    cut = run(*query, "--limit", "3", "--store", path)
    assert (len(cut.stdout.splitlines()), cut.stderr) == (
        4, "only the first 3 rows; --limit gives more\n",
    )  # fmt: skip
    whole = run(*query, "--limit", "4", "--store", path)
    assert (len(whole.stdout.splitlines()), whole.stderr) == (5, "")
