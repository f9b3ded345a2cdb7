"""Benchmark results in the store: adding files, naming columns, and reading points."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import polars as pl

from data.asked import asked
from data.errors import CommandError
from data.moment import utc_now
from data.store import Store
from parsers import records

_FILES: records.Schema = {
    "bench_file": records.TEXT, "content": records.TEXT, "bytes": records.BIG,
    "format": records.TEXT, "n_points": records.INT, "unread": records.TEXT, "at": records.TIME,
}  # fmt: skip
_MAPS: records.Schema = {
    "bench_file": records.TEXT, "header": records.TEXT, "name": records.TEXT,
    "unit": records.TEXT, "at": records.TIME,
}  # fmt: skip


def known_file(con: duckdb.DuckDBPyConnection, content: str) -> dict[str, Any] | None:
    """The latest row of bench_files with this content (SHA-256); None if it was never read."""
    rows = asked(
        con,
        'SELECT * FROM bench_files WHERE content = $content ORDER BY "at" DESC LIMIT 1',
        {"content": content},
    )
    return rows.row(0, named=True) if rows.height else None


def latest(con: duckdb.DuckDBPyConnection, bench_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What stands of these points, by bench_id: columns of BENCH_RESULTS."""
    rows = asked(
        con,
        "SELECT * FROM bench_results WHERE list_contains($ids, bench_id) "
        "QUALIFY row_number() OVER (PARTITION BY bench_id ORDER BY seq DESC) = 1",
        {"ids": list(bench_ids)},
    )
    return {row["bench_id"]: row for row in rows.to_dicts()}


def of_file(con: duckdb.DuckDBPyConnection, bench_file: str) -> list[dict[str, Any]]:
    """What stands of the points of a file."""
    rows = asked(
        con,
        "SELECT * FROM bench_results "
        "QUALIFY row_number() OVER (PARTITION BY bench_id ORDER BY seq DESC) = 1 "
        "AND bench_file = $bench_file",
        {"bench_file": bench_file},
    )
    return rows.to_dicts()


def add(store: Store, results: pl.DataFrame, files: Sequence[Mapping[str, Any]]) -> None:
    """Store points and the files they came from, all or nothing."""
    now = utc_now()
    read = records.frame([{**file, "at": now} for file in files], _FILES)

    def work(con: duckdb.DuckDBPyConnection) -> bool:
        insert(con, "bench_results", results)
        insert(con, "bench_files", read)
        return results.height > 0

    store.transact(work)


def maps(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, str | None]]:
    """What the user said of headers that are not known: header -> column and unit."""
    rows = con.sql(
        "SELECT header, name, unit FROM column_maps "
        'QUALIFY row_number() OVER (PARTITION BY header ORDER BY "at" DESC) = 1'
    ).fetchall()
    return {header: (name, unit) for header, name, unit in rows if name}


def map_column(store: Store, header: str, name: str, unit: str | None) -> None:
    """Say once what a header means; CommandError for a column that there is not."""
    plain = name not in records.BENCH_RESULTS and name not in ("label", "dimension")
    if plain or name in ("bench_id", "bench_file", "run_id", "extra", "position", "seq"):
        raise CommandError(
            f"{name!r} is no column of a benchmark; `servescope bench --help` names them"
        )
    now = utc_now()
    row = {"header": header, "name": name, "unit": unit, "at": now}

    def work(con: duckdb.DuckDBPyConnection) -> bool:
        insert(con, "column_maps", records.frame([row], _MAPS))
        return True

    store.transact(work)


def unread_files(con: duckdb.DuckDBPyConnection) -> list[tuple[str, list[str]]]:
    """Files with columns that nobody has said the meaning of yet, and these columns."""
    rows = con.sql(
        "SELECT bench_file, unread FROM bench_files WHERE unread IS NOT NULL "
        'QUALIFY row_number() OVER (PARTITION BY bench_file ORDER BY "at" DESC) = 1 '
        "ORDER BY bench_file"
    ).fetchall()
    known = maps(con)
    left = [(path, [h for h in json.loads(text) if h not in known]) for path, text in rows]
    return [(path, headers) for path, headers in left if headers]


def files_with(con: duckdb.DuckDBPyConnection, header: str) -> list[str]:
    """The files that had a column of this name which nobody knew."""
    rows = con.sql(
        "SELECT DISTINCT bench_file FROM bench_files "
        "WHERE list_contains(from_json(unread, '[\"VARCHAR\"]'), $header) ORDER BY bench_file",
        params={"header": header},
    ).fetchall()
    return [path for (path,) in rows]


def points(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str] = ()) -> pl.DataFrame:
    """All points, or those of these runs: columns of the view bench_points and run_label."""
    return asked(
        con,
        "SELECT p.*, r.label AS run_label FROM bench_points p "
        "LEFT JOIN runs r ON r.run_id = p.run_id "
        "WHERE len($run_ids) = 0 OR list_contains($run_ids, p.run_id) "
        "ORDER BY coalesce(p.label, p.bench_file), p.bench_file, p.position, p.bench_id",
        {"run_ids": list(run_ids)},
    )


def counts(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """How many points each run has that has any: run_id, n_points."""
    return asked(
        con,
        "SELECT run_id, count(*) AS n_points FROM bench_points WHERE run_id IS NOT NULL "
        "GROUP BY run_id",
    )


def insert(con: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame) -> None:
    """Append rows; as Arrow, since Python's variables are out of the store's reach."""
    if rows.is_empty():
        return
    con.register("new_rows", rows.to_arrow())
    try:
        con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new_rows")
    finally:
        con.unregister("new_rows")
