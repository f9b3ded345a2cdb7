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

from data import minutes
from data.compact import TABLES
from data.errors import CommandError
from data.fold import fold
from data.literal import literal
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
    done: list[tuple[int, int]] = []
    with store.upkeep():
        for batch in found:
            store.transact(partial(_roll, batch=batch, before=before, done=done))
        store.transact(fold)
        store.shrink()
    lines, rows = (sum(numbers) for numbers in zip(*done, strict=True)) if done else (0, 0)
    return Compacted(before, lines, rows, size, store.size_bytes())


def _roll(
    con: duckdb.DuckDBPyConnection, batch: Batch, before: datetime, done: list[tuple[int, int]]
) -> bool:
    done.append(roll_up(con, batch, before))
    return done[-1][0] > 0


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
    for statement in _choose(batch, before):
        con.execute(statement)
    lines = _count(con, "SELECT count(*) FROM chosen")
    rows = 0
    if lines:
        con.execute(f"CREATE OR REPLACE TEMP TABLE rolled AS {minutes.ROWS}")
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


def _choose(batch: Batch, before: datetime) -> Iterator[str]:
    """Statements that make the temporary table `chosen`, as minutes.ROWS needs it."""
    named = ", ".join(map(literal, batch.run_ids))
    yield (
        "CREATE OR REPLACE TEMP TABLE old_groups AS SELECT DISTINCT g.*, "
        "r.end_state IN ('stopped', 'crashed', 'lost') AS ended, "
        "concat_ws('-', g.run_id, coalesce(dp_rank, -1), coalesce(engine_index, -1), "
        "coalesce(tp_rank, -1), coalesce(pp_rank, -1), coalesce(ep_rank, -1)) AS lane "
        f"FROM sample_groups g LEFT JOIN runs r USING (run_id) WHERE g.run_id IN ({named})"
    )
    old = " UNION ALL BY NAME ".join(
        f"SELECT '{kind}' AS kind, * FROM {table} "
        f"WHERE ts < '{before}' AND group_id IN (SELECT group_id FROM old_groups)"
        for kind, table in TABLES.items()
    )
    # A window is closed at its end: a stamp on a border belongs to the minute before, as in charts.
    # A sample that shares its second with the last one may still get another window, unless its
    # run is over: of others the last minute waits.
    yield (
        "CREATE OR REPLACE TEMP TABLE timed AS "
        "SELECT o.* EXCLUDE (extra) REPLACE (coalesce(i.interval_s, o.interval_s) AS interval_s), "
        'g.run_id, g.file_id, g.lane, g."window", '
        "date_trunc('minute', o.ts - INTERVAL 1 MICROSECOND) AS minute, "
        "CASE WHEN g.\"window\" = 'steady' THEN running_reqs END AS steady_reqs "
        f"FROM ({old}) o JOIN old_groups g USING (group_id) LEFT JOIN sample_intervals i "
        "ON i.run_id = g.run_id AND i.file_id = g.file_id AND i.byte_offset = o.byte_offset "
        "QUALIFY bool_or(g.ended) OVER (PARTITION BY lane, o.kind) "
        "OR minute < max(minute) OVER (PARTITION BY lane, o.kind)"
    )
    # vLLM's line on speculation goes with the stats line that it stands under.
    yield (
        "CREATE OR REPLACE TEMP TABLE chosen AS WITH stats AS ("
        "SELECT file_id, lane, byte_offset, minute, "
        f"min(byte_offset) OVER (PARTITION BY file_id, {', '.join(minutes.ALIKE)}) AS above "
        "FROM timed WHERE kind = 'stats') "
        "SELECT t.* REPLACE (coalesce(s.minute, t.minute) AS minute), s.above FROM timed t "
        "ASOF LEFT JOIN stats s ON s.file_id = t.file_id AND s.lane = t.lane "
        "AND s.byte_offset <= t.byte_offset AND t.kind = 'spec'"
    )
    yield "DROP TABLE timed"
    yield "DROP TABLE old_groups"


def _count(con: duckdb.DuckDBPyConnection, query: str) -> int:
    row = con.execute(query).fetchone()
    assert row is not None
    return int(row[0])
