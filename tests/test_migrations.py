"""Every schema that a store was ever made with becomes today's, with nothing lost."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from data import migrate
from data.store import Store
from tests.frames import START

SCHEMAS = sorted((Path(__file__).parent / "corpus" / "schemas").glob("*.sql"))

Columns = list[tuple[str, str, str]]

# Opens a store, and is killed before the first statement with these words: all that a step does
# stands before its mark, and is not committed yet.
_KILLED = """
import os, signal, sys
from data import migrate
from data.store import Store
class Dying:
    def __init__(self, con):
        self.con = con
    def execute(self, statement):
        if sys.argv[2] in statement:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.con.execute(statement)
real = migrate._migrate
migrate._migrate = lambda con: real(Dying(con))
Store.open(sys.argv[1])
"""


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
            "INSERT INTO bench_results (bench_id, tool, output_tok_s) VALUES ('b1', 'table', 82.5)"
        )
    Store.open(new).close()
    with Store.open(old) as store, store.cursor() as con:
        assert migrate.stored_version(con) == migrate.newest_version()
        assert con.execute("SELECT output_tok_s FROM bench_points").fetchall() == [(82.5,)]
    assert columns(old) == columns(new)


def of_the_first_schema(path: Path) -> duckdb.DuckDBPyConnection:
    """A store as the first release left it, with the place of its samples said twice."""
    con = duckdb.connect(str(path))
    con.execute(SCHEMAS[0].read_text())
    con.execute(f"INSERT INTO schema_version VALUES (1, TIMESTAMP '{START}')")
    con.execute("INSERT INTO sample_places VALUES (7, 'r1', 's', 'f'), (7, 'r1', 's', 'f')")
    return con


def test_samples_of_one_table_are_found_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with of_the_first_schema(path) as con:
        con.execute(
            "INSERT INTO sample_rows BY NAME SELECT 7 AS place, 10 AS byte_offset, 1 AS line_no, "
            f"TIMESTAMP '{START}' AS ts, false AS ts_inferred, 0 AS engine, 0 AS kind, "
            "3 AS dp_rank, 5 AS running_reqs, 81.5 AS gen_tok_s, 1.25 AS accept_len, "
            '0 AS accept_def, 1 AS interval_from, 1 AS "window", true AS graph_on'
        )
        con.execute(
            "INSERT INTO sample_rows BY NAME SELECT 7 AS place, 90 AS byte_offset, "
            '0 AS engine, 1 AS kind, 128 AS new_tokens, 0 AS hit_rate_scope, 0 AS "window"'
        )
    with Store.open(path) as store, store.cursor() as con:
        assert migrate.stored_version(con) == migrate.newest_version()
        first, second = con.sql("SELECT * FROM samples ORDER BY byte_offset").pl().to_dicts()
    assert {name: value for name, value in first.items() if value is not None} == {
        "run_id": "r1", "source_id": "s", "file_id": "f", "byte_offset": 10, "line_no": 1,
        "ts": START, "ts_inferred": False, "engine": "sglang", "kind": "decode", "dp_rank": 3,
        "running_reqs": 5, "gen_tok_s": 81.5, "accept_len": 1.25, "graph_on": True,
        "accept_def": "accepted / (steps * (draft_tokens - 1))", "interval_from": "steps",
        "window": "steady",
    }  # fmt: skip
    assert {name: value for name, value in second.items() if value is not None} == {
        "run_id": "r1", "source_id": "s", "file_id": "f", "byte_offset": 90, "engine": "sglang",
        "kind": "prefill", "new_tokens": 128, "hit_rate_scope": "batch", "window": "mixed",
    }  # fmt: skip


def test_an_upgrade_that_is_killed_again_and_again_is_that_of_one_in_peace(tmp_path: Path) -> None:
    peace, killed = tmp_path / "peace.duckdb", tmp_path / "killed.duckdb"
    with of_the_first_schema(peace) as con:
        con.execute(
            "INSERT INTO sample_rows BY NAME SELECT 7 AS place, n AS byte_offset, 0 AS engine, "
            '(n % 2)::TINYINT AS kind, n AS kv_tokens, 0 AS "window" FROM range(5000) t(n)'
        )
    shutil.copy(peace, killed)
    steps = range(2, migrate.newest_version() + 1)
    marks = [f"INSERT INTO schema_version VALUES ({n}" for n in steps]
    for words in (marks[0], marks[2], marks[-1], "INSERT INTO views_version"):
        died = subprocess.run(
            [sys.executable, "-c", _KILLED, killed, words], cwd=migrate.HERE.parent
        )
        assert died.returncode == -signal.SIGKILL
    found = []
    for path in (peace, killed):
        with Store.open(path) as store, store.cursor() as con:
            rows = con.sql("SELECT * FROM samples ORDER BY byte_offset").pl()
            counts = [
                con.execute(f"SELECT count(*) FROM {table}").fetchone()
                for table in ("schema_version", "views_version", "store_facts", "sample_groups")
            ]
        found.append((rows.rows(), counts, columns(path)))
    assert len(found[0][0]) == 5000
    assert found[0] == found[1]
