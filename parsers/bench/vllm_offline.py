"""`vllm bench throughput`, `latency`, and `benchmark_throughput.py`, `benchmark_latency.py`.

Text and JSON. Everything is seconds. Latency is that of a whole batch, so it goes to `e2e` with
a note; nothing is known of its first token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from parsers.bench.points import Point, keep, new_point, note, number, put
from parsers.bench.serving_text import clean

THROUGHPUT = "vllm bench throughput"
LATENCY = "vllm bench latency"
BATCH = "Latencies are of a whole batch, from its first prompt token to its last output token."

_THROUGHPUT = re.compile(
    r"Throughput: ([0-9.]+) requests/s, ([0-9.]+) (?:total )?tokens/s"
    r"(?:, ([0-9.]+) output tokens/s)?"
)
_TOKENS = re.compile(r"Total num (prompt|output) tokens:\s+([0-9]+)")
_AVERAGE = re.compile(r"Avg latency: ([0-9.e+-]+) seconds")
_PERCENTILE = re.compile(r"([0-9.]+)% percentile latency: ([0-9.e+-]+) seconds")
_STATISTICS = {"50": "median", "90": "p90", "95": "p95", "99": "p99"}


def points(text: str) -> list[Point]:
    """The points that these commands printed into a text."""
    found: list[Point] = []
    for raw in text.splitlines():
        line = clean(raw)
        if match := _THROUGHPUT.search(line):
            found.append(_throughput(*(number(group) for group in match.groups())))
        elif match := _TOKENS.search(line):
            if found and found[-1]["tool"] == THROUGHPUT:
                side = "input" if match[1] == "prompt" else "output"
                put(found[-1], f"{side}_tokens", int(match[2]))
        elif match := _AVERAGE.search(line):
            found.append(_latency(number(match[1])))
        elif (match := _PERCENTILE.search(line)) and found and found[-1]["tool"] == LATENCY:
            _put_percentile(found[-1], match[1], number(match[2]))
    return found


def point(result: Mapping[str, Any]) -> Point | None:
    """The point of one JSON result; None if it is none of these commands."""
    if {"requests_per_second", "tokens_per_second", "elapsed_time"} <= result.keys():
        found = _throughput(
            number(result["requests_per_second"]), number(result["tokens_per_second"]), None
        )
        put(found, "duration_s", number(result["elapsed_time"]))
        if (requests := number(result.get("num_requests"))) is not None:
            put(found, "completed", int(requests))
        used = {"requests_per_second", "tokens_per_second", "elapsed_time", "num_requests"}
    elif "avg_latency" in result and isinstance(result.get("percentiles"), Mapping):
        found = _latency(number(result["avg_latency"]))
        for percentile, value in result["percentiles"].items():
            _put_percentile(found, str(percentile), number(value))
        used = {"avg_latency", "percentiles"}
    else:
        return None
    if isinstance(result.get("model_id"), str):
        put(found, "model", result["model_id"])
        used.add("model_id")
    keep(found, result, used)
    return found


def _throughput(requests: float | None, total: float | None, output: float | None) -> Point:
    return new_point(
        THROUGHPUT, request_throughput_rps=requests, total_tok_s=total, output_tok_s=output
    )


def _latency(mean_s: float | None) -> Point:
    found = new_point(LATENCY, e2e_ms_mean=None if mean_s is None else mean_s * 1000)
    note(found, BATCH)
    return found


def _put_percentile(found: Point, percentile: str, seconds: float | None) -> None:
    if seconds is None:
        return
    if percentile in _STATISTICS:
        put(found, f"e2e_ms_{_STATISTICS[percentile]}", seconds * 1000)
    else:
        keep(found, {f"{percentile}% percentile latency (s)": seconds})
