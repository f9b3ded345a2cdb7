-- Samples by kind, and what many have in common once (data/compact.py). Before, all kinds stood
-- in one table.

CREATE TABLE sample_groups (
    group_id BIGINT,
    run_id VARCHAR,
    source_id VARCHAR,
    file_id VARCHAR,              -- one generation of a file's content
    ts_inferred BOOLEAN,
    engine VARCHAR,
    kind VARCHAR,
    dp_rank INTEGER,
    tp_rank INTEGER,
    pp_rank INTEGER,
    ep_rank INTEGER,
    engine_index INTEGER,
    accept_def VARCHAR,
    hit_rate_scope VARCHAR,
    graph_on BOOLEAN,
    interval_from VARCHAR,
    "window" VARCHAR
);

CREATE TABLE decode_rows (
    group_id BIGINT,              -- of sample_groups
    byte_offset BIGINT,           -- bytes; the record's own first byte
    line_no BIGINT,               -- lines, from 1
    ts TIMESTAMP,                 -- UTC
    running_reqs INTEGER,         -- requests
    queued_reqs INTEGER,          -- requests
    kv_tokens BIGINT,             -- tokens
    kv_usage DOUBLE,              -- fraction, 0 to 1
    gen_tok_s DOUBLE,             -- tokens per second
    accept_len DOUBLE,            -- tokens per verification step and request, bonus included
    accept_rate_raw DOUBLE,       -- as printed; a percentage divided by 100
    draft_accept_rate DOUBLE,     -- fraction, 0 to 1
    request_steps DOUBLE,         -- request x verification-step pairs
    retracted_reqs INTEGER,       -- requests
    interval_s DOUBLE,            -- seconds; length of the window the sample describes
    extra VARCHAR                 -- JSON
);

CREATE TABLE prefill_rows (
    group_id BIGINT,              -- of sample_groups
    byte_offset BIGINT,           -- bytes; the record's own first byte
    line_no BIGINT,               -- lines, from 1
    ts TIMESTAMP,                 -- UTC
    running_reqs INTEGER,         -- requests
    queued_reqs INTEGER,          -- requests
    kv_tokens BIGINT,             -- tokens
    kv_usage DOUBLE,              -- fraction, 0 to 1
    prompt_tok_s DOUBLE,          -- tokens per second
    new_seqs INTEGER,             -- sequences
    new_tokens BIGINT,            -- tokens
    cached_tokens BIGINT,         -- tokens
    prefix_hit_rate DOUBLE,       -- fraction, 0 to 1
    interval_s DOUBLE,            -- seconds; length of the window the sample describes
    extra VARCHAR                 -- JSON
);

CREATE TABLE stats_rows (
    group_id BIGINT,              -- of sample_groups
    byte_offset BIGINT,           -- bytes; the record's own first byte
    line_no BIGINT,               -- lines, from 1
    ts TIMESTAMP,                 -- UTC
    running_reqs INTEGER,         -- requests
    queued_reqs INTEGER,          -- requests
    kv_tokens BIGINT,             -- tokens
    kv_usage DOUBLE,              -- fraction, 0 to 1
    gen_tok_s DOUBLE,             -- tokens per second
    prompt_tok_s DOUBLE,          -- tokens per second
    prefix_hit_rate DOUBLE,       -- fraction, 0 to 1
    preemptions INTEGER,
    interval_s DOUBLE,            -- seconds; length of the window the sample describes
    extra VARCHAR                 -- JSON
);

CREATE TABLE spec_rows (
    group_id BIGINT,              -- of sample_groups
    byte_offset BIGINT,           -- bytes; the record's own first byte
    line_no BIGINT,               -- lines, from 1
    ts TIMESTAMP,                 -- UTC
    accept_len DOUBLE,            -- tokens per verification step and request, bonus included
    accept_rate_raw DOUBLE,       -- as printed; a percentage divided by 100
    draft_accept_rate DOUBLE,     -- fraction, 0 to 1
    accepted_tokens BIGINT,       -- tokens
    drafted_tokens BIGINT,        -- tokens
    accept_per_position DOUBLE[], -- fractions, 0 to 1
    request_steps DOUBLE,         -- request x verification-step pairs
    interval_s DOUBLE,            -- seconds; length of the window the sample describes
    extra VARCHAR                 -- JSON
);

CREATE TABLE metrics_rows (
    group_id BIGINT,              -- of sample_groups
    byte_offset BIGINT,           -- bytes; the record's own first byte
    line_no BIGINT,               -- lines, from 1
    ts TIMESTAMP,                 -- UTC
    prefix_hit_rate DOUBLE,       -- fraction, 0 to 1
    interval_s DOUBLE,            -- seconds; length of the window the sample describes
    extra VARCHAR                 -- JSON
);

CREATE TEMP TABLE old_samples AS
SELECT p.run_id, p.source_id, p.file_id,
    CASE r.engine
        WHEN 0 THEN 'sglang'
        WHEN 1 THEN 'vllm'
    END AS engine,
    CASE r.kind
        WHEN 0 THEN 'decode'
        WHEN 1 THEN 'prefill'
        WHEN 2 THEN 'stats'
        WHEN 3 THEN 'spec'
        WHEN 4 THEN 'metrics'
    END AS kind,
    CASE r.accept_def
        WHEN 0 THEN 'accepted / (steps * (draft_tokens - 1))'
        WHEN 1 THEN '(accepted + bonus) / (steps * draft_tokens)'
        WHEN 2 THEN 'accepted / drafted'
        WHEN 3 THEN 'accepted / (steps * (draft_tokens - 1)), assumed'
        WHEN 4 THEN 'accepted / drafted, lifetime'
    END AS accept_def,
    CASE r.hit_rate_scope
        WHEN 0 THEN 'batch'
        WHEN 1 THEN 'interval'
        WHEN 2 THEN 'last_1000_requests'
        WHEN 3 THEN 'lifetime'
    END AS hit_rate_scope,
    CASE r.interval_from
        WHEN 0 THEN 'stamps'
        WHEN 1 THEN 'steps'
        WHEN 2 THEN 'configured'
    END AS interval_from,
    CASE r."window"
        WHEN 0 THEN 'mixed'
        WHEN 1 THEN 'steady'
        WHEN 2 THEN 'after_idle'
        WHEN 3 THEN 'startup'
    END AS "window",
    r.* EXCLUDE (place, engine, kind, accept_def, hit_rate_scope, interval_from, "window")
FROM sample_rows r JOIN (SELECT DISTINCT * FROM sample_places) p ON p.place = r.place;

INSERT INTO sample_groups BY NAME
SELECT row_number() OVER () AS group_id, * FROM (SELECT DISTINCT
    run_id, source_id, file_id, ts_inferred, engine, kind, dp_rank, tp_rank, pp_rank, ep_rank,
    engine_index, accept_def, hit_rate_scope, graph_on, interval_from, "window"
    FROM old_samples
);

CREATE TEMP TABLE grouped_samples AS
SELECT o.*, g.group_id
FROM old_samples o JOIN sample_groups g
    ON g.run_id IS NOT DISTINCT FROM o.run_id
    AND g.source_id IS NOT DISTINCT FROM o.source_id
    AND g.file_id IS NOT DISTINCT FROM o.file_id
    AND g.ts_inferred IS NOT DISTINCT FROM o.ts_inferred
    AND g.engine IS NOT DISTINCT FROM o.engine
    AND g.kind IS NOT DISTINCT FROM o.kind
    AND g.dp_rank IS NOT DISTINCT FROM o.dp_rank
    AND g.tp_rank IS NOT DISTINCT FROM o.tp_rank
    AND g.pp_rank IS NOT DISTINCT FROM o.pp_rank
    AND g.ep_rank IS NOT DISTINCT FROM o.ep_rank
    AND g.engine_index IS NOT DISTINCT FROM o.engine_index
    AND g.accept_def IS NOT DISTINCT FROM o.accept_def
    AND g.hit_rate_scope IS NOT DISTINCT FROM o.hit_rate_scope
    AND g.graph_on IS NOT DISTINCT FROM o.graph_on
    AND g.interval_from IS NOT DISTINCT FROM o.interval_from
    AND g."window" IS NOT DISTINCT FROM o."window";

INSERT INTO decode_rows BY NAME
SELECT
    group_id, byte_offset, line_no, ts, running_reqs, queued_reqs, kv_tokens, kv_usage,
    gen_tok_s, accept_len, accept_rate_raw, draft_accept_rate, request_steps, retracted_reqs,
    interval_s, extra
FROM grouped_samples WHERE kind = 'decode';

INSERT INTO prefill_rows BY NAME
SELECT
    group_id, byte_offset, line_no, ts, running_reqs, queued_reqs, kv_tokens, kv_usage,
    prompt_tok_s, new_seqs, new_tokens, cached_tokens, prefix_hit_rate, interval_s, extra
FROM grouped_samples WHERE kind = 'prefill';

INSERT INTO stats_rows BY NAME
SELECT
    group_id, byte_offset, line_no, ts, running_reqs, queued_reqs, kv_tokens, kv_usage,
    gen_tok_s, prompt_tok_s, prefix_hit_rate, preemptions, interval_s, extra
FROM grouped_samples WHERE kind = 'stats';

INSERT INTO spec_rows BY NAME
SELECT
    group_id, byte_offset, line_no, ts, accept_len, accept_rate_raw, draft_accept_rate,
    accepted_tokens, drafted_tokens, accept_per_position, request_steps, interval_s, extra
FROM grouped_samples WHERE kind = 'spec';

INSERT INTO metrics_rows BY NAME
SELECT
    group_id, byte_offset, line_no, ts, prefix_hit_rate, interval_s, extra
FROM grouped_samples WHERE kind = 'metrics';

DROP VIEW IF EXISTS samples;
DROP TABLE grouped_samples;
DROP TABLE old_samples;
DROP TABLE sample_rows;
DROP TABLE sample_places;
