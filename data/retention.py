"""Rolls old samples up by minute; events, summaries and everything else stay.

Run by run in transactions of their own, so that appends and questions come in between. What is
rolled up already, has no time, or may still get another window stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

import duckdb

from data import minutes, rolling
from data.compact import TABLES
from data.errors import CommandError
from data.fold import fold
from data.store import Store

BATCH_LINES = 1_000_000  # of a transaction, unless one run alone has more


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compacting a store did."""

    before: datetime  # UTC; samples from before it were put together
    lines: int  # samples that went
    rows: int  # rows of a minute that came
    bytes_before: int
    bytes_after: int


def compact(store: Store, keep_days: float) -> Compacted:
    """Roll up what is older than so many days, fold what later rows have superseded, and give
    the space back. Others go on reading and appending meanwhile."""
    if not 1 <= keep_days <= 36_500:
        raise CommandError(f"compact: --keep is 1 to 36,500 days, not {keep_days:g}")
    now = datetime.now(UTC).replace(tzinfo=None)
    before = (now - timedelta(days=keep_days)).replace(second=0, microsecond=0)
    size = store.size_bytes()
    with store.cursor() as con:
        found = list(batches(con, before))
    done: dict[Batch, tuple[int, int]] = {}
    with store.upkeep():
        for batch in found:
            work = partial(_roll, batch=batch, before=before, done=done)
            store.transact(work, deletes=True)
        store.transact(fold, deletes=True)
        store.shrink()
    lines, rows = (sum(numbers) for numbers in zip(*done.values(), strict=True)) if done else (0, 0)
    return Compacted(before, lines, rows, size, store.size_bytes())


def _roll(
    con: duckdb.DuckDBPyConnection,
    batch: Batch,
    before: datetime,
    done: dict[Batch, tuple[int, int]],
) -> bool:
    done[batch] = roll_up(con, batch, before)
    return done[batch][0] > 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs whose old samples are rolled up in one transaction."""

    run_ids: tuple[str, ...]
    lines: int


def batches(con: duckdb.DuckDBPyConnection, before: datetime) -> Iterator[Batch]:
    """All runs with samples from before this time (UTC)."""
    old = " UNION ALL ".join(
        f"SELECT group_id, count(*) AS n FROM {table} WHERE ts < '{before}' GROUP BY group_id"
        for table in TABLES.values()
    )
    found = con.execute(
        f"SELECT run_id, sum(n)::BIGINT FROM ({old}) o "
        "JOIN (SELECT DISTINCT group_id, run_id FROM sample_groups) g USING (group_id) "
        "WHERE run_id IS NOT NULL GROUP BY run_id ORDER BY run_id"
    ).fetchall()
    run_ids: list[str] = []
    lines = 0
    for run_id, n in found:
        if run_ids and lines + n > BATCH_LINES:
            yield Batch(tuple(run_ids), lines)
            run_ids, lines = [], 0
        run_ids.append(run_id)
        lines += n
    if run_ids:
        yield Batch(tuple(run_ids), lines)


def roll_up(con: duckdb.DuckDBPyConnection, batch: Batch, before: datetime) -> tuple[int, int]:
    """Put the old samples of these runs together, inside a transaction of the caller's.

    Returns:
        how many samples went, and how many rows came.
    """
    for statement in rolling.chosen(batch.run_ids, f"ts < '{before}'"):
        con.execute(statement)
    lines = _count(con, "SELECT count(*) FROM chosen")
    rows = 0
    if lines:
        con.execute(f"CREATE OR REPLACE TEMP TABLE rolled AS {minutes.rows()}")
        con.execute(f"INSERT INTO {minutes.TABLE} BY NAME SELECT * FROM rolled")
        rows = _count(con, "SELECT count(*) FROM rolled")
        for kind, table in TABLES.items():
            con.execute(
                f"DELETE FROM {table} WHERE (group_id, byte_offset) IN "
                f"(SELECT (group_id, byte_offset) FROM chosen WHERE kind = '{kind}')"
            )
        con.execute(
            "DELETE FROM sample_intervals WHERE (run_id, file_id, byte_offset) IN "
            "(SELECT (run_id, file_id, byte_offset) FROM chosen)"
        )
        con.execute("DROP TABLE rolled")
    con.execute("DROP TABLE chosen")
    return lines, rows


def _count(con: duckdb.DuckDBPyConnection, query: str) -> int:
    row = con.execute(query).fetchone()
    assert row is not None
    return int(row[0])
