"""What the store takes on its disk: how it grows, how much of it is free, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import duckdb

from data.moment import utc_now

NOTED_EVERY_S: Final = 20 * 3600.0
GROWTH_DAYS: Final = 7.0
_SHORTEST = timedelta(hours=1)  # of less nobody can tell a day's growth


@dataclass(frozen=True, slots=True)
class Growth:
    """The size of the store now, and against what it was."""

    bytes: int
    since: datetime | None = None  # UTC; None: not known yet
    added: int = 0  # bytes since then; negative where it became smaller


def note_size(con: duckdb.DuckDBPyConnection, size: int) -> bool:
    """Keep the size of now, for `growth`; nothing of it is new to a reader."""
    now = utc_now()
    con.execute(f"INSERT INTO store_sizes VALUES ('{now}', {size})")
    return False


def noted_s_ago(con: duckdb.DuckDBPyConnection) -> float:
    """Seconds since a size was kept; infinite if none was."""
    row = con.execute('SELECT max("at") FROM store_sizes').fetchone()
    if row is None or row[0] is None:
        return float("inf")
    return float((utc_now() - row[0]).total_seconds())


def growth(con: duckdb.DuckDBPyConnection, size: int) -> Growth:
    """What came since the earliest size kept within GROWTH_DAYS."""
    now = utc_now()
    row = con.execute(
        f'SELECT min("at"), arg_min(bytes, "at") FROM store_sizes '
        f"WHERE \"at\" >= '{now - timedelta(days=GROWTH_DAYS)}'"
    ).fetchone()
    if row is None or row[0] is None or now - row[0] < _SHORTEST:
        return Growth(size)
    return Growth(size, row[0], size - row[1])


def in_words(grown: Growth, now: datetime) -> str:
    """How large it is and how fast it grows. `now`: UTC without a zone."""
    told = f"The store holds {size(grown.bytes)}"
    if grown.since is None:
        return f"{told}; how it grows is known after an hour."
    days = (now - grown.since).total_seconds() / 86_400
    over = f"{days:.0f} days" if days >= 1.5 else f"{24 * days:.0f} hours"
    if grown.added < 0:
        return f"{told}, {size(-grown.added)} less than {over} ago."
    return f"{told}; over the last {over} it grew by {size(round(grown.added / days))} a day."


def compacted(done: Mapping[str, Any]) -> str:
    """What `servescope compact` did, in a sentence. `done`: a data.retention.Compacted."""
    # Another process is told it as text.
    before = f"{datetime.fromisoformat(str(done['before'])).isoformat(' ', 'seconds')} UTC"
    told = (
        f"{done['lines']:,} samples from before {before} are now {done['rows']:,} rows, "
        "one a minute of those that are alike"
        if done["lines"]
        else f"no sample from before {before} was left to roll up"
    )
    sizes = f"{size(done['bytes_before'])} before, {size(done['bytes_after'])} now"
    return f"{told}; the store: {sizes}"


def size(count: int) -> str:
    """A number of bytes: 0 bytes, 812 bytes, 1.4 MB."""
    if count < 1_000:
        return f"{count} byte{'s' * (count != 1)}"
    for unit, factor in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if count < factor * 1_000:
            return f"{count / factor:.1f} {unit}"
    return f"{count / 1e12:.1f} TB"


def worth_moving(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether a quarter of the file is free."""
    row = con.execute("SELECT free_blocks, total_blocks FROM pragma_database_size()").fetchone()
    return row is not None and 4 * row[0] > row[1] > 0


def tables(con: duckdb.DuckDBPyConnection) -> list[str]:
    """The tables of the store, the largest first."""
    rows = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary "
        "ORDER BY estimated_size DESC, table_name"
    ).fetchall()
    return [name for (name,) in rows]


def move_to_front(con: duckdb.DuckDBPyConnection, table: str) -> bool:
    """Write a table anew, inside a transaction of the caller's: it goes to the first free blocks.

    A table of the store has neither keys nor defaults that could be lost.
    """
    con.execute(f"CREATE TABLE moved AS SELECT * FROM {table}")
    con.execute(f"DROP TABLE {table}")
    con.execute(f"ALTER TABLE moved RENAME TO {table}")
    return False
