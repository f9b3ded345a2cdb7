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
_SEEN: Final = """
SELECT dp_rank, engine_index, coalesce(tp_rank, 0) AS tp, coalesce(pp_rank, 0) AS pp,
    n_faults IS NULL AS of_samples, min(first_ts) AS first_ts, max(last_ts) AS last_ts,
    coalesce(sum(n_faults), 0)::BIGINT AS n_faults
FROM run_summary_parts WHERE run_id = $run_id GROUP BY ALL
"""


class Changes(NamedTuple):
    """Counts and sums that differ after every append that stored something of a run."""

    parts: int
    samples: float | None
    tokens: float | None
    facts: int
    events: int
    notes: int
    windows: int  # of benchmark points


def changes(con: duckdb.DuckDBPyConnection, run_id: str) -> Changes:
    """What differs now."""
    row = con.execute(
        "SELECT count(*), sum(n_decode + n_prefill + n_stats + n_spec)::DOUBLE, sum(gen_tokens), "
        "(SELECT count(*) FROM run_facts WHERE run_id = $run_id), "
        "(SELECT count(*) FROM events WHERE run_id = $run_id), "
        "(SELECT count(*) FROM run_notes WHERE run_id = $run_id), "
        "(SELECT count(*) FROM bench_windows WHERE run_id = $run_id) "
        "FROM run_summary_parts WHERE run_id = $run_id",
        {"run_id": run_id},
    ).fetchone()
    assert row is not None
    return Changes(*row)


def told(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any] | None:
    """The run's row of the view `runs`, and ready_after_s; None if there is no such run."""
    rows = asked(con, _TOLD, {"run_id": run_id}).to_dicts()
    return rows[0] if rows else None


def card(con: duckdb.DuckDBPyConnection, known: Mapping[str, Any]) -> dict[str, Any]:
    """What was told of a run, with first_ts, last_ts, n_faults and duration_s as
    `data.queries.run_card` has them.

    Args:
        known: of `told`.
    """
    parts = asked(con, _SEEN, {"run_id": known["run_id"]})
    lane = ["dp_rank", "engine_index"]
    # Ranks that count, as in the view run_ranks.
    counted = (
        parts.filter("of_samples").sort("pp", "tp").unique(lane, keep="first", maintain_order=True)
    )
    seen = parts.join(counted, on=[*lane, "pp", "tp"], how="semi", nulls_equal=True)
    first_ts, last_ts = seen["first_ts"].min(), seen["last_ts"].max()
    start, end = known["started_at"] or first_ts, known["ended_at"] or last_ts
    return {
        **known, "first_ts": first_ts, "last_ts": last_ts, "n_faults": parts["n_faults"].sum(),
        "duration_s": _seconds(start, end),
    }  # fmt: skip


def _seconds(start: Any, end: Any) -> float | None:
    known = isinstance(start, datetime) and isinstance(end, datetime)
    return (end - start).total_seconds() if known else None
