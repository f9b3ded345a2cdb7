"""The columns, types and units of every record: the contract of the whole project.

`data/schema.sql` declares the same columns; `tests/test_contract.py` compares the two.
Times are UTC without a zone (`pl.Datetime("us")`), offsets are bytes, `*_s` seconds, `*_ms`
milliseconds, `*_tok_s` tokens per second, usages and rates fractions from 0 to 1. A missing
value is null, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import polars as pl

Schema = dict[str, pl.DataType]
# So few rows are looked at one by one: a question to polars has its price, however few they are.
FEW_ROWS = 200
_SHARED_ROWS = 1 << 17  # of columns that say the same
_empty: dict[int, tuple[Schema, pl.DataFrame]] = {}  # by the schema's id, which is kept with it

TIME = pl.Datetime("us")
TEXT, INT, BIG, REAL, BOOL = pl.String(), pl.Int32(), pl.Int64(), pl.Float64(), pl.Boolean()

# The texts that a column can hold, in an order that must not change: the store keeps their
# numbers. New ones go to the end.
CHOICES = {
    "engine": ("sglang", "vllm"),
    # metrics: figures beside the samples (cache, transfer, MFU, per step), all in extra.
    "kind": ("decode", "prefill", "stats", "spec", "metrics"),
    # What the printed acceptance rate is, by the release that printed it: SGLang 0.5.11 on;
    # 0.5.3.post2 to 0.5.10.post1; vLLM V1; SGLang where the release could not be told; vLLM V0.
    "accept_def": (
        "accepted / (steps * (draft_tokens - 1))",
        "(accepted + bonus) / (steps * draft_tokens)",
        "accepted / drafted",
        "accepted / (steps * (draft_tokens - 1)), assumed",
        # vLLM V0: since the server's start, tokens behind a rejection included.
        "accepted / drafted, lifetime",
    ),
    "hit_rate_scope": ("batch", "interval", "last_1000_requests", "lifetime"),
    "interval_from": ("stamps", "steps", "configured"),
    "window": ("mixed", "steady", "after_idle", "startup"),
}
ENGINE, KIND, ACCEPT_DEF, HIT_RATE_SCOPE, INTERVAL_FROM, WINDOW = map(pl.Enum, CHOICES.values())

# Arguments that say where and for whom, not how it serves: two starts that differ only in these
# are one configuration (the column config_hash).
NOT_CONFIG = frozenset({
    "port", "host", "nccl_port", "random_seed", "seed", "dist_init_addr", "log_level", "grpc_port",
    "api_key", "admin_api_key", "served_model_name", "model_tag", "nccl_init_addr", "uds",
})  # fmt: skip

# Where a record stands. A file_id is one generation of a file's content: after a truncation
# offsets start again at 0 under another file_id.
PLACE: Schema = {
    "run_id": TEXT,
    "source_id": TEXT,
    "file_id": TEXT,
    "byte_offset": BIG,  # the record's own first byte
    "line_no": BIG,  # lines ended by "\n", counted from 1
}

SAMPLES: Schema = {
    **PLACE,
    "ts": TIME,
    "ts_inferred": BOOL,  # year or whole stamp not printed on the line itself
    "engine": ENGINE,
    "kind": KIND,
    "dp_rank": INT,
    "tp_rank": INT,
    "pp_rank": INT,
    "ep_rank": INT,
    "engine_index": INT,
    "running_reqs": INT,
    "queued_reqs": INT,
    "kv_tokens": BIG,
    "kv_usage": REAL,
    "gen_tok_s": REAL,
    "prompt_tok_s": REAL,
    "accept_len": REAL,  # tokens per verification step and request, bonus token included
    "accept_rate_raw": REAL,  # as printed; a percentage divided by 100
    "draft_accept_rate": REAL,  # accepted / proposed draft tokens, strict
    "accept_def": ACCEPT_DEF,  # the formula of the printed rate
    "accepted_tokens": BIG,
    "drafted_tokens": BIG,
    "accept_per_position": pl.List(REAL),
    "request_steps": REAL,  # request x verification-step pairs of the window
    "new_seqs": INT,
    "new_tokens": BIG,
    "cached_tokens": BIG,
    "prefix_hit_rate": REAL,
    "hit_rate_scope": HIT_RATE_SCOPE,  # what prefix_hit_rate is taken over
    "graph_on": BOOL,
    "retracted_reqs": INT,
    "preemptions": INT,
    "interval_s": REAL,  # length of the window that the sample describes
    "interval_from": INTERVAL_FROM,
    "window": WINDOW,
    "extra": TEXT,  # JSON of every other field under its printed name; null when empty
}

# Corrections: the final window of a sample that was stored while its whole-second stamp was still
# open. It replaces the interval_s given with the sample (the view `samples_timed` does so); a
# sample gets at most one.
INTERVALS: Schema = {
    "run_id": TEXT,
    "file_id": TEXT,
    "byte_offset": BIG,
    "interval_s": REAL,
}

EVENTS: Schema = {
    **PLACE,
    "ts": TIME,
    "kind": TEXT,  # args, ready, override, milestone, retraction, fault, stop, ...
    "severity": TEXT,  # info, warning, fault
    "title": TEXT,
    "detail": TEXT,
    "evidence": TEXT,  # the quoted line, secrets redacted
    "incident_id": TEXT,
    "count": INT,
    "duration_s": REAL,
    "memory_gb": REAL,
    "data": TEXT,  # JSON, for example {"name": ..., "given": ..., "effective": ...}
}

RUNS: Schema = {
    "run_id": TEXT,
    "source_id": TEXT,
    "engine": TEXT,
    "engine_version": TEXT,
    "label": TEXT,
    "model": TEXT,
    "hardware": TEXT,
    "gpus": INT,
    "started_at": TIME,
    "ready_at": TIME,
    "ended_at": TIME,
    "end_state": TEXT,  # running, stopped, crashed, lost
    "args": TEXT,  # JSON, redacted
    "effective": TEXT,  # JSON of what the server printed of its final settings
    "config_hash": TEXT,
    "tp": INT,
    "dp": INT,
    "pp": INT,
    "ep": INT,
    "spec_algorithm": TEXT,
    "spec_steps": INT,
    "spec_draft_tokens": INT,  # as the engine's own argument counts them
    "max_running_requests": INT,  # as printed: SGLang's is per DP rank
    "max_total_tokens": BIG,
    "context_len": INT,
}

# What is known of a run so far. Appended whenever something new is learnt; the row with the
# highest seq holds everything known, so the view `runs` needs no merge of columns.
RUN_FACTS: Schema = {"seq": BIG, **RUNS}

# One line of a server about one request; never its text.
REQUESTS: Schema = {
    **PLACE,
    "ts": TIME,
    "request_id": TEXT,
    "input_tokens": BIG,
    "output_tokens": BIG,
    "cached_tokens": BIG,
    "ttft_ms": REAL,
    "e2e_ms": REAL,
    "finish_reason": TEXT,
    "extra": TEXT,  # JSON of the line's other figures
    "event": TEXT,  # received, added, finished, aborted, failed, response, time_stats
}

ACCESS_COUNTS: Schema = {
    "run_id": TEXT,
    "minute": TIME,
    "method": TEXT,
    "path": TEXT,
    "status": INT,
    "n": BIG,
}

INGEST_LOG: Schema = {
    "source_id": TEXT,
    "file_id": TEXT,
    "byte_offset": BIG,
    "at": TIME,  # when it was noticed
    "kind": TEXT,  # truncated, rotated, damaged, unknown, too_long, ...
    "shape": TEXT,  # the line with its numbers blanked
    "n": BIG,
    "detail": TEXT,
}


# Latencies of a benchmark and what is kept of each: columns such as ttft_ms_mean, in milliseconds.
LATENCIES = ("ttft", "tpot", "itl", "e2e")
STATISTICS = ("mean", "median", "p90", "p95", "p99")

# One measured point of a benchmark: one concurrency or rate. Several rows of one bench_id are one
# point told by several files (the text and the JSON of one run).
BENCH_RESULTS: Schema = {
    "bench_id": TEXT,  # of the measured values: the same point has the same id in every format
    "bench_file": TEXT,
    "label": TEXT,
    "run_id": TEXT,  # given by the user; what was found by joining stands in bench_windows
    "tool": TEXT,
    "tool_version": TEXT,
    "started_at": TIME,  # the client's clock taken as UTC unless a zone is printed or set
    "duration_s": REAL,
    "model": TEXT,
    "gpus": INT,
    "dataset": TEXT,
    "concurrency": REAL,  # requests allowed at once; null: not limited
    "request_rate": REAL,  # requests per second asked for; null: not limited
    "num_prompts": BIG,
    "completed": BIG,
    "failed": BIG,
    "input_tokens": BIG,
    "output_tokens": BIG,
    "request_throughput_rps": REAL,
    "output_tok_s": REAL,
    "total_tok_s": REAL,
    "peak_output_tok_s": REAL,
    **{f"{name}_ms_{stat}": REAL for name in LATENCIES for stat in STATISTICS},
    "accept_len": REAL,
    "extra": TEXT,  # JSON: other fields under their printed names, and `oddities`, `notes`
    "position": INT,  # of the point in its file, from 1
    "seq": BIG,  # the highest of a bench_id stands: what several files tell of it is merged
}

# The server's own values over the time of one benchmark point; the latest row of a bench_id stands.
BENCH_WINDOWS: Schema = {
    "bench_id": TEXT,
    "run_id": TEXT,  # null: the join was taken back
    "method": TEXT,  # clock, order, explicit
    "clock_offset_s": REAL,  # server clock minus client clock
    "started_at": TIME,
    "ended_at": TIME,
    "gen_tok_s": REAL,
    "running_reqs": REAL,
    "queued_reqs": REAL,
    "accept_len": REAL,
    "kv_usage": REAL,
    "log_tokens": REAL,
    "token_difference": REAL,  # tokens of the log minus tokens of the client
    "prefix_hit_rate": REAL,
    "allowed_tokens": REAL,  # of difference
    "detail": TEXT,  # JSON: the parts of the allowance, and why the join was made
    "at": TIME,
}


def frame(rows: Iterable[Mapping[str, Any]], schema: Schema) -> pl.DataFrame:
    """Rows as a frame of exactly this schema; absent keys become null."""
    full = [{name: row.get(name) for name in schema} for row in rows]
    return pl.DataFrame(full, schema=schema) if full else empty(schema)


def empty(schema: Schema) -> pl.DataFrame:
    """A frame of this schema, one of those that modules keep, without rows. It is made once: a
    frame takes a while to make, and of most tables a look at a live log has nothing."""
    kept = _empty.get(id(schema))
    if kept is None:
        kept = _empty[id(schema)] = schema, pl.DataFrame(schema=schema)
    return kept[1]


def joined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All rows of frames that may lack columns of each other; joining even one has a price."""
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal")


def with_columns(rows: pl.DataFrame, *columns: pl.Series) -> pl.DataFrame:
    """Rows with other columns in place of those of their names; polars' own plans a query."""
    changed = rows.clone()
    for column in columns:
        changed.replace_column(rows.get_column_index(column.name), column)
    return changed


def constant(name: str, value: object, dtype: pl.DataType, n: int) -> pl.Series:
    """A column that says the same n times. Columns of much the same length share their memory."""
    if n > _SHARED_ROWS:
        return pl.Series(name, [value], dtype=dtype).new_from_index(0, n)
    return _long(value, dtype, 1 << n.bit_length()).slice(0, n).alias(name)


@lru_cache(32)
def _long(value: object, dtype: pl.DataType, rows: int) -> pl.Series:
    return pl.Series([value], dtype=dtype).new_from_index(0, rows)


def says(column: pl.Series, choice: str) -> pl.Series:
    """Which rows of a column of CHOICES hold this one."""
    if column.len() > FEW_ROWS:
        return column == choice
    return pl.Series([value == choice for value in column.to_list()], dtype=pl.Boolean())


def is_constant(values: pl.Series) -> bool:
    """Whether all values of a column are the same, or all missing; told without counting them."""
    if nulls := values.null_count():
        return nulls == values.len()
    if not values.len() or values[0] != values[-1]:
        return not values.len()
    return values.flags["SORTED_ASC"] or bool((values == values.head(1)).all())
