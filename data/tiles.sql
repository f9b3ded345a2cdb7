-- The latest state of every counted rank of a run: one row a rank. Parameters: run_id, and
-- last_ts, the run's last stamp (a constant: so only the last rows are read).
WITH recent AS (
    SELECT s.*,
        coalesce(s."window", '') IN ('after_idle', 'startup') AS waited,
        row_number() OVER (ORDER BY s.ts, s.byte_offset) AS nth
    FROM counted_timed s
    WHERE s.run_id = $run_id AND s.kind <> 'metrics'
        AND s.ts >= $last_ts::TIMESTAMP - INTERVAL 10 MINUTE
)
SELECT rank,
    max(ts) AS last_ts,
    -- Idle: three of its median windows without a line (whole-second stamps: at least 3 s).
    3 * greatest(1, coalesce(median(interval_s) FILTER (
        WHERE NOT waited AND gen_tok_s IS NOT NULL), 10))
        AS idle_after_s,
    epoch($last_ts::TIMESTAMP) - epoch(max(ts)) > idle_after_s AS idle,
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
