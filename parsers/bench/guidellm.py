"""GuideLLM: `benchmarks.json` and `benchmarks.csv`, one point a strategy.

Request latency is seconds, other latencies milliseconds. GuideLLM's time per output token counts
the first token too (request latency over output tokens), so it is not the TPOT of the others;
theirs is what GuideLLM calls inter-token latency.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from parsers.bench.points import (
    Found,
    Point,
    count,
    keep,
    moment,
    new_point,
    note,
    number,
    printed_clock,
    put,
    put_summary,
)

TOOL = "GuideLLM"
DEFINITION = (
    "GuideLLM's TPOT counts the first token (request latency / output tokens); what other tools "
    "call TPOT is its ITL."
)
_STATISTICS = {"mean": "mean", "median": "median"}
_PERCENTILES = {"p90": "p90", "p95": "p95", "p99": "p99"}
_LATENCIES = {
    "time_to_first_token_ms": ("ttft", 1),
    "time_per_output_token_ms": ("tpot", 1),
    "inter_token_latency_ms": ("itl", 1),
    "request_latency": ("e2e", 1000),
}
_RATES = {
    "requests_per_second": "request_throughput_rps",
    "output_tokens_per_second": "output_tok_s",
    "tokens_per_second": "total_tok_s",
}
# Percentiles of a CSV cell, in this order.
_CSV_PERCENTILES = ("p001", "p01", "p05", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p999")


def is_report(document: Any) -> bool:
    """Whether a JSON document is GuideLLM's."""
    return (
        isinstance(document, Mapping)
        and isinstance(document.get("benchmarks"), list)
        and any(
            isinstance(one, Mapping) and isinstance(one.get("metrics"), Mapping)
            for one in document["benchmarks"]
        )
    )


def read_json(document: Mapping[str, Any]) -> Found:
    """Every benchmark of a report."""
    about = document.get("metadata")
    version = about.get("guidellm_version") if isinstance(about, Mapping) else None
    points = [
        _point(one, version)
        for one in document["benchmarks"]
        if isinstance(one, Mapping) and isinstance(one.get("metrics"), Mapping)
    ]
    return Found("GuideLLM JSON", points)


def _point(one: Mapping[str, Any], version: Any) -> Point:
    metrics = one["metrics"]
    found = new_point(
        TOOL,
        tool_version=version if isinstance(version, str) else None,
        started_at=moment(one.get("start_time")),
        duration_s=number(one.get("duration")),
    )
    note(found, DEFINITION)
    for name, (metric, factor) in _LATENCIES.items():
        values = _successful(metrics.get(name))
        put_summary(found, metric, values, factor, _STATISTICS)
        put_summary(found, metric, values.get("percentiles"), factor, _PERCENTILES)
    for name, column in _RATES.items():
        put(found, column, number(_successful(metrics.get(name)).get("mean")))
    for name, column in (
        ("prompt_token_count", "input_tokens"),
        ("output_token_count", "output_tokens"),
    ):
        put(found, column, count(_successful(metrics.get(name)).get("total_sum")))
    _put_requests(found, metrics.get("request_totals") or one.get("request_totals"))
    _put_load(found, one)
    concurrency = _successful(metrics.get("request_concurrency")).get("mean")
    keep(found, {"request_concurrency": concurrency, "warnings": one.get("warnings")})
    return found


def _successful(metric: Any) -> Mapping[str, Any]:
    """The statistics over successful requests."""
    values = metric.get("successful") if isinstance(metric, Mapping) else None
    return values if isinstance(values, Mapping) else {}


def _put_requests(found: Point, totals: Any) -> None:
    if isinstance(totals, Mapping):
        put(found, "num_prompts", count(totals.get("total")))
        put(found, "completed", count(totals.get("successful")))
        put(found, "failed", count(totals.get("errored")))
        keep(found, {"incomplete": totals.get("incomplete")})


def _put_load(found: Point, one: Mapping[str, Any]) -> None:
    """Concurrency or rate of the strategy, and the model; `args` before 0.4, `config` since."""
    config: Any = one.get("config") or one.get("args") or {}
    strategy = config.get("strategy") if isinstance(config, Mapping) else None
    if isinstance(strategy, Mapping):
        put(found, "concurrency", number(strategy.get("streams")))
        put(found, "request_rate", number(strategy.get("rate")))
        keep(found, {"strategy": strategy.get("type_")})
    backend = config.get("backend") if isinstance(config, Mapping) else None
    if isinstance(backend, Mapping):
        model = backend.get("model")
        put(found, "model", model if isinstance(model, str) else None)
        keep(found, {"target": backend.get("target")})


def is_csv(text: str) -> bool:
    """Whether a CSV is GuideLLM's: three header rows, the groups first."""
    return text.startswith(("Run Info,", "Type,Run Id,", "Benchmark,Benchmark,"))


def read_csv(text: str) -> Found:
    """Every row of the CSV that GuideLLM writes beside its JSON."""
    csv.field_size_limit(1 << 24)
    rows = list(csv.reader(io.StringIO(text)))
    if len(rows) < 4:
        return Found("GuideLLM CSV", [], notes=["it has headers only"])
    names = [tuple(part.strip() for part in column) for column in zip(*rows[:3], strict=False)]
    return Found(
        "GuideLLM CSV", [_csv_point(dict(zip(names, row, strict=False))) for row in rows[3:]]
    )


def _csv_point(cells: Mapping[tuple[str, ...], str]) -> Point:
    def cell(group: str, name: str, sub: str = "") -> str | None:
        return cells.get((group, name, sub)) or None

    metadata = _object(cell("Runtime Info", "Metadata"))
    version = metadata.get("guidellm_version")
    found = new_point(
        TOOL,
        tool_version=version if isinstance(version, str) else None,
        duration_s=number(cell("Timings", "Duration", "Sec")),
        num_prompts=count(cell("Request Counts", "Total")),
        completed=count(cell("Request Counts", "Successful")),
        failed=count(cell("Request Counts", "Errored")),
        request_throughput_rps=number(cell("Server Throughput", "Successful Requests/Sec", "Mean")),
        output_tok_s=number(cell("Token Throughput", "Successful Output Tokens/Sec", "Mean")),
        total_tok_s=number(cell("Token Throughput", "Successful Total Tokens/Sec", "Mean")),
    )
    printed_clock(found, cell("Timings", "Measure Start Time") or cell("Timings", "Start Time"))
    note(found, DEFINITION)
    for group, unit, metric, factor in (
        ("Time to First Token", "ms", "ttft", 1),
        ("Time per Output Token", "ms", "tpot", 1),
        ("Inter Token Latency", "ms", "itl", 1),
        ("Request Latency", "Sec", "e2e", 1000),
    ):
        values = {sub: cell(group, f"Successful {unit}", sub) for sub in ("Mean", "Median")}
        put_summary(found, metric, values, factor, {"Mean": "mean", "Median": "median"})
        listed = _list(cell(group, f"Successful {unit}", "Percentiles"))
        percentiles = dict(zip(_CSV_PERCENTILES, listed, strict=False))
        put_summary(found, metric, percentiles, factor, _PERCENTILES)
    completed = found.get("completed")
    for side, column in (("Input", "input_tokens"), ("Output", "output_tokens")):
        mean = number(cell("Token Metrics", f"Successful {side} Tokens", "Mean"))
        if mean is not None and completed is not None:
            put(found, column, round(mean * completed))
    _put_strategy(found, cell("Benchmark", "Strategy") or "")
    model = _object(cell("Run Info", "Backend")).get("model")
    put(found, "model", model if isinstance(model, str) else None)
    return found


def _put_strategy(found: Point, strategy: str) -> None:
    """`concurrent@4`, `constant@2.00`: the kind of load and how much."""
    kind, _, amount = strategy.partition("@")
    keep(found, {"strategy": strategy})
    column = {"concurrent": "concurrency", "constant": "request_rate", "poisson": "request_rate"}
    if kind in column:
        put(found, column[kind], number(amount))


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        held = json.loads(text or "{}")
    except ValueError:
        return {}
    return held if isinstance(held, Mapping) else {}


def _list(text: str | None) -> list[Any]:
    try:
        held = json.loads(text or "[]")
    except ValueError:
        return []
    return held if isinstance(held, list) else []
