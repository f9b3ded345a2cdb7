"""The course of runs at a glance: their throughput in a few equal pieces of their time."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import polars as pl

from data.asked import asked

PIECES = 24

# The tokens of a line count in the piece that it stands in.
_TOKENS = f"""
SELECT s.run_id,
    least(floor({PIECES} * epoch(s.ts - r.first_ts) / r.span_s), {PIECES - 1})::INTEGER AS piece,
    sum(s.gen_tok_s * s.interval_s) * {PIECES} / any_value(r.span_s) AS tok_s
FROM counted_timed s JOIN (
    SELECT run_id, first_ts, greatest(epoch(last_ts - first_ts), 1) AS span_s FROM run_summary
    WHERE list_contains($run_ids, run_id)
) r ON r.run_id = s.run_id
WHERE list_contains($run_ids, s.run_id) AND s.ts >= r.first_ts
GROUP BY s.run_id, piece
"""


def shapes(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> dict[str, list[float]]:
    """Generated tokens per second of each piece, PIECES of them, by run; none of a run without
    any."""
    rows = asked(con, _TOKENS, {"run_ids": list(run_ids)}).drop_nulls("tok_s")
    pieces = pl.DataFrame({"piece": range(PIECES)}, schema={"piece": pl.Int32})
    every = rows.select("run_id").unique().join(pieces, how="cross")
    whole = every.join(rows, on=["run_id", "piece"], how="left").sort("run_id", "piece")
    of_runs = whole.with_columns(pl.col("tok_s").fill_null(0.0)).group_by("run_id").agg("tok_s")
    return dict(of_runs.iter_rows())
