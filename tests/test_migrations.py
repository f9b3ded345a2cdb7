"""Every schema that a store was ever made with becomes today's, with nothing lost."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from data import migrate
from data.store import Store

SCHEMAS = sorted((Path(__file__).parent / "corpus" / "schemas").glob("*.sql"))

Columns = list[tuple[str, str, str]]


def columns(path: Path) -> Columns:
    """Table, column and type of everything in a store."""
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE NOT internal ORDER BY table_name, column_index"
        ).fetchall()


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.stem)
def test_an_older_store_gets_the_tables_of_a_new_one(schema: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.duckdb", tmp_path / "new.duckdb"
    with duckdb.connect(str(old)) as con:
        con.execute(schema.read_text())
        con.execute(
            f"INSERT INTO schema_version VALUES ({int(schema.stem)}, '2026-11-01 00:00:00');"
            "INSERT INTO bench_results (bench_id, output_tok_s) VALUES ('b1', 82.5)"
        )
    Store.open(new).close()
    with Store.open(old) as store, store.cursor() as con:
        assert migrate.stored_version(con) == migrate.newest_version()
        assert con.execute("SELECT output_tok_s FROM bench_points").fetchall() == [(82.5,)]
    assert columns(old) == columns(new)
