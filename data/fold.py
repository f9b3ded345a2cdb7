"""Folds what later rows have superseded: ingest only appends, several times a second."""

from __future__ import annotations

import duckdb

EVERY_APPENDS = 20_000

_RANK = "run_id, dp_rank, engine_index, tp_rank, pp_rank"
_SUMS = (
    "n_decode", "n_prefill", "n_stats", "n_spec", "gen_tokens", "prompt_tokens",
    "steady_tokens", "steady_s", "at1_tokens", "at1_s", "accept_weighted", "accept_steps",
    "n_faults", "n_retractions",
)  # fmt: skip
_MAXIMA = ("last_ts", "max_running", "max_queued", "max_kv_usage", "max_gen_tok_s")
_FOLDED = ", ".join(
    ["min(first_ts) AS first_ts"]
    + [f"sum({name}) AS {name}" for name in _SUMS]
    + [f"max({name}) AS {name}" for name in _MAXIMA]
)
_STEPS = (
    "DELETE FROM checkpoints c WHERE seq < "
    "(SELECT max(seq) FROM checkpoints l WHERE l.file_id = c.file_id)",
    # Rows of samples and rows of events stay apart: only the former tell of ranks.
    f"CREATE TEMP TABLE folded AS SELECT {_RANK}, {_FOLDED} FROM run_summary_parts "
    f"GROUP BY {_RANK}, n_faults IS NULL",
    "DELETE FROM run_summary_parts",
    "INSERT INTO run_summary_parts BY NAME SELECT * FROM folded",
    "DROP TABLE folded",
)


def due(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether an earlier process left enough to fold."""
    row = con.execute("SELECT count(*) FROM checkpoints").fetchone()
    return row is not None and row[0] >= EVERY_APPENDS


def fold(con: duckdb.DuckDBPyConnection) -> bool:
    """Keep the latest checkpoint of each file and one row of sums for each rank of a run, inside a
    transaction of the caller's; nothing of it is new to a reader."""
    for step in _STEPS:
        con.execute(step)
    return False
