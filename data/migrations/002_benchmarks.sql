-- Benchmark results: which files were read, what stands of a point, and the parts of its join.
ALTER TABLE bench_results ADD COLUMN "position" INTEGER;
ALTER TABLE bench_results ADD COLUMN seq BIGINT;
ALTER TABLE bench_windows ADD COLUMN prefix_hit_rate DOUBLE;
ALTER TABLE bench_windows ADD COLUMN allowed_tokens DOUBLE;
ALTER TABLE bench_windows ADD COLUMN detail VARCHAR;
ALTER TABLE bench_windows ADD COLUMN "at" TIMESTAMP;
CREATE TABLE bench_files (
    bench_file VARCHAR,
    content VARCHAR,
    bytes BIGINT,
    format VARCHAR,
    n_points INTEGER,
    unread VARCHAR,
    "at" TIMESTAMP
);
