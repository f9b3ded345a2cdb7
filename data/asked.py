"""How a query is asked: planned once, and its rows handed over at once.

`con.sql(query, params=...)` of DuckDB 1.5.5 plans a question twice, and for a page that asks each
second planning is most of it; `con.execute(query).pl()` is gone in DuckDB 2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import polars as pl


def asked(
    con: duckdb.DuckDBPyConnection, query: str, params: Mapping[str, Any] | None = None
) -> pl.DataFrame:
    """The rows that a query gives."""
    found = pl.from_arrow(con.execute(query, dict(params or {})).to_arrow_table())
    assert isinstance(found, pl.DataFrame)
    return found
