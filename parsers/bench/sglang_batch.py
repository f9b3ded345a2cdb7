"""`sglang.bench_one_batch`, `bench_one_batch_server` and `bench_offline_throughput`.

Text and JSON lines. Everything is seconds and tokens per second over the whole batch; -1 means
not available. `last_ttft` (to 0.5.5 `ttft`) is the time until all requests of the batch have a
first token. The server variant's Markdown table is read as a table made by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from parsers.bench.points import Point, keep, new_point, note, number, put, scalar
from parsers.bench.serving_text import OFFLINE, clean
from parsers.bench.vllm_offline import BATCH

ONE_BATCH = "sglang.bench_one_batch"
SERVER = "sglang.bench_one_batch_server"
ALL_FIRST = "TTFT is the time until every request of the batch has its first token."

_BATCH_LINE = re.compile(
    r"(Prefill|Decode|Total)(?: ?[0-9]*)\.\s+(?:Batch size: (?P<size>[0-9]+), )?"
    r"(?P<median>median )?latency:\s+(?P<latency>[0-9.]+) s, "
    r"(?:median )?throughput:\s+(?P<rate>[0-9.]+) token/s"
)
_FIELD = re.compile(
    r"(batch size|input_len|output_len|latency|ttft|last_ttft|acc_length|cache hit rate"
    r"|last generation throughput|input throughput|output throughput|total output tokens"
    r"|\(input \+ output\) throughput|early-stopped requests|steady-state output throughput)"
    r":\s+(.+?)\s*$"
)
_FIRST_FIELD = re.compile(r"batch size:\s+[0-9]+\s*$")


def points(text: str) -> list[Point]:
    """The points that these commands printed into a text, their warm-ups left out."""
    lines = [clean(raw) for raw in text.splitlines()]
    return _one_batch(lines) + _server(lines)


def point(result: Mapping[str, Any]) -> Point | None:
    """The point of one JSON line; None if it is of none of these commands."""
    if "prefill_latency" in result and "batch_size" in result:
        return _one_batch_json(result)
    if {"batch_size", "latency", "output_throughput"} <= result.keys():
        return _server_json(result)
    if {"successful_requests", "total_latency", "output_throughput"} <= result.keys():
        return _offline_json(result)
    return None


def _positive(value: Any) -> float | None:
    """A measured value; -1 means not available."""
    read = number(value)
    return None if read is None or read < 0 else read


def _milliseconds(value: Any) -> float | None:
    seconds = _positive(value)
    return None if seconds is None else seconds * 1000


def _batch(
    tool: str, size: float | None, input_len: float | None, output_len: float | None
) -> Point:
    """A point of one batch: its size is the concurrency, its lengths give the tokens."""
    found = new_point(tool, concurrency=size)
    note(found, BATCH)
    if size is not None:
        for side, length in (("input", input_len), ("output", output_len)):
            if length is not None:
                put(found, f"{side}_tokens", int(size * length))
                keep(found, {f"{side}_len": int(length)})
    return found


def _one_batch(lines: list[str]) -> list[Point]:
    found: list[Point] = []
    begun = any(line.startswith("Benchmark ...") for line in lines)
    inside = not begun  # a paste without the line where the warm-up ends
    current: Point | None = None
    for line in lines:
        if line.startswith(("Benchmark ...", "Warmup ...")):
            inside = line.startswith("Benchmark ...")
        elif inside and (match := _BATCH_LINE.search(line)):
            if match[1] == "Prefill" or current is None:
                current = _batch(ONE_BATCH, None, None, None)
                found.append(current)
            _put_line(current, match)
    return found


def _put_line(found: Point, match: re.Match[str]) -> None:
    latency_s, rate = float(match["latency"]), float(match["rate"])
    put(found, "concurrency", number(match["size"]))
    if match[1] == "Prefill":
        put(found, "ttft_ms_mean", latency_s * 1000)
        keep(found, {"prefill throughput (token/s)": rate})
    elif match[1] == "Total":
        put(found, "duration_s", latency_s)
        put(found, "e2e_ms_mean", latency_s * 1000)
        put(found, "total_tok_s", rate)
    elif match["median"]:
        put(found, "tpot_ms_median", latency_s * 1000)
        put(found, "output_tok_s", rate)


def _one_batch_json(result: Mapping[str, Any]) -> Point:
    found = _batch(
        ONE_BATCH, *(number(result.get(name)) for name in ("batch_size", "input_len", "output_len"))
    )
    put(found, "ttft_ms_mean", _milliseconds(result.get("prefill_latency")))
    put(found, "tpot_ms_median", _milliseconds(result.get("median_decode_latency")))
    put(found, "output_tok_s", _positive(result.get("median_decode_throughput")))
    put(found, "e2e_ms_mean", _milliseconds(result.get("total_latency")))
    put(found, "duration_s", _positive(result.get("total_latency")))
    # `total_throughput` before 0.3.6
    overall = result.get("overall_throughput", result.get("total_throughput"))
    put(found, "total_tok_s", _positive(overall))
    keep(found, result, _JSON_COLUMNS)
    return found


_JSON_COLUMNS = (
    "batch_size", "input_len", "output_len", "prefill_latency", "median_decode_latency",
    "median_decode_throughput", "total_latency", "overall_throughput", "total_throughput",
    "latency", "output_throughput", "last_ttft", "ttft", "acc_length", "total_output_tokens",
    "model_path", "successful_requests", "total_input_tokens", "request_throughput", "backend",
)  # fmt: skip


def _server_json(result: Mapping[str, Any]) -> Point:
    found = _batch(
        SERVER, *(number(result.get(name)) for name in ("batch_size", "input_len", "output_len"))
    )
    if (output := _positive(result.get("total_output_tokens"))) is not None:
        found["output_tokens"] = int(output)  # fewer where requests stopped early
    put(found, "duration_s", _positive(result.get("latency")))
    put(found, "e2e_ms_mean", _milliseconds(result.get("latency")))
    _put_first(found, result.get("last_ttft", result.get("ttft")))
    put(found, "output_tok_s", _positive(result.get("output_throughput")))
    put(found, "total_tok_s", _positive(result.get("overall_throughput")))
    put(found, "accept_len", _positive(result.get("acc_length")))
    if isinstance(result.get("model_path"), str):
        put(found, "model", result["model_path"])
    keep(found, {k: v for k, v in result.items() if v != -1}, _JSON_COLUMNS)
    return found


def _put_first(found: Point, seconds: Any) -> None:
    first = _milliseconds(seconds)
    if first is not None:
        put(found, "ttft_ms_mean", first)
        note(found, ALL_FIRST)


def _offline_json(result: Mapping[str, Any]) -> Point:
    found = new_point(
        OFFLINE,
        duration_s=_positive(result["total_latency"]),
        request_throughput_rps=_positive(result.get("request_throughput")),
        output_tok_s=_positive(result["output_throughput"]),
        total_tok_s=_positive(result.get("total_throughput")),
    )
    for name, column in (
        ("successful_requests", "completed"),
        ("total_input_tokens", "input_tokens"),
        ("total_output_tokens", "output_tokens"),
    ):
        if (value := _positive(result.get(name))) is not None:
            put(found, column, int(value))
    keep(found, result, set(_JSON_COLUMNS) - {"backend"})
    return found


def _server(lines: list[str]) -> list[Point]:
    groups: list[dict[str, str]] = []
    warm = False
    for line in lines:
        if "Warmup Begin" in line or "Warmup End" in line:
            warm = "Begin" in line
        elif not warm:
            if _FIRST_FIELD.match(line):
                groups.append({})
            if groups and (match := _FIELD.match(line)):
                groups[-1].setdefault(match[1], match[2])
    return [_server_point(fields) for fields in groups if "output throughput" in fields]


def _server_point(fields: Mapping[str, str]) -> Point:
    found = _batch(
        SERVER, *(number(fields.get(name)) for name in ("batch size", "input_len", "output_len"))
    )
    if (output := _positive(fields.get("total output tokens"))) is not None:
        found["output_tokens"] = int(output)
    put(found, "duration_s", _positive(fields.get("latency")))
    put(found, "e2e_ms_mean", _milliseconds(fields.get("latency")))
    _put_first(found, fields.get("last_ttft", fields.get("ttft")))
    put(found, "output_tok_s", _positive(fields["output throughput"]))
    put(found, "total_tok_s", _positive(fields.get("(input + output) throughput")))
    put(found, "accept_len", _positive(fields.get("acc_length")))
    keep(found, {name: scalar(value) for name, value in fields.items()}, _TEXT_COLUMNS)
    return found


_TEXT_COLUMNS = (
    "batch size", "input_len", "output_len", "latency", "ttft", "last_ttft", "acc_length",
    "output throughput", "(input + output) throughput", "total output tokens",
)  # fmt: skip
