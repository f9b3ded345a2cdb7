"""The samples of a run that has too many of them to be held at once.

Those of a piece of time that are alike become one row, as `data.minutes` rolls old ones up: sums of
tokens and seconds, rates at exact running counts and weighted acceptance lengths come out as from
the samples themselves; a highest rate is that of a whole piece. The store is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import duckdb
import polars as pl

from data import minutes, rolling
from data.compact import COLUMNS, GROUP, SQL_TYPES, TABLES
from data.literal import literal
from parsers.records import SAMPLES

MOST = 1_000_000  # samples of a run that are held as they are: 1.3 GB with what is made of them
_ROWS = 1_000_000  # that are made of more, about
_ALIKE = 20  # rows of a lane and a piece, about: kinds, windows and running counts
_AT_ONCE = 400_000  # samples that are put together in one question


def piece_s(con: duckdb.DuckDBPyConnection, run_id: str) -> int | None:
    """Seconds of a piece; None for a run whose samples are held as they are."""
    row = con.execute(
        "SELECT sum(n_decode + n_prefill + n_stats + n_spec), min(first_ts), max(last_ts), "
        "count(DISTINCT (dp_rank, engine_index, tp_rank, pp_rank)) "
        "FROM run_summary_parts WHERE run_id = $run_id AND n_faults IS NULL",
        {"run_id": run_id},
    ).fetchone()
    if row is None or (row[0] or 0) <= MOST or row[1] is None:
        return None
    span_s: float = (row[2] - row[1]).total_seconds()
    return rolling.PIECE_S * (1 + int(span_s * row[3] * _ALIKE / _ROWS / rolling.PIECE_S))


def samples(con: duckdb.DuckDBPyConnection, run_id: str, seconds: int) -> pl.DataFrame:
    """A run's samples that were not rolled up yet, in pieces of this length: columns of
    parsers.records.SAMPLES but extra, in no order."""
    told = con.execute(
        "SELECT DISTINCT kind FROM sample_groups WHERE run_id = $run_id", {"run_id": run_id}
    ).fetchall()
    kinds = sorted(kind for (kind,) in told)
    parts = [_as_they_are(con, run_id)]
    for after, until in _spans(con, run_id, seconds):
        where = f"ts > '{after}' AND ts <= '{until}'"
        for statement in rolling.chosen([run_id], where, seconds, whole=True, kinds=kinds):
            con.execute(statement)
        parts.append(con.sql(_rolled(run_id, kinds)).pl())
        con.execute("DROP TABLE chosen")
    return pl.concat(parts, how="vertical")


def _spans(
    con: duckdb.DuckDBPyConnection, run_id: str, seconds: int
) -> Iterator[tuple[datetime, datetime]]:
    """Times of whole pieces with about _AT_ONCE samples each."""
    tables = " UNION ALL ".join(
        f"SELECT ts FROM {table} WHERE ts IS NOT NULL AND group_id IN ({_groups(run_id)})"
        for table in TABLES.values()
    )
    counts = con.execute(
        f"SELECT {rolling.piece(seconds)} AS piece, count(*) FROM ({tables}) "
        "GROUP BY piece ORDER BY piece"
    ).fetchall()
    length, sofar, begun = timedelta(seconds=seconds), 0, None
    for nth, (start, n) in enumerate(counts):
        begun, sofar = start if begun is None else begun, sofar + n
        if sofar >= _AT_ONCE or nth == len(counts) - 1:
            yield begun, start + length
            begun, sofar = None, 0


def _groups(run_id: str) -> str:
    return f"SELECT group_id FROM sample_groups WHERE run_id = {literal(run_id)}"


def _rolled(run_id: str, kinds: Sequence[str]) -> str:
    """The rows of `chosen`, put together, with the columns of samples."""
    columns = [
        f'g."{name}"' if name in GROUP and name != "interval_from"
        else minutes.column(name, SQL_TYPES.get(kind, "VARCHAR"))
        for name, kind in SAMPLES.items() if name != "extra"
    ]  # fmt: skip
    rows = minutes.rows(positions="spec" in kinds)
    return f"SELECT {', '.join(columns)} FROM ({rows}) r JOIN {_explained(run_id)}"


def _explained(run_id: str) -> str:
    return (
        f"(SELECT DISTINCT * FROM sample_groups WHERE run_id = {literal(run_id)}) g "
        "ON g.group_id = r.group_id"
    )


def _as_they_are(con: duckdb.DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    """The samples of a run that have no time: they are in no piece."""
    return con.sql(
        " UNION ALL ".join(
            f"SELECT {', '.join(_columns(kind))} FROM {table} r JOIN {_explained(run_id)} "
            "WHERE r.ts IS NULL"
            for kind, table in TABLES.items()
        )
    ).pl()


def _columns(kind: str) -> Iterator[str]:
    for name, dtype in SAMPLES.items():
        if name in GROUP:
            yield f'g."{name}"'
        elif name == "extra":
            continue
        elif name in COLUMNS[kind]:
            yield f'r."{name}"'
        else:
            yield f'NULL::{SQL_TYPES[dtype]} AS "{name}"'
