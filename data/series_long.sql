-- The curves of data/curves.py for many samples: each is in one bucket, or parted where it crosses a
-- border, and no sample looks at its neighbours. So where windows that were computed from steps
-- are longer than the time between their stamps, one can lie a second off at a border; all else
-- is the same. Parameters as there.
WITH counted AS (
    SELECT s.kind, s.rank,
        epoch(s.ts) - epoch($start::TIMESTAMP) AS b,
        CASE WHEN coalesce(s."window", '') NOT IN ('after_idle', 'startup') AND s.interval_s > 0
            THEN s.interval_s END AS seconds,
        greatest(0, ceil(b / $width - 1e-9) - 1)::INTEGER AS own,
        CASE WHEN seconds IS NULL THEN own
            ELSE greatest(0, floor((b - seconds) / $width)) END::INTEGER AS first_bucket,
        CASE WHEN seconds IS NOT NULL THEN s.gen_tok_s END AS gen_tok_s,
        CASE WHEN seconds IS NOT NULL THEN s.gen_tok_s_min END AS low,
        CASE WHEN seconds IS NOT NULL THEN s.gen_tok_s_max END AS high,
        coalesce(s.prompt_tok_s * s.interval_s,
            CASE WHEN s.kind = 'prefill' THEN s.new_tokens END) AS prompt_tokens,
        s.running_reqs, s.queued_reqs, s.kv_usage, s.accept_len,
        CASE WHEN s.accept_len IS NOT NULL THEN s.request_steps END AS request_steps,
        -- Milliseconds, and the line of those that share one.
        ((epoch_ms(s.ts) - epoch_ms($start::TIMESTAMP)) << 26) + (s.line_no & 67108863) AS nth
    FROM counted_timed s
    WHERE s.run_id = $run_id AND s.ts >= $start AND s.ts <= $end::TIMESTAMP + INTERVAL 2 MINUTE
), pieces AS (
    SELECT rank, own AS bucket, CASE WHEN seconds IS NOT NULL THEN b - greatest(b - seconds, own * $width) END AS overlap,
        coalesce(overlap / seconds, 1) AS share,
        gen_tok_s, low, high, prompt_tokens, accept_len, request_steps
    FROM counted WHERE first_bucket >= own
    UNION ALL
    SELECT rank, unnest(range(first_bucket, least($buckets, own + 1))) AS bucket,
        least(b, (bucket + 1) * $width) - greatest(b - seconds, bucket * $width) AS overlap,
        overlap / seconds AS share,
        gen_tok_s, low, high, prompt_tokens, accept_len, request_steps
    FROM counted WHERE first_bucket < own
), rates_of_ranks AS (
    SELECT bucket, rank,
        sum(gen_tok_s * overlap) / sum(overlap) FILTER (WHERE gen_tok_s IS NOT NULL) AS gen_tok_s,
        min(low) AS gen_tok_s_min,
        max(high) AS gen_tok_s_max,
        sum(prompt_tokens * share) AS prompt_tokens,
        sum(accept_len * request_steps * share) AS accept_weighted,
        sum(request_steps * share) AS accept_steps
    FROM pieces
    WHERE bucket < $buckets AND (overlap IS NULL OR overlap > 1e-6)
    GROUP BY bucket, rank
), last_gauges AS (
    SELECT own, rank, kind = 'prefill' AS prefill, max(nth) AS nth,
        arg_max(running_reqs, nth) AS running_reqs,
        arg_max(queued_reqs, nth) AS queued_reqs,
        max(kv_usage) AS kv_peak,
        arg_max(kv_usage, nth) AS kv_usage,
        max(b) AS last_at,
        arg_max(b, kv_usage) AS peak_at
    FROM counted
    WHERE running_reqs IS NOT NULL OR queued_reqs IS NOT NULL OR kv_usage IS NOT NULL
    GROUP BY own, rank, prefill
), pace AS (
    SELECT rank, 3 * greatest(1, coalesce(median(seconds)
            FILTER (WHERE gen_tok_s IS NOT NULL), 10)) AS idle_after_s
    FROM counted
    GROUP BY rank
), held AS (
    SELECT g.*, least(
        lead(own) OVER (PARTITION BY g.rank, prefill ORDER BY own),
        ceil(least(last_at + idle_after_s, max(last_at) OVER ()) / $width), $buckets
    )::INTEGER AS until
    FROM last_gauges g JOIN pace USING (rank)
), standing AS (
    SELECT *, unnest(range(own, greatest(own + 1, until))) AS bucket
    FROM held
), gauges_of_ranks AS (
    SELECT bucket, rank,
        -- SGLang's prefill lines count the running requests before their own batch.
        coalesce(arg_max(running_reqs, nth) FILTER (WHERE NOT prefill),
            arg_max(running_reqs, nth)) AS running_reqs,
        arg_max(queued_reqs, nth) AS queued_reqs,
        coalesce(max(kv_peak) FILTER (WHERE bucket = own), arg_max(kv_usage, nth)) AS kv_usage,
        max(last_at) FILTER (WHERE bucket = own) AS last_at,
        arg_max(peak_at, kv_peak) FILTER (WHERE bucket = own) AS kv_at
    FROM standing
    WHERE bucket < $buckets
    GROUP BY bucket, rank
), gauges AS (
    SELECT bucket,
        sum(running_reqs)::BIGINT AS running_reqs,
        sum(queued_reqs)::BIGINT AS queued_reqs,
        max(kv_usage) AS kv_usage,
        max(last_at) AS last_at,
        arg_max_null(kv_at, kv_usage) AS kv_at
    FROM gauges_of_ranks
    GROUP BY bucket
), ends AS (
    SELECT min(b - coalesce(seconds, 0)) AS data_start, max(b) AS data_end FROM counted
), rates AS (
    SELECT bucket,
        sum(gen_tok_s) AS gen_tok_s,
        sum(gen_tok_s_min) AS gen_tok_s_min,
        sum(gen_tok_s_max) AS gen_tok_s_max,
        sum(prompt_tokens) / nullif(least((bucket + 1) * $width, any_value(data_end))
            - greatest(bucket * $width, any_value(data_start)), 0) AS prompt_tok_s,
        sum(accept_weighted) / nullif(sum(accept_steps), 0) AS accept_len
    FROM rates_of_ranks, ends
    GROUP BY bucket
)
SELECT $start::TIMESTAMP + to_microseconds((bucket * $width * 1e6)::BIGINT) AS ts,
    bucket::BIGINT AS bucket,
    gen_tok_s, prompt_tok_s, gen_tok_s_min, gen_tok_s_max, running_reqs, queued_reqs,
    $start::TIMESTAMP
        + to_microseconds((coalesce(last_at, bucket * $width) * 1e6)::BIGINT) AS gauges_at,
    kv_usage,
    $start::TIMESTAMP + to_microseconds((coalesce(kv_at, bucket * $width) * 1e6)::BIGINT) AS kv_at,
    accept_len
FROM rates FULL JOIN gauges USING (bucket)
ORDER BY bucket
