"""A question of the user's own: one SELECT over the store, bounded in rows and in time."""

from __future__ import annotations

import contextlib
import threading
from datetime import date, datetime

import duckdb
import polars as pl
from duckdb.sqltypes import DuckDBPyType

from data.errors import CommandError
from data.query_guard import MAX_BYTES, TOO_LARGE, Guard
from data.sql_check import check

MAX_ROWS = 10_000_000
MAX_SECONDS = 600.0

# What a frame and every file format can hold; anything else is shown as DuckDB writes it.
_NUMBERS_AND_TEXTS = frozenset((
    "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint",
    "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    "float", "double", "decimal", "varchar", "uuid", "enum",
))  # fmt: skip
_TIMES = frozenset(
    {"date", "time", "timestamp", "timestamp_s", "timestamp_ms", "timestamp with time zone"}
)


def select(
    con: duckdb.DuckDBPyConnection,
    query: str,
    limit: int,
    timeout_s: float,
    stop: threading.Event | None = None,
) -> pl.DataFrame:
    """The first rows of one SELECT, and one more than `limit` where there are more.

    CommandError for anything else, when it takes too long or too much memory, or when `stop` is
    set meanwhile. The transaction is read-only: whatever a statement is called, it cannot change
    the store.
    """
    if not 1 <= limit <= MAX_ROWS:
        raise CommandError(f"sql: {limit} rows cannot be asked for; --limit is 1 to {MAX_ROWS}")
    if not 0.1 <= timeout_s <= MAX_SECONDS:
        raise CommandError(f"sql: --timeout is 0.1 to {MAX_SECONDS:g} seconds, not {timeout_s:g}")
    check(con, query)
    with Guard(con, timeout_s, MAX_BYTES, stop or threading.Event()) as guard:
        try:
            con.execute("BEGIN TRANSACTION READ ONLY")
            return _fetch(con.sql(query).limit(limit + 1))
        except duckdb.Error as error:
            raise CommandError(f"sql: {guard.reason or _first_line(error)}") from error
        except MemoryError as error:
            raise CommandError(f"sql: {TOO_LARGE}") from error
        finally:
            with contextlib.suppress(duckdb.Error):  # not begun, or ended by its error
                con.execute("ROLLBACK")


def _fetch(rows: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    as_text = {at for at, kind in enumerate(rows.types) if not _holdable(kind)}
    frame = _with_texts(rows, as_text).pl()
    odd = {at for at, name in enumerate(frame.columns) if _out_of_calendar(frame[name])}
    return _with_texts(rows, as_text | odd).pl() if odd else frame


def _with_texts(rows: duckdb.DuckDBPyRelation, columns: set[int]) -> duckdb.DuckDBPyRelation:
    """The rows with these columns as text; by position, since names may come twice."""
    if not columns:
        return rows
    quoted = [name.replace('"', '""') for name in rows.columns]
    return rows.project(
        ", ".join(
            f'CAST(#{at + 1} AS VARCHAR) AS "{name}"' if at in columns else f'#{at + 1} AS "{name}"'
            for at, name in enumerate(quoted)
        )
    )


def _holdable(kind: DuckDBPyType) -> bool:
    if kind.id == "list":
        element = kind.children[0][1]
        return isinstance(element, DuckDBPyType) and element.id in _NUMBERS_AND_TEXTS
    return kind.id in _NUMBERS_AND_TEXTS or kind.id in _TIMES


def _out_of_calendar(column: pl.Series) -> bool:
    """Whether it holds infinity or a year that Python has no date for."""
    if column.dtype == pl.Date:
        first, last = pl.lit(date.min), pl.lit(date.max)
    elif isinstance(column.dtype, pl.Datetime):
        first, last = (pl.lit(day).cast(column.dtype) for day in (datetime.min, datetime.max))
    else:
        return False
    inside = pl.select(pl.lit(column).is_between(first, last).all()).item()
    return not inside


def _first_line(error: duckdb.Error) -> str:
    return str(error).split("\n", 1)[0]
