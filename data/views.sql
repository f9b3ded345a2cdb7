-- The views of the store, made anew when this text has changed.

-- The ranks whose samples count: of tensor-parallel ranks and pipeline stages that print the
-- same batch only the lowest, of data-parallel ranks and engines every one.
CREATE OR REPLACE VIEW run_ranks AS
WITH seen AS (
    SELECT DISTINCT run_id, dp_rank, engine_index,
        coalesce(tp_rank, 0) AS tp, coalesce(pp_rank, 0) AS pp
    FROM run_summary_parts
    WHERE n_faults IS NULL
)
SELECT * FROM seen
QUALIFY row_number() OVER (PARTITION BY run_id, dp_rank, engine_index ORDER BY pp, tp) = 1;

-- The views samples, and counted_samples: those of the ranks above, which stand in a column `rank`.
-- data/compact.py writes them here.
-- samples --

-- Samples with the windows that were corrected later laid over them.
CREATE OR REPLACE VIEW samples_timed AS
SELECT s.* REPLACE (
    coalesce(i.interval_s, s.interval_s) AS interval_s,
    coalesce(s.interval_from, CASE WHEN i.interval_s IS NOT NULL THEN 'stamps' END)
        AS interval_from
)
FROM samples s
LEFT JOIN sample_intervals i
    ON i.run_id = s.run_id AND i.file_id = s.file_id AND i.byte_offset = s.byte_offset;

CREATE OR REPLACE VIEW counted_timed AS
SELECT s.* REPLACE (coalesce(i.interval_s, s.interval_s) AS interval_s)
FROM counted_samples s
LEFT JOIN sample_intervals i
    ON i.run_id = s.run_id AND i.file_id = s.file_id AND i.byte_offset = s.byte_offset;

CREATE OR REPLACE VIEW runs AS
WITH facts AS (
    SELECT * FROM run_facts
    QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY seq DESC) = 1
), notes AS (
    SELECT * FROM run_notes
    QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY seq DESC) = 1
)
SELECT f.* EXCLUDE (seq) REPLACE (coalesce(n.label, f.label) AS label),
    n.tags, n.note, coalesce(n.archived, false) AS archived,
    coalesce(n.baseline, false) AS baseline
FROM facts f LEFT JOIN notes n ON n.run_id = f.run_id;

-- Sums of the parts, so that no list ever scans samples. A rate is tokens over seconds.
CREATE OR REPLACE VIEW run_summary AS
SELECT p.run_id,
    coalesce(sum(n_decode), 0)::BIGINT AS n_decode,
    coalesce(sum(n_prefill), 0)::BIGINT AS n_prefill,
    coalesce(sum(n_stats), 0)::BIGINT AS n_stats,
    coalesce(sum(n_spec), 0)::BIGINT AS n_spec,
    min(first_ts) AS first_ts,
    max(last_ts) AS last_ts,
    sum(gen_tokens) AS gen_tokens,
    sum(prompt_tokens) AS prompt_tokens,
    sum(steady_s) AS steady_s,
    sum(steady_tokens) / nullif(sum(steady_s), 0) AS steady_tok_s,
    sum(at1_s) AS at1_s,
    sum(at1_tokens) / nullif(sum(at1_s), 0) AS decode_tok_s_at_1,
    sum(accept_weighted) / nullif(sum(accept_steps), 0) AS accept_len,
    max(max_running) AS max_running,
    max(max_queued) AS max_queued,
    max(max_kv_usage) AS max_kv_usage,
    max(max_gen_tok_s) AS max_gen_tok_s,
    coalesce(sum(n_faults), 0)::BIGINT AS n_faults,
    coalesce(sum(n_retractions), 0)::BIGINT AS n_retractions
FROM run_summary_parts p
LEFT JOIN run_ranks r
    ON r.run_id = p.run_id
    AND r.dp_rank IS NOT DISTINCT FROM p.dp_rank
    AND r.engine_index IS NOT DISTINCT FROM p.engine_index
    AND r.tp = coalesce(p.tp_rank, 0) AND r.pp = coalesce(p.pp_rank, 0)
WHERE r.run_id IS NOT NULL OR p.n_faults IS NOT NULL
GROUP BY p.run_id;

CREATE OR REPLACE VIEW checkpoints_latest AS
SELECT * FROM checkpoints
QUALIFY row_number() OVER (PARTITION BY file_id ORDER BY seq DESC) = 1;

-- One row a benchmark point with what the server's log says of it. server_* are the values of the
-- log over the time of the point; token_difference beyond allowed_tokens is a finding.
CREATE OR REPLACE VIEW bench_points AS
WITH results AS (
    SELECT * FROM bench_results
    QUALIFY row_number() OVER (PARTITION BY bench_id ORDER BY seq DESC) = 1
        AND tool IS NOT NULL  -- else taken back: its table was read anew with columns named
), windows AS (
    SELECT * FROM bench_windows
    QUALIFY row_number() OVER (PARTITION BY bench_id ORDER BY "at" DESC) = 1
)
SELECT r.* EXCLUDE (seq) REPLACE (coalesce(w.run_id, r.run_id) AS run_id),
    w.method AS join_method, w.clock_offset_s,
    w.started_at AS window_started_at, w.ended_at AS window_ended_at,
    w.gen_tok_s AS server_gen_tok_s, w.running_reqs AS server_running_reqs,
    w.queued_reqs AS server_queued_reqs, w.accept_len AS server_accept_len,
    w.kv_usage AS server_kv_usage, w.prefix_hit_rate AS server_prefix_hit_rate,
    w.log_tokens, w.token_difference, w.allowed_tokens, w.detail AS join_detail
FROM results r LEFT JOIN windows w ON w.bench_id = r.bench_id;
