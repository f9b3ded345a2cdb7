"""The partial sums that every append adds, so that no list of runs ever scans samples.

They are computed in SQL over the frames of the append (registered as new_samples, new_events
and new_intervals) inside its own transaction, and merge by SUM, MIN and MAX.
"""

from __future__ import annotations

from data import compact

# Tokens of the windows whose length is known, at the time of the append or later.
_WINDOW_SUMS = """
    sum(gen_tok_s * {s}) AS gen_tokens,
    sum(gen_tok_s * {s}) FILTER (WHERE {steady}) AS steady_tokens,
    sum({s}) FILTER (WHERE {steady} AND gen_tok_s IS NOT NULL) AS steady_s,
    sum(gen_tok_s * {s}) FILTER (WHERE {steady} AND running_reqs = 1) AS at1_tokens,
    sum({s}) FILTER (WHERE {steady} AND running_reqs = 1 AND gen_tok_s IS NOT NULL) AS at1_s
"""
_DECODE, _PREFILL, _STATS, _SPEC, _METRICS = (
    f"kind = {compact.code('kind', kind)}"
    for kind in ("decode", "prefill", "stats", "spec", "metrics")
)
_STEADY = f"s.window = {compact.code('window', 'steady')}"
_STEADY_TEXT = "s.window = 'steady'"

# Over the numbers that the store keeps, not the texts they stand for: a third of the cost.
SAMPLES = f"""
INSERT INTO run_summary_parts BY NAME
SELECT p.run_id, s.* EXCLUDE (place)
FROM (
    SELECT place, dp_rank, engine_index, tp_rank, pp_rank,
        count(*) FILTER (WHERE {_DECODE}) AS n_decode,
        count(*) FILTER (WHERE {_PREFILL}) AS n_prefill,
        count(*) FILTER (WHERE {_STATS}) AS n_stats,
        count(*) FILTER (WHERE {_SPEC}) AS n_spec,
        min(ts) AS first_ts,
        max(ts) AS last_ts,
        -- SGLang prints the tokens of a prefill batch, vLLM a rate over its interval.
        sum(CASE WHEN {_PREFILL} THEN new_tokens
            WHEN {_STATS} THEN prompt_tok_s * interval_s END) AS prompt_tokens,
        sum(accept_len * request_steps) AS accept_weighted,
        sum(request_steps) FILTER (WHERE accept_len IS NOT NULL) AS accept_steps,
        max(running_reqs) AS max_running,
        max(queued_reqs) AS max_queued,
        max(kv_usage) AS max_kv_usage,
        max(gen_tok_s) AS max_gen_tok_s,
        {_WINDOW_SUMS.format(s="interval_s", steady=_STEADY)}
    FROM new_samples s
    WHERE NOT {_METRICS}
    GROUP BY place, dp_rank, engine_index, tp_rank, pp_rank
) s
JOIN {compact.DISTINCT_PLACES} p ON p.place = s.place
"""

# A window that was corrected after its sample was stored adds the difference in tokens and
# seconds. The bounds let DuckDB skip every row group that cannot hold the samples.
LATE_INTERVALS = f"""
INSERT INTO run_summary_parts BY NAME
SELECT s.run_id, dp_rank, engine_index, tp_rank, pp_rank,
    sum(CASE WHEN kind = 'stats' THEN prompt_tok_s * d END) AS prompt_tokens,
    {_WINDOW_SUMS.format(s="d", steady=_STEADY_TEXT)}
FROM (
    SELECT s.*, i.interval_s - coalesce(s.interval_s, 0) AS d
    FROM new_intervals i
    JOIN samples s USING (file_id, byte_offset)
    WHERE s.byte_offset >= (SELECT min(byte_offset) FROM new_intervals)
        AND s.byte_offset <= (SELECT max(byte_offset) FROM new_intervals)
) s
GROUP BY s.run_id, dp_rank, engine_index, tp_rank, pp_rank
"""

EVENTS = """
INSERT INTO run_summary_parts BY NAME
SELECT run_id,
    -- An incident is named after the place of its first event, which alone counts.
    count(*) FILTER (WHERE severity = 'fault'
        AND incident_id = run_id || '-' || printf('%x', byte_offset)) AS n_faults,
    coalesce(sum(coalesce(count, 1)) FILTER (WHERE kind = 'retraction'), 0) AS n_retractions
FROM new_events
WHERE run_id IS NOT NULL AND (severity = 'fault' OR kind = 'retraction')
GROUP BY run_id
"""
