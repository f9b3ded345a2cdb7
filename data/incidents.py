"""What went wrong in all runs, folded by cause, and what only looked like it."""

from __future__ import annotations

from typing import Final

import duckdb
import polars as pl

from data.asked import asked

# What a fault or a warning is about, from the words of its line: the lane it stands in.
_LANES: Final = """CASE
    WHEN class <> 'fault' THEN class
    WHEN regexp_matches(said, '(?i)out of (kv )?memory|OutOfMemory') THEN 'out_of_memory'
    WHEN regexp_matches(said, '(?i)nccl|collective|DistBackend|gloo') THEN 'communication'
    WHEN regexp_matches(said, '(?i)cuda|xid|accelerator|illegal memory|inductor') THEN 'gpu'
    WHEN regexp_matches(
        said, '(?i)engine (core|dead|process)|enginedead|killed|segmentation|aborted|python died'
    ) THEN 'process'
    ELSE 'fault'
END"""
# The lines of a file that could not be read, in the run whose event stands before them.
_UNREAD: Final = ("damaged", "unknown", "too_long", "truncated")
_INCIDENTS: Final = f"""
WITH found AS (
    SELECT incident_id, run_id, class, severity, title, detail, evidence, frame, rank,
        source_id, file_id, byte_offset, line_no, first_ts, last_ts, "count"
    FROM incidents WHERE severity <> 'info'
    UNION ALL BY NAME
    SELECT concat_ws('-', run_id, kind, byte_offset) AS incident_id, run_id, kind AS class,
        severity, title, detail, evidence, source_id, file_id, byte_offset, line_no,
        ts AS first_ts, ts AS last_ts, "count"::BIGINT AS "count"
    FROM events WHERE incident_id IS NULL AND severity <> 'info'
    UNION ALL BY NAME
    SELECT concat_ws('-', l.file_id, l.kind, l.byte_offset) AS incident_id, e.run_id,
        'unread' AS class, 'warning' AS severity, l.kind AS title, l.detail, l.shape AS evidence,
        l.source_id, l.file_id, l.byte_offset, coalesce(l.n, 1) AS "count"
    FROM ingest_log l ASOF LEFT JOIN events e
        ON e.file_id = l.file_id AND e.byte_offset <= l.byte_offset
    WHERE l.kind IN {_UNREAD}
), laned AS (
    SELECT *, {_LANES} AS lane FROM (SELECT *, concat_ws(' ', title, detail) AS said FROM found)
)
SELECT f.incident_id, f.run_id, f.lane, f.severity, f.first_ts, f.last_ts, f."count", f.title,
    f.detail, f.evidence, f.frame, f.rank, f.source_id, f.line_no, f.byte_offset,
    r.end_state
FROM laned f LEFT JOIN runs r ON r.run_id = f.run_id
ORDER BY f.first_ts DESC NULLS LAST, f.source_id, f.byte_offset DESC
"""
_HARMLESS: Final = """
SELECT e.run_id, e.kind, e.title, min(e.ts) AS first_ts, max(e.ts) AS last_ts,
    sum(coalesce(e."count", 1))::BIGINT AS "count",
    arg_min(e.evidence, e.byte_offset) AS evidence,
    arg_min(e.source_id, e.byte_offset) AS source_id,
    arg_min(e.line_no, e.byte_offset) AS line_no,
    min(e.byte_offset) AS byte_offset
FROM events e
WHERE e.severity = 'info' AND e.kind IN ('harmless', 'traceback', 'client_error', 'after_stop')
GROUP BY e.run_id, e.file_id, e.kind, e.title
ORDER BY first_ts DESC NULLS LAST, source_id, byte_offset DESC
"""


def incidents(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Faults and warnings, one row a cause, newest first.

    Columns: incident_id, run_id (null where the lines belong to no run), lane, severity,
    first_ts, last_ts (null where the log has no clock), count (of lines), title, detail,
    evidence (the quoted line of the root), frame, rank, source_id, line_no, byte_offset; and of
    the run label, engine, engine_version, started_at, end_state.
    """
    return asked(con, _INCIDENTS)


def harmless(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """What looks like a fault and is none, one row a run, kind and title, newest first.

    Columns: run_id, kind (`harmless`, `traceback`, `client_error`, `after_stop`: why), title,
    first_ts, last_ts, count, evidence, source_id, line_no, byte_offset; and of the run label,
    engine, engine_version, started_at.
    """
    return asked(con, _HARMLESS)
