"""What a question may be: one SELECT over the documented views, and nothing else."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from data import documented
from data.errors import CommandError
from data.query_guard import resident_bytes
from data.question import select
from data.store import Store
from tests.frames import at, decode, events, facts, samples
from tests.postgres import OpenStore
from tests.test_export_columns import documented as exported_columns

ROOT = Path(__file__).resolve().parents[1]
ONLY = "exactly one SELECT is allowed"
VIEW = "no documented view"
FUNCTION = "is not allowed"
LAMBDA = "a lambda may use its own element only"
LONG = "in the outermost SELECT only"
ENOUGH_S = 600.0  # no answer takes long; a busy machine may let a process wait for half a minute


@pytest.fixture(scope="module")
def store(open_module_store: OpenStore) -> Iterator[Store]:
    with open_module_store() as opened:
        opened.append(facts({"seq": 1, "run_id": "r1", "engine": "sglang", "label": "a/b"}), None)
        opened.append(samples(decode(i, gen_tok_s=100.0 + i) for i in range(1, 60)), None)
        opened.append(
            events({"run_id": "r1", "file_id": "f", "byte_offset": 5, "ts": at(5), "kind": "fault",
                    "severity": "fault", "title": "Killed", "incident_id": "r1-5", "count": 1}),
            None,
        )  # fmt: skip
        yield opened


@pytest.fixture
def con(store: Store) -> Iterator[duckdb.DuckDBPyConnection]:
    with store.cursor() as cursor:
        yield cursor


ATTACKS = [
    # more than one statement, or another kind
    ("", ONLY),
    ("SELECT 1; SELECT 2", ONLY),
    ("SELECT 1; DROP VIEW runs", ONLY),
    ("DELETE FROM events", ONLY),
    ("INSERT INTO events SELECT * FROM events", ONLY),
    ("UPDATE events SET title = 'x'", ONLY),
    ("CREATE TABLE t AS SELECT 1", ONLY),
    ("DROP TABLE events", ONLY),
    ("COPY (SELECT 1) TO 'x.csv'", ONLY),
    ("COPY events FROM 'x.csv'", ONLY),
    ("EXPORT DATABASE 'x'", ONLY),
    ("ATTACH 'other.duckdb'", ONLY),
    ("USE memory", ONLY),
    ("PRAGMA database_list", ONLY),
    ("SET threads = 1", ONLY),
    ("RESET threads", ONLY),
    ("INSTALL httpfs", ONLY),
    ("LOAD httpfs", ONLY),
    ("CALL pragma_version()", ONLY),
    ("CHECKPOINT", ONLY),
    ("VACUUM", ONLY),
    ("EXPLAIN SELECT 1", ONLY),
    ("PREPARE p AS SELECT 1", ONLY),
    ("EXECUTE p", ONLY),
    ("BEGIN TRANSACTION", ONLY),
    ("PIVOT runs ON engine USING count(*)", ONLY),
    ("WITH x AS (INSERT INTO events SELECT * FROM events RETURNING title) FROM x", "sql: "),
    ("SELECT", "sql: "),
    # files, by name and by function
    ("SELECT * FROM 'server.log'", VIEW),
    ("SELECT * FROM '/etc/passwd'", VIEW),
    ('SELECT * FROM "x.csv"', VIEW),
    ("SELECT * FROM 'https://example.org/x.parquet'", VIEW),
    ("SELECT * FROM read_csv('/etc/passwd')", FUNCTION),
    ("SELECT * FROM read_text('/etc/passwd')", FUNCTION),
    ("SELECT * FROM read_blob('/etc/passwd')", FUNCTION),
    ("SELECT * FROM read_json_auto('x.json')", FUNCTION),
    ("SELECT * FROM read_parquet('x.parquet')", FUNCTION),
    ("SELECT * FROM parquet_metadata('x.parquet')", FUNCTION),
    ("SELECT * FROM sniff_csv('x.csv')", FUNCTION),
    ("SELECT * FROM glob('/*')", FUNCTION),
    # the catalog, other tables of the store, settings, the environment
    ("SELECT * FROM checkpoints", VIEW),
    ("SELECT * FROM store_facts", VIEW),
    ("SELECT * FROM run_notes", VIEW),
    ("SELECT * FROM information_schema.tables", VIEW),
    ("SELECT * FROM pg_catalog.pg_class", VIEW),
    ("SELECT * FROM duckdb_tables", VIEW),
    ("SELECT * FROM sqlite_master", VIEW),
    ("SELECT * FROM s.main.store_facts", VIEW),
    ("SELECT * FROM system.main.runs", VIEW),
    ("SELECT * FROM duckdb_tables()", FUNCTION),
    ("SELECT * FROM duckdb_settings()", FUNCTION),
    ("SELECT * FROM duckdb_secrets()", FUNCTION),
    ("SELECT * FROM pragma_table_info('events')", FUNCTION),
    ("DESCRIBE events", "DESCRIBE"),
    ("SHOW TABLES", "DESCRIBE"),
    ("SUMMARIZE events", "DESCRIBE"),
    ("SELECT * FROM (DESCRIBE events)", "DESCRIBE"),
    ("SELECT current_setting('temp_directory')", FUNCTION),
    ("SELECT getenv('HOME')", FUNCTION),
    ("SELECT getvariable('x')", FUNCTION),
    ("SELECT version()", FUNCTION),
    ("SELECT current_schema", FUNCTION),
    ("SELECT user", FUNCTION),
    ("SELECT has_table_privilege('events', 'SELECT')", FUNCTION),
    ("SELECT pg_get_viewdef('runs')", FUNCTION),
    ("SELECT nextval('s')", FUNCTION),
    ("SELECT write_log('x')", FUNCTION),
    # statements in texts
    ("SELECT * FROM query('SELECT * FROM store_facts')", FUNCTION),
    ("SELECT * FROM query_table('store_facts')", FUNCTION),
    ("SELECT * FROM json_execute_serialized_sql('{}')", FUNCTION),
    ("SELECT json_serialize_plan('SELECT * FROM store_facts')", FUNCTION),
    # hidden deeper
    ("SELECT (SELECT value FROM store_facts)", VIEW),
    ("SELECT * FROM runs WHERE run_id IN (SELECT value FROM store_facts)", VIEW),
    ("SELECT 1 UNION ALL SELECT 2 FROM store_facts", VIEW),
    ("SELECT * FROM runs JOIN store_facts ON true", VIEW),
    ("SELECT * FROM runs, LATERAL (SELECT * FROM store_facts)", VIEW),
    ("SELECT 1 ORDER BY (SELECT max(value) FROM store_facts)", VIEW),
    ("SELECT 1 LIMIT (SELECT count(*) FROM store_facts)", VIEW),
    ("SELECT list_transform([1], x -> (SELECT max(value) FROM store_facts))", VIEW),
    ("SELECT count(*) FILTER (WHERE getenv('HOME') = 'x') FROM runs", FUNCTION),
    ("SELECT sum(1) OVER (ORDER BY getenv('HOME')) FROM runs", FUNCTION),
    ("SELECT title.getenv() FROM events", FUNCTION),
    ("SELECT system.main.lower('X')", FUNCTION),
    ("VALUES ((SELECT value FROM store_facts))", VIEW),
    # a name of WITH counts only where it is known
    ("WITH store_facts AS (SELECT * FROM store_facts) SELECT * FROM store_facts", VIEW),
    ("WITH RECURSIVE store_facts AS (SELECT * FROM store_facts UNION SELECT * FROM store_facts) "
     "SELECT * FROM store_facts", VIEW),
    ("SELECT * FROM (WITH store_facts AS (SELECT 1) FROM store_facts), store_facts", VIEW),
    ("WITH a AS (SELECT * FROM store_facts), store_facts AS (SELECT 1) SELECT * FROM a", VIEW),
    ("WITH store_facts AS (SELECT 1) SELECT * FROM main.store_facts", VIEW),
    # what no interrupt could end, or no memory hold
    ("SELECT repeat('x', 1000000000)", FUNCTION),
    ("SELECT lpad('x', 1000000000, 'y')", FUNCTION),
    ("SELECT range(1000000000)", "only after FROM"),
    ("SELECT printf('%1000000000d', 1)", FUNCTION),
    ("SELECT list_resize([1], 1000000000)", FUNCTION),
    ("SELECT list_reduce([1, 2], (x, y) -> x + y)", FUNCTION),
    ("SELECT sleep_ms(100000)", FUNCTION),
    ("SELECT replace(title, 'a', 'aaaaaaaa') FROM events", "the second no longer"),
    ("SELECT replace(title, title, title) FROM events", "the second no longer"),
    ("SELECT NULL::INTEGER[100000][100000]", "at most 1,000 elements"),
    ("SELECT " + "||".join(["title"] * 20) + " FROM events", "values are joined"),
    ("SELECT $1", FUNCTION),
    ("SELECT 1\0; DROP VIEW runs", "no text"),
    ("SELECT '\ud800'", "no text"),
    ("') ; DROP VIEW runs; --", "sql: "),
    ("SELECT * FROM runs AT (VERSION => 1)", VIEW),
    ("SELECT '" + "x" * 9_000 + "'", "longer than 8,000"),
    ("SELECT " + "NOT " * 1_900 + "true", "sql: "),
    # one step that takes hours: the product of lengths, or a plan that doubles and doubles
    ("SELECT levenshtein(title, evidence) FROM events", FUNCTION),
    ("SELECT list_transform(l, x -> l) FROM (SELECT [1, 2] AS l)", LAMBDA),
    ("SELECT list_transform([1], x -> list_transform([2], y -> y))", LAMBDA),
    ("SELECT list_transform(['a'], x -> x || 'b')", LAMBDA),
    ("SELECT list_contains(l, 1) FROM (SELECT list(range) AS l FROM range(9))", LONG),
    ("WITH w AS (SELECT string_agg(title) AS t FROM events) SELECT lower(t) FROM w, runs", LONG),
    ("SELECT (SELECT max(range, 1000000) FROM range(9))", LONG),
    ("SELECT list(ts) OVER () FROM samples", LONG),
    ("SELECT list_concat(list(ts), list(ts)) FROM samples", "nothing may be joined or unnested"),
    ("SELECT list(ts) AS l, [l, l] FROM samples", "nothing may be joined or unnested"),
    ("SELECT list(ts), unnest([1, 2]) FROM samples", "nothing may be joined or unnested"),
    ("WITH RECURSIVE t AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM t) FROM t",
     "recursive WITH may not join"),
    ("SELECT 1 AS a0, " + ", ".join(f"a{n}+a{n} AS a{n + 1}" for n in range(28)), "than 10,000"),
    ("SELECT 1 FROM " + "(SELECT *, * FROM " * 16 + "runs" + ")" * 16, "16 more * than one"),
    ("WITH t0 AS (SELECT 1), "
     + ", ".join(f"t{n + 1} AS (FROM t{n}, t{n} AS other)" for n in range(40))
     + " FROM t40", "than 50 tables"),
    ("FROM " + ", ".join(f"samples s{n}" for n in range(51)), "than 50 tables"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "says"), ATTACKS, ids=[ascii(query[:60]) for query, _ in ATTACKS]
)
def test_refused(con: duckdb.DuckDBPyConnection, query: str, says: str) -> None:
    with pytest.raises(CommandError) as told:
        select(con, query, 10, 5.0)
    line = str(told.value)
    assert line.startswith("sql: ")
    assert says in line
    assert "\n" not in line


QUESTIONS = [
    "SELECT count(*) FROM samples",
    "FROM runs",
    "select label, engine from RUNS where engine = 'sglang'",
    "SELECT * FROM main.runs ORDER BY ALL LIMIT 3",
    "SELECT 1 AS one; -- and nothing else",
    "SELECT r.label, s.steady_tok_s FROM runs r JOIN run_summary s USING (run_id)",
    "WITH t AS (SELECT run_id, max(gen_tok_s) AS peak FROM samples GROUP BY ALL) SELECT * FROM t",
    "WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT y FROM b, a",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t",
    "WITH runs AS (SELECT 1 AS x) SELECT x FROM runs",
    "SELECT ts, gen_tok_s - lag(gen_tok_s) OVER (PARTITION BY run_id ORDER BY ts) FROM samples",
    "SELECT avg(gen_tok_s) OVER w FROM samples WINDOW w AS (ORDER BY ts ROWS 5 PRECEDING)",
    "SELECT run_id FROM runs WHERE run_id IN (SELECT run_id FROM events WHERE severity = 'fault')",
    "SELECT (SELECT count(*) FROM incidents) AS n, EXISTS (FROM runs)",
    "SELECT run_id FROM runs UNION SELECT run_id FROM events EXCEPT SELECT 'x'",
    "SELECT time_bucket(INTERVAL 10 SECOND, ts) AS t, sum(gen_tok_s * interval_s) "
    "FROM samples_timed GROUP BY t HAVING count(*) > 1 ORDER BY t",
    "SELECT CASE WHEN kv_usage > 0.9 THEN 'full' ELSE 'free' END, quantile_cont(gen_tok_s, 0.5) "
    "FROM counted_timed GROUP BY 1",
    "SELECT * FROM samples s ASOF JOIN events e ON s.run_id = e.run_id AND s.ts >= e.ts",
    "SELECT args ->> 'tp_size', json_extract_string(args, '$.model_path') FROM runs",
    "SELECT unnest([1, 2]) AS n, [x * 2 FOR x IN [1, 2] IF x > 1], {'a': 1}.a, MAP {'k': 1}['k']",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(n, name) WHERE name LIKE 'a%'",
    "SELECT range AS i FROM range(10) UNION ALL SELECT * FROM generate_series(1, 3)",
    "SELECT * FROM (PIVOT (SELECT kind, gen_tok_s FROM samples) ON kind IN ('decode') "
    "USING avg(gen_tok_s))",
    "SELECT ts::DATE, extract(hour FROM ts), strftime(ts, '%H'), ts AT TIME ZONE 'UTC' FROM runs, "
    "samples",
    "SELECT replace(label, 'a/', ''), label || ' (' || engine || ')', engine ILIKE '%G' FROM runs",
    "SELECT DISTINCT ON (run_id) run_id, ts FROM samples ORDER BY run_id, ts DESC",
    "SELECT count(*) FILTER (WHERE status >= 500) FROM request_counts",
    "SELECT concurrency, output_tok_s, ttft_ms_p99 FROM bench_points ORDER BY concurrency",
    "SELECT now() - INTERVAL 1 DAY < current_timestamp, coalesce(NULL, 1), try_cast('x' AS INT)",
    "SELECT run_id, row_number() OVER () AS n FROM runs QUALIFY n = 1",
    "SELECT list_transform(accept_per_position, (x, i) -> round(x, 2) + i) FROM samples",
    "SELECT run_id, string_agg(DISTINCT kind || ':' || severity, ', ') AS kinds, "
    "list(ts ORDER BY ts)[1:3], max(ts, 2) FROM events GROUP BY ALL "
    "UNION ALL SELECT run_id, engine, list(ready_at), list(ended_at) FROM runs GROUP BY ALL",
    "WITH a AS (FROM runs), b AS (SELECT x.*, y.label AS other FROM a x, a y) SELECT * FROM b, a",
]  # fmt: skip


@pytest.mark.parametrize("query", QUESTIONS, ids=lambda query: query[:60])
def test_answered(con: duckdb.DuckDBPyConnection, query: str) -> None:
    assert select(con, query, 100, ENOUGH_S).width > 0


def test_every_documented_view_has_these_columns(con: duckdb.DuckDBPyConnection) -> None:
    for name, view in documented.VIEWS.items():
        frame = select(con, f"SELECT * FROM {name}", 1, ENOUGH_S)
        assert set(frame.columns) == {column.name for column in view.columns}, name
        assert view.row.endswith("."), name


def test_the_documents_say_the_same_everywhere() -> None:
    text = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    assert (ROOT / "data" / "documented.md").read_text(encoding="utf-8") in text
    exported = exported_columns()
    for view, export in (("samples_timed", "samples"), ("events", "events"),
                         ("bench_points", "bench_results")):  # fmt: skip
        units = {column.name: column.unit for column in documented.VIEWS[view].columns}
        assert units == exported[export], view


def test_variables_of_python_are_out_of_reach(con: duckdb.DuckDBPyConnection) -> None:
    secret = duckdb.sql("SELECT 'secret' AS word").pl()
    with pytest.raises(CommandError, match=VIEW):
        select(con, "SELECT * FROM secret", 10, 5.0)
    assert secret.height == 1


ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"


def stored(store: Store) -> int:
    with store.cursor() as con:
        return int(con.sql("SELECT count(*) FROM samples").fetchall()[0][0])


def test_a_question_without_an_end_is_ended_and_ingest_goes_on(store: Store) -> None:
    told: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        with store.cursor() as con, pytest.raises(CommandError) as error:
            select(con, ENDLESS, 10, 60.0, stop)
        told.append(str(error.value))

    asking = threading.Thread(target=ask)
    asking.start()
    before = stored(store)
    for second in range(100, 110):
        store.append(samples([decode(second)]), None)
    assert stored(store) == before + 10
    assert asking.is_alive()
    stop.set()
    asking.join(60)
    assert told == ["sql: stopped, as you asked"]
    with store.cursor() as con, pytest.raises(CommandError, match=r"stopped after 0\.2 s"):
        select(con, ENDLESS, 10, 0.2)


@pytest.mark.skipif(not resident_bytes(), reason="the system does not tell the memory of a process")
def test_a_question_that_takes_all_memory_is_ended(con: duckdb.DuckDBPyConnection) -> None:
    began = time.monotonic()
    with pytest.raises(CommandError, match="more than 1 GB of memory"):
        select(con, "SELECT list(range) FROM range(100000000000)", 10, 100.0)
    assert time.monotonic() - began < 100
    assert select(con.cursor(), "SELECT 1 AS n", 10, 5.0)["n"].to_list() == [1]


def test_every_function_on_the_list_is_one_of_duckdb() -> None:
    from data.sql_check import FUNCTIONS

    known = {
        name.lower()
        for (name,) in duckdb.sql("SELECT function_name FROM duckdb_functions()").fetchall()
    }
    # Those that the parser makes of words of SQL, and operators.
    spelled = {
        "->",
        "if",
        "ifnull",
        "coalesce",
        "try",
        "grouping",
        "grouping_id",
        "**",
        "current_timestamp",
    }
    assert FUNCTIONS - known - spelled == set()
    assert not any(
        re.match(r"read_|duckdb_|pragma_|pg_|has_|json_(serialize|execute)", name)
        for name in FUNCTIONS
    )
