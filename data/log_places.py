"""Where in its log a moment stands, which moment a line tells of, and how bad lines are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A line that was read as a record."""

    file_id: str
    byte_offset: int  # bytes
    line_no: int  # from 1
    ts: datetime


_NEAR = """
WITH near AS (
    SELECT file_id, byte_offset, line_no, ts FROM samples
    WHERE run_id = $run_id AND ts BETWEEN $ts::TIMESTAMP - INTERVAL 10 MINUTE
        AND $ts::TIMESTAMP + INTERVAL 10 MINUTE
    UNION ALL
    SELECT file_id, byte_offset, line_no, ts FROM events
    WHERE run_id = $run_id AND ts BETWEEN $ts::TIMESTAMP - INTERVAL 10 MINUTE
        AND $ts::TIMESTAMP + INTERVAL 10 MINUTE
)
SELECT file_id, byte_offset, line_no, ts FROM near
WHERE line_no IS NOT NULL AND byte_offset IS NOT NULL
ORDER BY abs(epoch(ts) - epoch($ts::TIMESTAMP)), byte_offset LIMIT 1
"""
_BEFORE = """
SELECT max_by(ts, line_no) FROM (
    SELECT line_no, ts FROM samples
    WHERE run_id = $run_id AND file_id = $file_id AND line_no <= $line_no
    UNION ALL
    SELECT line_no, ts FROM events
    WHERE run_id = $run_id AND file_id = $file_id AND line_no <= $line_no
) WHERE ts IS NOT NULL
"""


def at_moment(con: duckdb.DuckDBPyConnection, run_id: str, ts: datetime) -> LogPlace | None:
    """The record of a run closest in time; None where none lies within ten minutes."""
    row = con.execute(_NEAR, {"run_id": run_id, "ts": ts}).fetchone()
    return None if row is None else LogPlace(*row)


def moment_of(
    con: duckdb.DuckDBPyConnection, run_id: str, file_id: str, line_no: int
) -> datetime | None:
    """The time of a line of the run's log: its own, or that of the record before it."""
    place = {"run_id": run_id, "file_id": file_id, "line_no": line_no}
    row = con.execute(_BEFORE, place).fetchone()
    return None if row is None else row[0]


def severities(
    con: duckdb.DuckDBPyConnection, file_id: str, first: int, last: int
) -> dict[int, str]:
    """The lines from `first` to `last` that were read as a fault or a warning, with which."""
    rows = con.execute(
        "SELECT line_no, CASE WHEN bool_or(severity = 'fault') THEN 'fault' ELSE 'warning' END "
        "FROM events WHERE file_id = $file_id AND severity IN ('fault', 'warning') "
        "AND line_no BETWEEN $first AND $last GROUP BY line_no",
        {"file_id": file_id, "first": first, "last": last},
    ).fetchall()
    return dict(rows)
