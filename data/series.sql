-- A run's curves in buckets of $width seconds from $start on. Parameters: run_id, start, end,
-- width, buckets.
WITH counted AS (
    SELECT s.kind, coalesce(s.dp_rank, s.engine_index, 0) AS rank,
        row_number() OVER (ORDER BY s.ts, s.byte_offset) AS nth,
        epoch(s.ts) - epoch($start::TIMESTAMP) AS b,
        -- A window after idleness averages over the idle time, one of the start-up over the
        -- loading: it stands for its moment only.
        CASE WHEN coalesce(s."window", '') NOT IN ('after_idle', 'startup') AND s.interval_s > 0
            THEN s.interval_s END AS seconds,
        CASE WHEN coalesce(s."window", '') NOT IN ('after_idle', 'startup')
            THEN s.gen_tok_s END AS gen_tok_s,
        coalesce(s.prompt_tok_s * s.interval_s,
            CASE WHEN s.kind = 'prefill' THEN s.new_tokens END) AS prompt_tokens,
        s.running_reqs, s.queued_reqs, s.kv_usage, s.accept_len,
        CASE WHEN s.accept_len IS NOT NULL THEN s.request_steps END AS request_steps
    FROM samples_timed s
    JOIN run_ranks r
        ON r.run_id = s.run_id
        AND r.dp_rank IS NOT DISTINCT FROM s.dp_rank
        AND r.engine_index IS NOT DISTINCT FROM s.engine_index
        AND r.tp = coalesce(s.tp_rank, 0) AND r.pp = coalesce(s.pp_rank, 0)
    -- Windows that begin before the end may be stamped after it.
    WHERE s.run_id = $run_id AND s.ts >= $start AND s.ts <= $end::TIMESTAMP + INTERVAL 2 MINUTE
), windows AS (
    SELECT *, b - coalesce(seconds, 0) AS a,
        -- Windows are closed at their end, so a moment on a border is in the bucket before it.
        greatest(0, CASE WHEN seconds IS NULL THEN ceil(b / $width) - 1
            ELSE floor((b - seconds) / $width) END)::BIGINT AS first_bucket,
        min(b - seconds) OVER () AS data_start,
        max(b) FILTER (WHERE seconds IS NOT NULL) OVER () AS data_end
    FROM counted
), spread AS (
    SELECT *, unnest(range(
        first_bucket,
        least($buckets, greatest(first_bucket + 1, ceil(b / $width)))::BIGINT
    )) AS bucket
    FROM windows
), shared AS (
    SELECT *, least(b, (bucket + 1) * $width) - greatest(a, bucket * $width) AS overlap,
        CASE WHEN seconds IS NULL THEN 1 ELSE
            (least(b, (bucket + 1) * $width) - greatest(a, bucket * $width)) / seconds
        END AS share
    FROM spread
), per_rank AS (
    SELECT bucket, rank,
        sum(gen_tok_s * overlap) FILTER (WHERE seconds IS NOT NULL) AS gen_tokens,
        sum(prompt_tokens * share) AS prompt_tokens,
        min(gen_tok_s) AS gen_tok_s_min,
        max(gen_tok_s) AS gen_tok_s_max,
        -- SGLang's prefill lines count the running requests before their own batch.
        coalesce(arg_max(running_reqs, nth) FILTER (WHERE kind <> 'prefill'),
            arg_max(running_reqs, nth)) AS running_reqs,
        arg_max(queued_reqs, nth) AS queued_reqs,
        arg_max(kv_usage, nth) AS kv_usage,
        sum(accept_len * request_steps * share) AS accept_weighted,
        sum(request_steps * share) AS accept_steps,
        any_value(data_start) AS data_start,
        any_value(data_end) AS data_end
    FROM shared
    GROUP BY bucket, rank
), per_bucket AS (
    SELECT bucket,
        -- The first and the last bucket are as long as there is data in them.
        least((bucket + 1) * $width, any_value(data_end))
            - greatest(bucket * $width, any_value(data_start)) AS seconds,
        sum(gen_tokens) AS gen_tokens,
        sum(prompt_tokens) AS prompt_tokens,
        sum(gen_tok_s_min) AS gen_tok_s_min,
        sum(gen_tok_s_max) AS gen_tok_s_max,
        sum(running_reqs)::BIGINT AS running_reqs,
        sum(queued_reqs)::BIGINT AS queued_reqs,
        max(kv_usage) AS kv_usage,
        sum(accept_weighted) / nullif(sum(accept_steps), 0) AS accept_len
    FROM per_rank
    GROUP BY bucket
)
SELECT $start::TIMESTAMP + to_microseconds((bucket * $width * 1e6)::BIGINT) AS ts,
    bucket - row_number() OVER (ORDER BY bucket) AS segment,
    CASE WHEN seconds > 1e-6 THEN gen_tokens / seconds END AS gen_tok_s,
    CASE WHEN seconds > 1e-6 THEN prompt_tokens / seconds END AS prompt_tok_s,
    gen_tok_s_min, gen_tok_s_max, running_reqs, queued_reqs, kv_usage, accept_len
FROM per_bucket
ORDER BY bucket
