"""Rolls old samples up by minute; events, summaries and everything else stay.

Batch by batch in transactions of their own, so that appends and questions come in between. What is
rolled up already, has no time, or may still get another window stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import duckdb

from data import minutes, rolling
from data.compact import TABLES
from data.errors import CommandError
from data.fold import fold
from data.literal import literal
from data.moment import utc_now
from data.store import Store

# Of a transaction, for the length of which the collectors of a lake wait: about two seconds of the
# processor, however long a run is.
BATCH_LINES = 250_000


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
    now = utc_now()
    before = (now - timedelta(days=keep_days)).replace(second=0, microsecond=0)
    size = store.size_bytes()
    with store.cursor() as con:
        found = list(batches(con, before))
    done: dict[Batch, tuple[int, int]] = {}
    with store.upkeep():
        for batch in found:
            work = partial(_roll, batch=batch, done=done)
            store.transact(work, deletes=True)
        store.transact(fold, deletes=True)
        store.shrink()
    lines, rows = (sum(numbers) for numbers in zip(*done.values(), strict=True)) if done else (0, 0)
    return Compacted(before, lines, rows, size, store.size_bytes())


def _roll(con: duckdb.DuckDBPyConnection, batch: Batch, done: dict[Batch, tuple[int, int]]) -> bool:
    done[batch] = roll_up(con, batch)
    return done[batch][0] > 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs whose old samples are rolled up in one transaction, those from before a moment."""

    run_ids: tuple[str, ...]
    before: datetime


def batches(con: duckdb.DuckDBPyConnection, before: datetime) -> Iterator[Batch]:
    """All runs with samples from before this time (UTC); of a long one its pieces of time."""
    old = _union(
        f"SELECT group_id, count(*) AS n FROM {{}} WHERE ts < '{before}' GROUP BY group_id"
    )
    found = con.execute(
        f"SELECT run_id, sum(n)::BIGINT FROM ({old}) o "
        "JOIN (SELECT DISTINCT group_id, run_id FROM sample_groups) g USING (group_id) "
        "WHERE run_id IS NOT NULL GROUP BY run_id ORDER BY run_id"
    ).fetchall()
    run_ids: list[str] = []
    lines = 0
    for run_id, n in found:
        if n > BATCH_LINES:
            yield from _pieces(con, run_id, before)
            continue
        if lines + n > BATCH_LINES:
            yield Batch(tuple(run_ids), before)
            run_ids, lines = [], 0
        run_ids.append(run_id)
        lines += n
    if run_ids:
        yield Batch(tuple(run_ids), before)


def _pieces(con: duckdb.DuckDBPyConnection, run_id: str, before: datetime) -> Iterator[Batch]:
    """One run, the oldest first: each piece ends with a minute, so none is rolled up in two."""
    minutes = _union(
        f"SELECT {rolling.piece(rolling.PIECE_S)} AS minute, count(*) AS n FROM {{}} "
        f"WHERE ts < '{before}' AND group_id IN "
        f"(SELECT group_id FROM sample_groups WHERE run_id = {literal(run_id)}) GROUP BY minute"
    )
    ends = con.execute(
        f"SELECT max(minute) FROM (SELECT minute, sum(n) OVER (ORDER BY minute) AS lines "
        f"FROM ({minutes})) GROUP BY lines // {BATCH_LINES} ORDER BY 1"
    ).fetchall()
    for (last,) in ends[:-1]:
        # Just after its border, a stamp on which belongs to it.
        yield Batch((run_id,), last + timedelta(seconds=rolling.PIECE_S, microseconds=1))
    yield Batch((run_id,), before)


def _union(query: str) -> str:
    """The rows of a query of each table of samples."""
    return " UNION ALL ".join(query.format(table) for table in TABLES.values())


def roll_up(con: duckdb.DuckDBPyConnection, batch: Batch) -> tuple[int, int]:
    """Put the old samples of these runs together, inside a transaction of the caller's.

    Returns:
        how many samples went, and how many rows came.
    """
    for statement in rolling.chosen(batch.run_ids, f"ts < '{batch.before}'"):
        con.execute(statement)
    spans = con.execute(
        "SELECT kind, count(*), min(ts), max(ts) FROM chosen GROUP BY kind ORDER BY kind"
    ).fetchall()
    lines, rows = sum(span[1] for span in spans), 0
    if lines:
        con.execute(f"CREATE OR REPLACE TEMP TABLE rolled AS {minutes.rows()}")
        con.execute(f"INSERT INTO {minutes.TABLE} BY NAME SELECT * FROM rolled")
        rows = _count(con, "SELECT count(*) FROM rolled")
        for kind, _, first, last in spans:
            # The times are said for the files of a lake that need not be read then.
            con.execute(
                f"DELETE FROM {TABLES[kind]} WHERE ts BETWEEN '{first}' AND '{last}' "
                "AND (group_id, byte_offset) IN "
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
