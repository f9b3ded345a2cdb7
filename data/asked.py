"""How a query is asked: planned once, and its rows handed over at once.

`con.sql(query, params=...)` of DuckDB 1.5.5 plans a question twice, and for a page that asks each
second planning is most of it; `con.execute(query).pl()` is gone in DuckDB 2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import duckdb
import polars as pl

_AT_ONCE: Final = 4
_Run = TypeVar("_Run")
_Answer = TypeVar("_Answer")


def asked(
    con: duckdb.DuckDBPyConnection, query: str, params: Mapping[str, Any] | None = None
) -> pl.DataFrame:
    """The rows that a query gives."""
    found = pl.from_arrow(con.execute(query, dict(params or {})).to_arrow_table())
    assert isinstance(found, pl.DataFrame)
    return found


def side_by_side(ask: Callable[[_Run], _Answer], runs: Iterable[_Run]) -> list[_Answer]:
    """The same question of several runs, answered in their order: to plan one takes a core as long
    as to answer it."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [*pool.map(ask, runs)]
