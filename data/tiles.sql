-- The latest state of every counted rank of a run: one row a rank. Parameter: run_id.
WITH newest AS (
    SELECT last_ts FROM run_summary WHERE run_id = $run_id
), recent AS (
    SELECT s.*, coalesce(s.dp_rank, s.engine_index, 0) AS rank,
        coalesce(s."window", '') IN ('after_idle', 'startup') AS waited,
        row_number() OVER (ORDER BY s.ts, s.byte_offset) AS nth
    FROM samples_timed s
    JOIN run_ranks r
        ON r.run_id = s.run_id
        AND r.dp_rank IS NOT DISTINCT FROM s.dp_rank
        AND r.engine_index IS NOT DISTINCT FROM s.engine_index
        AND r.tp = coalesce(s.tp_rank, 0) AND r.pp = coalesce(s.pp_rank, 0)
    WHERE s.run_id = $run_id AND s.kind <> 'metrics'
        AND s.ts >= (SELECT last_ts FROM newest) - INTERVAL 10 MINUTE
)
SELECT rank,
    max(ts) AS last_ts,
    -- Idle: three of its median windows without a line (whole-second stamps: at least 3 s).
    3 * greatest(1, coalesce(median(interval_s) FILTER (
        WHERE NOT waited AND gen_tok_s IS NOT NULL), 10))
        AS idle_after_s,
    epoch((SELECT last_ts FROM newest)) - epoch(max(ts)) > idle_after_s AS idle,
    -- A rate that averages over idleness or loading is no rate of now.
    arg_max_null(CASE WHEN waited THEN NULL ELSE gen_tok_s END, nth)
        FILTER (WHERE gen_tok_s IS NOT NULL) AS gen_tok_s,
    coalesce(arg_max(running_reqs, nth) FILTER (WHERE kind <> 'prefill'),
        arg_max(running_reqs, nth)) AS running_reqs,
    arg_max(queued_reqs, nth) AS queued_reqs,
    arg_max(kv_usage, nth) AS kv_usage,
    arg_max(accept_len, nth) AS accept_len,
    arg_max(draft_accept_rate, nth) FILTER (WHERE accept_len IS NOT NULL) AS draft_accept_rate,
    arg_max(request_steps, nth) FILTER (WHERE accept_len IS NOT NULL) AS request_steps
FROM recent
GROUP BY rank
ORDER BY rank
