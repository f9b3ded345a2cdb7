"""The partial sums that every append adds, so that no list of runs ever scans samples.

They are computed over the frames of the append inside its own transaction, and merge by SUM, MIN
and MAX.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from parsers.records import is_constant, joined, says

_RANK = ("run_id", "dp_rank", "engine_index", "tp_rank", "pp_rank")
_NOTHING = pl.DataFrame()


def of_samples(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Rows of run_summary_parts for samples in parts: one for each rank of a part.

    The figures beside the samples, of kind `metrics`, describe the same windows again.
    """
    counted = [without_metrics(part) for part in parts]
    sums = [_summed(part) for part in counted if part.height]
    return joined(sums) if sums else _NOTHING


def without_metrics(part: pl.DataFrame) -> pl.DataFrame:
    """The samples but for the figures beside them."""
    beside = says(part["kind"], "metrics")
    return part.filter(~beside) if beside.any() else part


def _summed(part: pl.DataFrame) -> pl.DataFrame:
    """One row, or one a rank where the samples are of several."""
    if all(is_constant(part[name]) for name in _RANK):
        return part.select(*(pl.col(name).first() for name in _RANK), *_SUMS)
    return part.group_by(_RANK, maintain_order=True).agg(_SUMS)


def of_events(events: pl.DataFrame) -> pl.DataFrame:
    """Rows of run_summary_parts for events: faults and retractions of each run."""
    severities, kinds = events["severity"].to_list(), events["kind"].to_list()
    if "fault" not in severities and "retraction" not in kinds:
        return _NOTHING
    fault, retraction = pl.col("severity") == "fault", pl.col("kind") == "retraction"
    counted = events.filter(pl.col("run_id").is_not_null() & (fault | retraction))
    if not counted.height:
        return _NOTHING
    # An incident is named after the place of its first event, which alone counts.
    named = counted.select("run_id", "byte_offset", "incident_id").iter_rows()
    first = [off is not None and incident == f"{run}-{off:x}" for run, off, incident in named]
    counted = counted.with_columns(pl.Series("first", first, dtype=pl.Boolean))
    return counted.group_by("run_id", maintain_order=True).agg(
        (fault & pl.col("first")).sum().cast(pl.Int64).alias("n_faults"),
        pl.col("count").fill_null(1).filter(retraction).sum().cast(pl.Int64).alias("n_retractions"),
    )


def _sums() -> list[pl.Expr]:
    def n(kind: str) -> pl.Expr:
        return (pl.col("kind") == kind).sum().cast(pl.Int64).alias(f"n_{kind}")

    def total(values: pl.Expr) -> pl.Expr:
        """The sum, null where there is nothing to sum."""
        return pl.when(values.count() > 0).then(values.sum())

    seconds, length, rate = pl.col("interval_s"), pl.col("accept_len"), pl.col("gen_tok_s")
    steady = pl.col("window") == "steady"
    alone = steady & (pl.col("running_reqs") == 1)
    # SGLang prints the tokens of a prefill batch, vLLM a rate over its interval.
    prompt = (
        pl.when(pl.col("kind") == "prefill")
        .then(pl.col("new_tokens").cast(pl.Float64))
        .when(pl.col("kind") == "stats")
        .then(pl.col("prompt_tok_s") * seconds)
    )
    return [
        *map(n, ("decode", "prefill", "stats", "spec")),
        pl.col("ts").min().alias("first_ts"),
        pl.col("ts").max().alias("last_ts"),
        total(prompt).alias("prompt_tokens"),
        total(rate * seconds).alias("gen_tokens"),
        total((rate * seconds).filter(steady)).alias("steady_tokens"),
        total(seconds.filter(steady & rate.is_not_null())).alias("steady_s"),
        total((rate * seconds).filter(alone)).alias("at1_tokens"),
        total(seconds.filter(alone & rate.is_not_null())).alias("at1_s"),
        total(length * pl.col("request_steps")).alias("accept_weighted"),
        total(pl.col("request_steps").filter(length.is_not_null())).alias("accept_steps"),
        pl.col("running_reqs").max().alias("max_running"),
        pl.col("queued_reqs").max().alias("max_queued"),
        pl.col("kv_usage").max().alias("max_kv_usage"),
        rate.max().alias("max_gen_tok_s"),
    ]


_SUMS = _sums()

# A window that was corrected after its sample was stored adds the difference in tokens and
# seconds, where its line prints a rate: no other kind of line does. The bounds, written out, let
# DuckDB skip every file and row group that cannot hold the samples.
LATE_INTERVALS = """
INSERT INTO run_summary_parts BY NAME WITH late AS MATERIALIZED (SELECT {late})
SELECT s.run_id, dp_rank, engine_index, tp_rank, pp_rank,
    sum(CASE WHEN kind = 'stats' THEN prompt_tok_s * d END) AS prompt_tokens,
    sum(gen_tok_s * d) AS gen_tokens,
    sum(gen_tok_s * d) FILTER (WHERE steady) AS steady_tokens,
    sum(d) FILTER (WHERE steady AND gen_tok_s IS NOT NULL) AS steady_s,
    sum(gen_tok_s * d) FILTER (WHERE steady AND running_reqs = 1) AS at1_tokens,
    sum(d) FILTER (WHERE steady AND running_reqs = 1 AND gen_tok_s IS NOT NULL) AS at1_s
FROM (
    SELECT s.*, i.interval_s - coalesce(s.interval_s, 0) AS d, s."window" = 'steady' AS steady
    FROM late i
    JOIN (
        SELECT g.run_id, g.file_id, g.dp_rank, g.engine_index, g.tp_rank, g.pp_rank, g.kind,
            g."window", r.*
        FROM (
            SELECT group_id, byte_offset, running_reqs, gen_tok_s, NULL AS prompt_tok_s, interval_s
            FROM decode_rows WHERE {bounds}
            UNION ALL
            SELECT group_id, byte_offset, running_reqs, gen_tok_s, prompt_tok_s, interval_s
            FROM stats_rows WHERE {bounds}
        ) r
        JOIN (SELECT DISTINCT * FROM sample_groups) g USING (group_id)
    ) s USING (file_id, byte_offset)
) s
GROUP BY s.run_id, dp_rank, engine_index, tp_rank, pp_rank
"""
