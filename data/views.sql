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

-- What was rolled up by minute, with the lowest and the highest.
CREATE OR REPLACE VIEW samples_by_minute AS
SELECT g.run_id, g.source_id, g.file_id, g.engine, g.kind, g."window",
    g.dp_rank, g.tp_rank, g.pp_rank, g.ep_rank, g.engine_index,
    m.ts, m.lines, m.interval_s,
    m.running_reqs, m.running_reqs_min, m.running_reqs_max,
    m.queued_reqs, m.queued_reqs_min, m.queued_reqs_max,
    m.kv_usage, m.kv_usage_min, m.kv_usage_max,
    m.gen_tok_s, m.gen_tok_s_min, m.gen_tok_s_max,
    m.prompt_tok_s, m.prompt_tok_s_min, m.prompt_tok_s_max,
    m.accept_len, m.accept_len_min, m.accept_len_max, m.request_steps
FROM minute_rows m
JOIN (SELECT DISTINCT * FROM sample_groups) g ON g.group_id = m.group_id;

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

-- Events of one cause as one row, its root first: of a death the first fault that tells of no other
-- one, and only where there is none the first effect. count is of lines, folded ones included.
-- One that spans two files is named after a place in the first of them.
CREATE OR REPLACE VIEW incidents AS
WITH placed AS (
    SELECT *, bool_or(ends_with(incident_id, '-' || printf('%x', byte_offset)))
        OVER (PARTITION BY incident_id, file_id) AS in_first_file
    FROM events
    WHERE incident_id IS NOT NULL
), roots AS (
    SELECT incident_id,
        arg_min(
            {
                'kind': kind, 'title': title, 'detail': detail, 'evidence': evidence,
                'source_id': source_id, 'file_id': file_id, 'byte_offset': byte_offset,
                'line_no': line_no, 'data': data
            },
            (kind IN ('effect', 'stop', 'after_stop'), NOT in_first_file, byte_offset)
        ) AS root,
        any_value(run_id) AS run_id,
        bool_or(severity = 'fault') AS is_fault,
        max(CASE severity WHEN 'fault' THEN 2 WHEN 'warning' THEN 1 ELSE 0 END) AS worst,
        min(ts) AS first_ts,
        max(ts) AS last_ts,
        sum(coalesce("count", 1))::BIGINT AS "count"
    FROM placed
    GROUP BY incident_id
)
SELECT incident_id, run_id,
    CASE
        WHEN is_fault THEN 'fault'
        WHEN root.kind IN ('stop', 'after_stop') THEN 'stop'
        WHEN root.kind = 'health' THEN 'stall'
        WHEN root.kind = 'retract_abort' THEN 'retraction'
        ELSE root.kind
    END AS class,
    ['info', 'warning', 'fault'][worst + 1] AS severity,
    root.title AS title,
    root.detail AS detail,
    root.evidence AS evidence,
    json_extract_string(root.data, '$.frame') AS frame,
    coalesce(
        json_extract_string(root.data, '$.rank'), json_extract_string(root.data, '$.process')
    ) AS rank,
    root.source_id AS source_id,
    root.file_id AS file_id,
    root.byte_offset AS byte_offset,
    root.line_no AS line_no,
    first_ts, last_ts, "count"
FROM roots;

-- Requests by minute; probes and scrapers apart, since they ask all day long.
CREATE OR REPLACE VIEW request_counts AS
SELECT run_id, minute, method, path, status,
    path IN (
        '/health', '/health_generate', '/ping', '/load', '/metrics', '/metrics/', '/get_load',
        '/get_server_info', '/server_info', '/get_model_info', '/model_info', '/version'
    ) AS is_health,
    sum(n)::BIGINT AS n
FROM access_counts
GROUP BY ALL;
