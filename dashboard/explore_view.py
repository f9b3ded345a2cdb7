"""What the Explore page offers: examples, the views with their columns, and answers in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import polars as pl
import streamlit as st

from dashboard import words
from data import documented

EXAMPLES: Final = {
    "Runs and their speed": """\
SELECT r.run_id, r.label, r.engine, r.engine_version, r.started_at,
       s.steady_tok_s, s.decode_tok_s_at_1, s.accept_len, s.n_faults
FROM runs r LEFT JOIN run_summary s USING (run_id)
ORDER BY r.started_at DESC""",
    "Throughput by minute": """\
SELECT time_bucket(INTERVAL 1 MINUTE, ts) AS minute, run_id,
       sum(gen_tok_s * interval_s) / 60 AS tok_s
FROM counted_timed
WHERE "window" <> 'after_idle' AND gen_tok_s IS NOT NULL
GROUP BY ALL ORDER BY minute""",
    "Speed by running requests": """\
SELECT running_reqs, run_id,
       sum(gen_tok_s * interval_s) / sum(interval_s) AS tok_s, count(*) AS windows
FROM counted_timed
WHERE "window" = 'steady' AND gen_tok_s > 0 AND running_reqs > 0
GROUP BY ALL ORDER BY run_id, running_reqs""",
    "Acceptance over time": """\
SELECT ts, run_id, accept_len, draft_accept_rate
FROM samples_timed
WHERE accept_len IS NOT NULL
ORDER BY ts""",
    "Overrides": """\
SELECT run_id, title, json_extract_string(data, '$.name') AS argument,
       json_extract_string(data, '$.given') AS given,
       json_extract_string(data, '$.effective') AS effective, evidence
FROM events WHERE kind = 'override'
ORDER BY run_id, byte_offset""",
    "Requests by status": """\
SELECT minute, status, sum(n) AS requests
FROM request_counts WHERE NOT is_health
GROUP BY ALL ORDER BY minute""",
    "Benchmarks by concurrency": """\
SELECT coalesce(label, bench_file) AS name, concurrency, output_tok_s, ttft_ms_p99, failed
FROM bench_points
ORDER BY name, concurrency""",
}
FIRST: Final = EXAMPLES["Runs and their speed"]
LIMITS: Final = (100, 1_000, 10_000)
TIMEOUT_S: Final = 30.0
# A link is opened before anybody has read its question: it answers at once or is asked with Run.
LINKED_S: Final = 3.0
LINKED: Final = (
    f"The question came with the address, which gives it {LINKED_S:.0f} s; "
    f"Run gives it {TIMEOUT_S:.0f} s."
)
_TABLE_BYTES: Final = 20_000_000  # that a browser is sent of one answer


def headline(rows: int, limit: int, columns: int, seconds: float) -> str:
    """The answer's size in a sentence."""
    took = "under 0.1 s" if seconds < 0.1 else f"{seconds:.1f} s"
    took = took if seconds < 10 else words.duration(seconds)
    wide = f"{columns} column" if columns == 1 else f"{columns} columns"
    if rows > limit:
        return f"The first {limit:,} rows of {wide}, in {took}; there are more."
    if rows == 0:
        return f"No rows, in {took}."
    return f"{rows:,} {'row' if rows == 1 else 'rows'} of {wide}, in {took}."


def for_table(frame: pl.DataFrame) -> pl.DataFrame:
    """The answer as a browser can show it: no more than it can take, whole numbers that are too
    long for it as text."""
    long = [name for name, kind in frame.schema.items() if kind in (pl.Int128, pl.UInt128)]
    size = int(frame.estimated_size())
    rows = frame.height if size <= _TABLE_BYTES else max(1, frame.height * _TABLE_BYTES // size)
    return frame.head(rows).with_columns(pl.col(long).cast(pl.String))


def views() -> dict[str, documented.View]:
    """The views that can be asked, in the order of the document."""
    return documented.VIEWS


def columns_of(view: documented.View) -> pl.DataFrame:
    """The columns of a view with their units and meanings."""
    return pl.DataFrame(
        {
            "column": [column.name for column in view.columns],
            "unit": [column.unit or None for column in view.columns],
            "meaning": [column.meaning.replace("`", "") for column in view.columns],
        },
        schema={"column": pl.String, "unit": pl.String, "meaning": pl.String},
    )


def answer_titles(names: Sequence[str], query: str) -> dict[str, Any]:
    """Unit and meaning of those columns of an answer that a view in its question documents."""
    asked = [view for name, view in documented.VIEWS.items() if re.search(rf"\b{name}\b", query)]
    known = {column.name: (column, view) for view in reversed(asked) for column in view.columns}
    return {
        name: st.column_config.Column(
            f"{name}, {column.unit}" if column.unit else name,
            help=f"Of the view {view.name}: {column.meaning}.",
        )
        for name, (column, view) in known.items()
        if name in names
    }


def column_titles() -> dict[str, Any]:
    """Titles of `columns_of`."""
    text = st.column_config.TextColumn
    return {
        "column": text("Column"),
        "unit": text("Unit"),
        "meaning": text("Meaning", width="large"),
    }
