-- The tables of the store. Columns, types and units agree with parsers/records.py (samples: as a
-- view over the tables of each kind); a test compares the two. Times are UTC. Ingest only ever
-- appends, and there are no keys, unique constraints, sequences or enums: the same text must also
-- run on DuckLake.
-- A change here needs a numbered step in data/migrations/ as well.

CREATE TABLE schema_version (
    version INTEGER,
    applied_at TIMESTAMP
);

-- What belongs to this store: its salt makes the hashes of redacted secrets useless elsewhere.
CREATE TABLE store_facts (
    name VARCHAR,
    value VARCHAR
);
INSERT INTO store_facts SELECT 'salt', uuid()::VARCHAR;

-- Which text of data/views.sql the views were made from.
CREATE TABLE views_version (
    hash VARCHAR
);

-- What the view `samples` is made of: data/compact.py says how.
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

-- Windows that were still open when their sample was stored.
CREATE TABLE sample_intervals (
    run_id VARCHAR,
    file_id VARCHAR,
    byte_offset BIGINT,           -- bytes
    interval_s DOUBLE             -- seconds
);

CREATE TABLE events (
    run_id VARCHAR,
    source_id VARCHAR,
    file_id VARCHAR,
    byte_offset BIGINT,           -- bytes
    line_no BIGINT,               -- lines, from 1
    ts TIMESTAMP,                 -- UTC
    kind VARCHAR,
    severity VARCHAR,             -- info, warning, fault
    title VARCHAR,
    detail VARCHAR,
    evidence VARCHAR,             -- the quoted line, secrets redacted
    incident_id VARCHAR,
    count INTEGER,
    duration_s DOUBLE,            -- seconds
    memory_gb DOUBLE,             -- gigabytes
    data VARCHAR                  -- JSON
);

-- Everything known of a run so far; the row with the highest seq stands (view runs).
CREATE TABLE run_facts (
    seq BIGINT,
    run_id VARCHAR,
    source_id VARCHAR,
    engine VARCHAR,
    engine_version VARCHAR,
    label VARCHAR,
    model VARCHAR,
    hardware VARCHAR,
    gpus INTEGER,
    started_at TIMESTAMP,         -- UTC
    ready_at TIMESTAMP,           -- UTC
    ended_at TIMESTAMP,           -- UTC
    end_state VARCHAR,            -- running, stopped, crashed, lost
    args VARCHAR,                 -- JSON, redacted
    effective VARCHAR,            -- JSON
    config_hash VARCHAR,
    tp INTEGER,
    dp INTEGER,
    pp INTEGER,
    ep INTEGER,
    spec_algorithm VARCHAR,
    spec_steps INTEGER,
    spec_draft_tokens INTEGER,    -- as the engine's own argument counts them
    max_running_requests INTEGER, -- requests, as printed: SGLang's is per DP rank
    max_total_tokens BIGINT,      -- tokens
    context_len INTEGER           -- tokens
);

CREATE TABLE access_counts (
    run_id VARCHAR,
    minute TIMESTAMP,             -- UTC
    method VARCHAR,
    path VARCHAR,
    status INTEGER,
    n BIGINT
);

CREATE TABLE ingest_log (
    source_id VARCHAR,
    file_id VARCHAR,
    byte_offset BIGINT,           -- bytes
    "at" TIMESTAMP,               -- UTC; when it was noticed
    kind VARCHAR,
    shape VARCHAR,
    n BIGINT,
    detail VARCHAR
);

-- How far a file has been read; the row with the highest seq stands (view checkpoints_latest).
CREATE TABLE checkpoints (
    source_id VARCHAR,
    file_id VARCHAR,
    path VARCHAR,
    seq BIGINT,
    byte_offset BIGINT,           -- bytes; where reading goes on
    line_no BIGINT,               -- number of the line that begins there
    fingerprint VARCHAR,          -- SHA-256 of the first fingerprint_len bytes
    fingerprint_len INTEGER,      -- bytes
    tail_hash VARCHAR,            -- SHA-256 of up to 256 bytes before byte_offset
    state VARCHAR,                -- JSON of the parser; long texts by hash
    finished BOOLEAN,             -- the file was read as complete
    "at" TIMESTAMP                -- UTC
);

-- Long texts that the states of checkpoints refer to by hash.
CREATE TABLE checkpoint_texts (
    hash VARCHAR,
    text VARCHAR
);

CREATE TABLE sources (
    source_id VARCHAR,
    kind VARCHAR,                 -- file, ...
    location VARCHAR,
    label VARCHAR,
    zone VARCHAR,                 -- IANA name
    "at" TIMESTAMP                -- UTC
);

-- Partial sums of one append, one run and one rank: they merge by SUM, MIN and MAX.
CREATE TABLE run_summary_parts (
    run_id VARCHAR,
    dp_rank INTEGER,
    engine_index INTEGER,
    tp_rank INTEGER,
    pp_rank INTEGER,
    n_decode BIGINT,
    n_prefill BIGINT,
    n_stats BIGINT,
    n_spec BIGINT,
    first_ts TIMESTAMP,           -- UTC
    last_ts TIMESTAMP,            -- UTC
    gen_tokens DOUBLE,            -- tokens
    prompt_tokens DOUBLE,         -- tokens
    steady_tokens DOUBLE,         -- tokens
    steady_s DOUBLE,              -- seconds
    at1_tokens DOUBLE,            -- tokens
    at1_s DOUBLE,                 -- seconds
    accept_weighted DOUBLE,       -- accept_len x request_steps
    accept_steps DOUBLE,          -- request_steps
    max_running INTEGER,          -- requests
    max_queued INTEGER,           -- requests
    max_kv_usage DOUBLE,          -- fraction, 0 to 1
    max_gen_tok_s DOUBLE,         -- tokens per second, as printed by one rank
    n_faults BIGINT,
    n_retractions BIGINT
);

-- What the user says of a run; the row with the highest seq stands.
CREATE TABLE run_notes (
    run_id VARCHAR,
    seq BIGINT,
    "at" TIMESTAMP,               -- UTC
    label VARCHAR,
    tags VARCHAR[],
    note VARCHAR,
    archived BOOLEAN,
    baseline BOOLEAN
);

-- One line of a server about one request.
CREATE TABLE requests (
    run_id VARCHAR,
    source_id VARCHAR,
    file_id VARCHAR,
    byte_offset BIGINT,           -- bytes
    line_no BIGINT,               -- lines, from 1
    ts TIMESTAMP,                 -- UTC
    request_id VARCHAR,
    input_tokens BIGINT,          -- tokens
    output_tokens BIGINT,         -- tokens
    cached_tokens BIGINT,         -- tokens
    ttft_ms DOUBLE,               -- milliseconds
    e2e_ms DOUBLE,                -- milliseconds
    finish_reason VARCHAR,
    extra VARCHAR,                -- JSON
    event VARCHAR                 -- received, added, finished, aborted, failed, ...
);

CREATE TABLE bench_results (
    bench_id VARCHAR,
    bench_file VARCHAR,
    label VARCHAR,
    run_id VARCHAR,
    tool VARCHAR,
    tool_version VARCHAR,
    started_at TIMESTAMP,         -- UTC
    duration_s DOUBLE,            -- seconds
    model VARCHAR,
    gpus INTEGER,
    dataset VARCHAR,
    concurrency DOUBLE,           -- requests
    request_rate DOUBLE,          -- requests per second
    num_prompts BIGINT,
    completed BIGINT,
    failed BIGINT,
    input_tokens BIGINT,          -- tokens
    output_tokens BIGINT,         -- tokens
    request_throughput_rps DOUBLE,-- requests per second
    output_tok_s DOUBLE,          -- tokens per second
    total_tok_s DOUBLE,           -- tokens per second
    peak_output_tok_s DOUBLE,     -- tokens per second
    ttft_ms_mean DOUBLE,          -- milliseconds
    ttft_ms_median DOUBLE,
    ttft_ms_p90 DOUBLE,
    ttft_ms_p95 DOUBLE,
    ttft_ms_p99 DOUBLE,
    tpot_ms_mean DOUBLE,          -- milliseconds
    tpot_ms_median DOUBLE,
    tpot_ms_p90 DOUBLE,
    tpot_ms_p95 DOUBLE,
    tpot_ms_p99 DOUBLE,
    itl_ms_mean DOUBLE,           -- milliseconds
    itl_ms_median DOUBLE,
    itl_ms_p90 DOUBLE,
    itl_ms_p95 DOUBLE,
    itl_ms_p99 DOUBLE,
    e2e_ms_mean DOUBLE,           -- milliseconds
    e2e_ms_median DOUBLE,
    e2e_ms_p90 DOUBLE,
    e2e_ms_p95 DOUBLE,
    e2e_ms_p99 DOUBLE,
    accept_len DOUBLE,            -- tokens per verification step and request
    extra VARCHAR,                -- JSON
    "position" INTEGER,           -- of the point in its file, from 1
    seq BIGINT                    -- the highest of a bench_id stands
);

-- The benchmark files that were read, by the content they had.
CREATE TABLE bench_files (
    bench_file VARCHAR,
    content VARCHAR,              -- SHA-256 of the whole file
    bytes BIGINT,                 -- bytes
    format VARCHAR,
    n_points INTEGER,
    unread VARCHAR,               -- JSON: columns that were not recognised
    "at" TIMESTAMP                -- UTC
);

-- The server's own values over the time of one benchmark point.
CREATE TABLE bench_windows (
    bench_id VARCHAR,
    run_id VARCHAR,
    method VARCHAR,
    clock_offset_s DOUBLE,        -- seconds
    started_at TIMESTAMP,         -- UTC
    ended_at TIMESTAMP,           -- UTC
    gen_tok_s DOUBLE,             -- tokens per second
    running_reqs DOUBLE,          -- requests
    queued_reqs DOUBLE,           -- requests
    accept_len DOUBLE,            -- tokens per verification step and request
    kv_usage DOUBLE,              -- fraction, 0 to 1
    log_tokens DOUBLE,            -- tokens
    token_difference DOUBLE,      -- tokens of the log minus tokens of the client
    prefix_hit_rate DOUBLE,       -- fraction, 0 to 1
    allowed_tokens DOUBLE,        -- tokens of difference that are allowed
    detail VARCHAR,               -- JSON: parts of the allowance, why the join was made
    "at" TIMESTAMP                -- UTC; the latest of a bench_id stands
);

-- How the columns of a hand-made table were read.
CREATE TABLE column_maps (
    bench_file VARCHAR,
    header VARCHAR,
    name VARCHAR,
    unit VARCHAR,
    "at" TIMESTAMP                -- UTC
);
