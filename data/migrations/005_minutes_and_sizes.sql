-- Samples rolled up by minute (data/minutes.py), and how the store grows.

-- Old samples, one row a minute of those that are alike: data/minutes.py says how.
CREATE TABLE minute_rows (
    group_id BIGINT,              -- of sample_groups
    lines BIGINT,                 -- samples that the row stands for
    byte_offset BIGINT,           -- bytes; of the first of them
    line_no BIGINT,               -- of the first of them
    ts TIMESTAMP,                 -- UTC
    running_reqs DOUBLE,          -- requests; mean, weighted by seconds
    queued_reqs DOUBLE,           -- requests; the same
    kv_tokens DOUBLE,             -- tokens; the same
    kv_usage DOUBLE,              -- fraction, 0 to 1; the same
    gen_tok_s DOUBLE,             -- tokens per second; the same
    prompt_tok_s DOUBLE,          -- tokens per second; the same
    accept_len DOUBLE,            -- tokens per verification step; mean, weighted by request_steps
    accept_rate_raw DOUBLE,       -- the same
    draft_accept_rate DOUBLE,     -- the same
    accepted_tokens BIGINT,       -- tokens; sum
    drafted_tokens BIGINT,        -- tokens; sum
    accept_per_position DOUBLE[], -- means, weighted by request_steps
    request_steps DOUBLE,         -- sum
    new_seqs BIGINT,              -- sequences; sum
    new_tokens BIGINT,            -- tokens; sum
    cached_tokens BIGINT,         -- tokens; sum
    prefix_hit_rate DOUBLE,       -- fraction; mean, weighted by prompt tokens, else by seconds
    retracted_reqs INTEGER,       -- requests; highest
    preemptions BIGINT,           -- sum
    interval_s DOUBLE,            -- seconds; sum
    running_reqs_min INTEGER,     -- requests
    running_reqs_max INTEGER,     -- requests
    queued_reqs_min INTEGER,      -- requests
    queued_reqs_max INTEGER,      -- requests
    kv_usage_min DOUBLE,          -- fraction, 0 to 1
    kv_usage_max DOUBLE,          -- fraction, 0 to 1
    gen_tok_s_min DOUBLE,         -- tokens per second, of one sample
    gen_tok_s_max DOUBLE,         -- tokens per second, of one sample
    prompt_tok_s_min DOUBLE,      -- tokens per second, of one sample
    prompt_tok_s_max DOUBLE,      -- tokens per second, of one sample
    accept_len_min DOUBLE,        -- tokens per verification step, of one sample
    accept_len_max DOUBLE         -- tokens per verification step, of one sample
);

-- How large the store was, about once a day.
CREATE TABLE store_sizes (
    "at" TIMESTAMP,               -- UTC
    bytes BIGINT                  -- bytes
);
