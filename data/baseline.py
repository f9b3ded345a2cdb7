"""What a run is held against: one without speculation, or the one that the user has marked."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import duckdb

from data import queries, run_data, speculation
from data.run_data import RunData

_TRIED = 10
_PAIRED = 6


def find_base(con: duckdb.DuckDBPyConnection, run: RunData) -> RunData | None:
    """The comparable run without speculation that started closest in time; None without any."""
    if not run.speculates:
        return None
    for run_id in queries.base_candidates(con, str(run.card["run_id"]), _TRIED):
        # Samples are read only of a run whose settings fit.
        told = run_data.without_samples(con, run_id)
        if told.card["dp"] is not None and speculation.not_comparable(run, told):
            continue
        base = run_data.load(con, run_id)
        if base.steady.height and not speculation.not_comparable(run, base):
            return base
    return None


_STEADY = """
SELECT running_reqs, sum(gen_tok_s * interval_s) / sum(interval_s)
FROM counted_timed
WHERE run_id = $run_id AND "window" = 'steady' AND gen_tok_s IS NOT NULL AND interval_s > 0
    AND running_reqs > 0
GROUP BY running_reqs
"""


def steady_rates(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[int, float]:
    """Tokens per second of one rank, Σ tokens / Σ seconds of steady windows, by running requests
    of that rank."""
    return dict(con.execute(_STEADY, {"run_id": run_id}).fetchall())


_WITH_STEADY = f"""
SELECT run_id, model FROM runs
WHERE run_id IN (SELECT run_id FROM run_summary_parts WHERE steady_s > 0)
ORDER BY started_at DESC NULLS LAST, run_id LIMIT {_PAIRED}
"""


def comparable_pair(con: duckdb.DuckDBPyConnection) -> tuple[str, str] | None:
    """Of the newest runs the two, the older first, that serve one model and have held some number
    of requests steady, both the same; None where there are no such two."""

    @cache
    def counts(run_id: str) -> frozenset[int]:
        return frozenset(steady_rates(con, run_id))

    newest = con.execute(_WITH_STEADY).fetchall()
    for (run, model), (base, its_model) in combinations(newest, 2):
        if model == its_model and counts(run) & counts(base):
            return base, run
    return None
