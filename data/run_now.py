"""What a page that asks each second needs of one run's card, at a fraction of its cost.

Planning the views `runs` and `run_summary` takes ten times as long as reading their rows. What the
log told of a run's settings hardly ever changes, so it is read once for each change of that; when
it was last seen and its faults are summed here as the view does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import duckdb

from data.asked import asked

_TOLD: Final = (
    "SELECT *, epoch(ready_at) - epoch(started_at) AS ready_after_s FROM runs "
    "WHERE run_id = $run_id"
)
_CHANGES: Final = """
SELECT dp_rank, engine_index, coalesce(pp_rank, 0) AS pp, coalesce(tp_rank, 0) AS tp,
    n_faults IS NULL AS of_samples, count(*),
    sum(n_decode + n_prefill + n_stats + n_spec)::DOUBLE, sum(gen_tokens),
    min(first_ts), max(last_ts), coalesce(sum(n_faults), 0)::BIGINT
FROM run_summary_parts WHERE run_id = $run_id GROUP BY ALL
"""
_COUNTS: Final = """
SELECT (SELECT count(*) FROM run_facts WHERE run_id = $run_id),
    (SELECT count(*) FROM events WHERE run_id = $run_id),
    (SELECT count(*) FROM run_notes WHERE run_id = $run_id),
    (SELECT count(*) FROM bench_windows WHERE run_id = $run_id)
"""


class Changes(NamedTuple):
    """Counts and sums that differ after every append that stored something of a run."""

    facts: int
    events: int
    notes: int
    windows: int  # of benchmark points
    parts: int
    samples: float  # of all ranks, as all below
    tokens: float
    n_faults: int
    first_ts: datetime | None  # of the ranks that count, as below
    last_ts: datetime | None


def changes(con: duckdb.DuckDBPyConnection, run_id: str) -> Changes:
    """What differs now."""
    counts = con.execute(_COUNTS, {"run_id": run_id}).fetchone()
    ranks = con.execute(_CHANGES, {"run_id": run_id}).fetchall()
    assert counts is not None
    facts, events, notes, windows = counts
    parts, samples, tokens, faults = (sum(rank[at] or 0 for rank in ranks) for at in (5, 6, 7, 10))
    # Ranks that count, as in the view run_ranks.
    lowest: dict[Any, Any] = {}
    for *lane, pp, tp, of_samples in (rank[:5] for rank in ranks):
        if of_samples:
            place = tuple(lane)
            lowest[place] = min(lowest.get(place, (pp, tp)), (pp, tp))
    counted = [rank for rank in ranks if lowest.get(rank[:2]) == rank[2:4]]
    firsts = [rank[8] for rank in counted if rank[8] is not None]
    lasts = [rank[9] for rank in counted if rank[9] is not None]
    return Changes(
        facts, events, notes, windows, parts, samples, tokens, faults,
        min(firsts, default=None), max(lasts, default=None),
    )  # fmt: skip


def told(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any] | None:
    """The run's row of the view `runs`, and ready_after_s; None if there is no such run."""
    rows = asked(con, _TOLD, {"run_id": run_id}).to_dicts()
    return rows[0] if rows else None


def card(known: Mapping[str, Any], now: Changes) -> dict[str, Any]:
    """What was told of a run, with first_ts, last_ts, n_faults and duration_s as
    `data.queries.run_card` has them.

    Args:
        known: of `told`.
    """
    start, end = known["started_at"] or now.first_ts, known["ended_at"] or now.last_ts
    lasted = None if start is None or end is None else (end - start).total_seconds()
    seen = {"first_ts": now.first_ts, "last_ts": now.last_ts, "n_faults": now.n_faults}
    return {**known, **seen, "duration_s": lasted}
