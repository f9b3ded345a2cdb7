"""Values inside SQL text, for the few statements at the start of every import.

Handing DuckDB a parameter of any kind makes it import pandas, a quarter of a second before the
first line is parsed; the writer needs it too, but beside the parsing. Elsewhere use parameters.
"""

from __future__ import annotations


def literal(value: str | int | bool | None) -> str:
    """The value as a literal of SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)
