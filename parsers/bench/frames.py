"""Points as rows of `parsers.records.BENCH_RESULTS`, each with an id of what was measured.

The text and the JSON of one run print the same values with more or fewer digits. The id is made
of values that both have, to two decimals, so that both are the same point.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import Any

import polars as pl

from parsers import records
from parsers.bench import sglang_batch, tables, vllm_offline
from parsers.bench.points import Point, is_finite
from parsers.bench.prose import TOOL as PROSE
from parsers.server_args import redact_text

_SERVING = (
    "duration_s", "completed", "input_tokens", "output_tokens", "request_throughput_rps",
    "output_tok_s", "ttft_ms_mean",
)  # fmt: skip
_BATCH = ("concurrency", "duration_s", "output_tok_s")
_IDENTITY = {
    vllm_offline.THROUGHPUT: ("request_throughput_rps", "total_tok_s"),
    vllm_offline.LATENCY: ("e2e_ms_mean", "e2e_ms_median", "e2e_ms_p99"),
    sglang_batch.ONE_BATCH: _BATCH,
    sglang_batch.SERVER: _BATCH,
}
BY_HAND = (tables.TOOL, PROSE)


def rows(points: Iterable[Point], bench_file: str, label: str | None = None) -> list[Point]:
    """The points with bench_id, bench_file, label and position; of equal ones the first.

    Args:
        points: in the order of the file.
        bench_file: its path.
        label: for all of them; what the file itself says of a point goes on top.
    """
    made: dict[str, Point] = {}
    seen: dict[str, int] = {}
    for position, point in enumerate(points, start=1):
        text = _identity(point, PurePath(bench_file).name)
        times = seen[text] = seen.get(text, 0) + 1
        if times > 1 and point["tool"] in BY_HAND:  # two equal rows are two measurements
            text += f"#{times}"
        bench_id = hashlib.blake2b(text.encode(), digest_size=10).hexdigest()
        own = point.get("label")
        name = f"{label} · {own}" if label and own else label or own
        row = {**point, "bench_id": bench_id, "bench_file": bench_file, "label": name}
        made.setdefault(bench_id, {**row, "position": position})
    return list(made.values())


def _identity(point: Point, file_name: str) -> str:
    """What tells this point from every other one."""
    tool = point["tool"]
    names = _IDENTITY.get(tool, _SERVING)
    known = {name: f"{point[name]:.2f}" for name in names if name in point}
    if tool not in BY_HAND and len(known) >= min(3, len(names)):
        return json.dumps([tool, known], sort_keys=True)
    # Little is known: a name of the file keeps apart what two set-ups measured alike.
    columns = {name: value for name, value in point.items() if name != "extra"}
    said = {name: value for name, value in point["extra"].items() if name != "notes"}
    return json.dumps([file_name, columns, said], sort_keys=True, default=str)


def frame(made: Sequence[Point]) -> pl.DataFrame:
    """Rows as a frame with the columns of BENCH_RESULTS; `extra` as JSON."""
    return records.frame(map(_flat, made), records.BENCH_RESULTS)


def _flat(row: Point) -> dict[str, Any]:
    extra = {name: value for name, value in row["extra"].items() if value not in (None, [], {}, "")}
    text = json.dumps(extra, ensure_ascii=False, default=str) if extra else None
    typed = {name: _typed(row.get(name), kind) for name, kind in records.BENCH_RESULTS.items()}
    for name in ("model", "dataset", "label"):
        if typed[name] is not None:
            typed[name] = redact_text(typed[name])
    return {name: storable(value) for name, value in {**typed, "extra": text}.items()}


def storable(value: Any) -> Any:
    """Text without what is no UTF-8: halves of characters in JSON, odd bytes in a file's name."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _typed(value: Any, kind: pl.DataType) -> Any:
    """The value if the column can hold it: a damaged file must not stop the whole ones."""
    if kind == records.TEXT:
        return value if isinstance(value, str) else None
    if kind == records.TIME:
        return value if isinstance(value, datetime) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
        return None
    if kind == records.REAL:
        return float(value)
    most = 2**31 if kind == records.INT else 2**63
    return int(value) if abs(value) < most else None
