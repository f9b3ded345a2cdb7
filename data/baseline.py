"""The run without speculation that a speculative one is held against."""

from __future__ import annotations

import duckdb

from data import queries, run_data, speculation
from data.run_data import RunData

_TRIED = 10


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
