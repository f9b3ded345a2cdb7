-- A run's curves in buckets of $width seconds from $start on. Parameters: run_id, start, end,
-- width, buckets. Rates are spread over their windows; gauges stand at their stamps.
WITH counted AS (
    SELECT s.kind, s.rank,
        row_number() OVER (ORDER BY s.ts, s.byte_offset) AS nth,
        epoch(s.ts) - epoch($start::TIMESTAMP) AS b,
        -- A window after idleness averages over the idle time, one of the start-up over the
        -- loading: it stands for its moment only.
        CASE WHEN coalesce(s."window", '') NOT IN ('after_idle', 'startup') AND s.interval_s > 0
            THEN s.interval_s END AS seconds,
        CASE WHEN seconds IS NOT NULL THEN s.gen_tok_s END AS gen_tok_s,
        CASE WHEN seconds IS NOT NULL THEN s.gen_tok_s_min END AS low,
        CASE WHEN seconds IS NOT NULL THEN s.gen_tok_s_max END AS high,
        coalesce(s.prompt_tok_s * s.interval_s,
            CASE WHEN s.kind = 'prefill' THEN s.new_tokens END) AS prompt_tokens,
        s.running_reqs, s.queued_reqs, s.kv_usage, s.accept_len,
        CASE WHEN s.accept_len IS NOT NULL THEN s.request_steps END AS request_steps
    FROM counted_timed s
    -- Windows that begin before the end may be stamped after it.
    WHERE s.run_id = $run_id AND s.kind <> 'metrics' AND s.ts >= $start AND s.ts <= $end::TIMESTAMP + INTERVAL 2 MINUTE
), summed AS (
    SELECT *, sum(seconds) OVER (PARTITION BY rank, kind ORDER BY nth
        ROWS UNBOUNDED PRECEDING) AS seconds_so_far
    FROM counted
), stamps AS (
    -- Windows computed from steps can be longer than the time since the stamp before: those of
    -- one stamp share that time, each in proportion, so that no moment is drawn twice.
    SELECT rank, kind, b, sum(seconds) AS wanted, max(seconds_so_far) AS seconds_at_end,
        least(wanted, b - lag(b) OVER (PARTITION BY rank, kind ORDER BY b)) / wanted AS scale
    FROM summed
    WHERE seconds IS NOT NULL
    GROUP BY rank, kind, b
), placed AS (
    SELECT c.*, c.seconds * s.scale AS length,
        c.b - s.scale * (s.seconds_at_end - c.seconds_so_far) AS later
    FROM summed c LEFT JOIN stamps s
        ON s.rank = c.rank AND s.kind = c.kind AND s.b = c.b
), windows AS (
    SELECT *, coalesce(later, b) AS z, z - coalesce(length, 0) AS a,
        -- Windows are closed at their end, so a moment on a border is in the bucket before it.
        greatest(0, CASE WHEN length IS NULL THEN ceil(b / $width - 1e-9) - 1
            ELSE floor(a / $width) END)::BIGINT AS first_bucket
    FROM placed
), spread AS (
    SELECT *, min(a) OVER () AS data_start, max(b) OVER () AS data_end, unnest(range(
        first_bucket, least($buckets, greatest(first_bucket + 1, ceil(z / $width)))::BIGINT
    )) AS bucket
    FROM windows
), shared AS (
    SELECT *,
        least(z, (bucket + 1) * $width) - greatest(a, bucket * $width) AS overlap,
        CASE WHEN length IS NULL THEN 1 ELSE overlap / seconds END AS share
    FROM spread
    WHERE length IS NULL OR least(z, (bucket + 1) * $width) - greatest(a, bucket * $width) > 1e-6
), rates_of_ranks AS (
    SELECT bucket, rank,
        -- Over the seconds that the rank has data for: a bucket filled by half is no drop.
        sum(gen_tok_s * overlap) / sum(overlap) FILTER (WHERE gen_tok_s IS NOT NULL) AS gen_tok_s,
        min(low) AS gen_tok_s_min,
        max(high) AS gen_tok_s_max,
        sum(prompt_tokens * share) AS prompt_tokens,
        sum(accept_len * request_steps * share) AS accept_weighted,
        sum(request_steps * share) AS accept_steps,
        any_value(data_start) AS data_start,
        any_value(data_end) AS data_end
    FROM shared
    GROUP BY bucket, rank
), rates AS (
    SELECT bucket,
        sum(gen_tok_s) AS gen_tok_s,
        sum(gen_tok_s_min) AS gen_tok_s_min,
        sum(gen_tok_s_max) AS gen_tok_s_max,
        -- The first and the last bucket are as long as there is data in them.
        sum(prompt_tokens) / nullif(least((bucket + 1) * $width, any_value(data_end))
            - greatest(bucket * $width, any_value(data_start)), 0) AS prompt_tok_s,
        sum(accept_weighted) / nullif(sum(accept_steps), 0) AS accept_len
    FROM rates_of_ranks
    GROUP BY bucket
), pace AS (
    -- Idle: three of its median windows without a line, as in tiles.sql.
    SELECT rank, 3 * greatest(1, coalesce(
        median(seconds) FILTER (WHERE gen_tok_s IS NOT NULL), 10)) AS idle_after_s
    FROM counted
    GROUP BY rank
), held AS (
    -- A gauge stands from its stamp to the rank's next one, but not while the rank is idle.
    SELECT c.*, greatest(0, ceil(b / $width - 1e-9) - 1)::BIGINT AS own,
        least(lead(b) OVER (PARTITION BY c.rank, kind = 'prefill' ORDER BY nth),
            b + idle_after_s, max(b) OVER ()) AS until
    FROM counted c JOIN pace USING (rank)
    WHERE running_reqs IS NOT NULL OR queued_reqs IS NOT NULL OR kv_usage IS NOT NULL
), standing AS (
    SELECT *, unnest(range(
        own, least($buckets, greatest(own + 1, ceil(until / $width)))::BIGINT
    )) AS bucket
    FROM held
), gauges_of_ranks AS (
    SELECT bucket, rank,
        -- SGLang's prefill lines count the running requests before their own batch.
        coalesce(arg_max(running_reqs, nth) FILTER (WHERE kind <> 'prefill'),
            arg_max(running_reqs, nth)) AS running_reqs,
        arg_max(queued_reqs, nth) AS queued_reqs,
        coalesce(max(kv_usage) FILTER (WHERE bucket = own), arg_max(kv_usage, nth)) AS kv_usage,
        max(b) FILTER (WHERE bucket = own) AS last_at,
        arg_max(b, kv_usage) FILTER (WHERE bucket = own) AS kv_at
    FROM standing
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
)
SELECT $start::TIMESTAMP + to_microseconds((bucket * $width * 1e6)::BIGINT) AS ts,
    bucket,
    gen_tok_s, prompt_tok_s, gen_tok_s_min, gen_tok_s_max, running_reqs, queued_reqs,
    $start::TIMESTAMP
        + to_microseconds((coalesce(last_at, bucket * $width) * 1e6)::BIGINT) AS gauges_at,
    kv_usage,
    $start::TIMESTAMP + to_microseconds((coalesce(kv_at, bucket * $width) * 1e6)::BIGINT) AS kv_at,
    accept_len
FROM rates FULL JOIN gauges USING (bucket)
ORDER BY bucket
