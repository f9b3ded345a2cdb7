"""Which samples are put together to a row: of one lane, alike, and of one piece of time.

`data.minutes` says what becomes of them. What is rolled up already, or has no time, stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from data import minutes
from data.compact import TABLES
from data.literal import literal

PIECE_S = 60


def piece(seconds: int, ts: str = "ts") -> str:
    """The piece of time that a stamp is in. A window is closed at its end: a stamp on a border
    belongs to the piece before, as in charts."""
    return f"time_bucket(INTERVAL {seconds} SECOND, {ts} - INTERVAL 1 MICROSECOND)"


def chosen(
    run_ids: Sequence[str],
    where: str,
    seconds: int = PIECE_S,
    *,
    whole: bool = False,
    kinds: Collection[str] = TABLES,
) -> Iterator[str]:
    """Statements that make the temporary table `chosen`, as minutes.rows needs it.

    Args:
        where: a condition on ts.
        seconds: the length of a piece.
        whole: the last piece of a run that has not ended too, whose samples may still get another
            window.
        kinds: those that the runs have.
    """
    named = ", ".join(map(literal, run_ids))
    yield (
        "CREATE OR REPLACE TEMP TABLE old_groups AS SELECT DISTINCT g.*, "
        "r.end_state IN ('stopped', 'crashed', 'lost') AS ended, "
        "concat_ws('-', g.run_id, coalesce(dp_rank, -1), coalesce(engine_index, -1), "
        "coalesce(tp_rank, -1), coalesce(pp_rank, -1), coalesce(ep_rank, -1)) AS lane "
        f"FROM sample_groups g LEFT JOIN runs r USING (run_id) WHERE g.run_id IN ({named})"
    )
    old = " UNION ALL BY NAME ".join(
        f"SELECT '{kind}' AS kind, * FROM {TABLES[kind]} "
        f"WHERE {where} AND group_id IN (SELECT group_id FROM old_groups)"
        for kind in TABLES
    )
    waits = (
        "QUALIFY bool_or(g.ended) OVER (PARTITION BY lane, o.kind) "
        "OR minute < max(minute) OVER (PARTITION BY lane, o.kind)"
    )
    # A sample that shares its second with the last one may still get another window, unless its
    # run is over: of others the last piece waits.
    yield (
        "CREATE OR REPLACE TEMP TABLE timed AS "
        "SELECT o.* EXCLUDE (extra) REPLACE (coalesce(i.interval_s, o.interval_s) AS interval_s), "
        'g.run_id, g.file_id, g.lane, g."window", '
        f"{piece(seconds, 'o.ts')} AS minute, "
        "CASE WHEN g.\"window\" = 'steady' THEN running_reqs END AS steady_reqs "
        f"FROM ({old}) o JOIN old_groups g USING (group_id) LEFT JOIN sample_intervals i "
        "ON i.run_id = g.run_id AND i.file_id = g.file_id AND i.byte_offset = o.byte_offset "
        + ("" if whole else waits)
    )
    placed = _UNDER_STATS if "spec" in kinds else "SELECT *, NULL::BIGINT AS above FROM timed"
    yield f"CREATE OR REPLACE TEMP TABLE chosen AS {placed}"
    yield "DROP TABLE timed"
    yield "DROP TABLE old_groups"


# vLLM's line on speculation goes with the stats line that it stands under.
_UNDER_STATS = (
    "WITH stats AS (SELECT file_id, lane, byte_offset, minute, "
    f"min(byte_offset) OVER (PARTITION BY file_id, {', '.join(minutes.ALIKE)}) AS above "
    "FROM timed WHERE kind = 'stats') "
    "SELECT t.* REPLACE (coalesce(s.minute, t.minute) AS minute), s.above FROM timed t "
    "ASOF LEFT JOIN stats s ON s.file_id = t.file_id AND s.lane = t.lane "
    "AND s.byte_offset <= t.byte_offset AND t.kind = 'spec'"
)
