"""AIPerf (`profile_export_aiperf.json`, `.csv`) and its ancestor GenAI-Perf.

Every metric names its unit. What AIPerf calls inter-token latency is, a request, the time after
the first token over the tokens after it: the TPOT of the other tools, so it stands under both
names; the gap between streamed chunks (their ITL) is kept as `inter_chunk_latency`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from parsers.bench.points import (
    Found,
    Point,
    keep,
    new_point,
    note,
    number,
    printed_clock,
    put,
    put_summary,
)

TOOL = "AIPerf"
DEFINITION = (
    "AIPerf's ITL is a mean over each request without its first token, so it stands as TPOT too; "
    "other tools' ITL, the gap between streamed chunks, is its inter_chunk_latency."
)
_NAMES = {"avg": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
_LATENCIES = {
    "time_to_first_token": ("ttft",),
    "inter_token_latency": ("itl", "tpot"),
    "request_latency": ("e2e",),
}
_TO_MS = {"ms": 1.0, "sec": 1000.0, "s": 1000.0, "us": 0.001, "ns": 1e-6}
_VALUES = {
    "request_throughput": "request_throughput_rps",
    "output_token_throughput": "output_tok_s",
    "total_token_throughput": "total_tok_s",
    "benchmark_duration": "duration_s",
    "request_count": "completed",
    "error_request_count": "failed",
    "total_isl": "input_tokens",
    "total_osl": "output_tokens",
}
_COUNTS = {"completed", "failed", "input_tokens", "output_tokens"}
# The CSV's titles -> the JSON's names, where they are not the same words.
_TITLES = {
    "total_input_sequence_length": "total_isl",
    "total_output_sequence_length": "total_osl",
    "error_request_count": "error_request_count",
}


def is_report(document: Any) -> bool:
    """Whether a JSON document is AIPerf's export."""
    return (
        isinstance(document, Mapping)
        and ("aiperf_version" in document or _is_metric(document.get("request_latency")))
        and _is_metric(document.get("request_throughput"))
    )


def _is_metric(value: Any) -> bool:
    return isinstance(value, Mapping) and "unit" in value and "avg" in value


def read_json(document: Mapping[str, Any]) -> Found:
    """The one point of an export."""
    version = document.get("aiperf_version")
    found = new_point(
        TOOL,
        tool_version=version if isinstance(version, str) else None,
    )
    printed_clock(found, document.get("start_time"))
    metrics = {name: value for name, value in document.items() if _is_metric(value)}
    _put_metrics(found, metrics)
    config = document.get("input_config")
    if isinstance(config, Mapping):
        _put_config(found, config)
    if document.get("was_cancelled"):
        keep(found, {"was_cancelled": True})
    return Found("AIPerf JSON", [found])


def _put_metrics(found: Point, metrics: Mapping[str, Mapping[str, Any]]) -> None:
    used = set()
    for name, columns in _LATENCIES.items():
        if name in metrics:
            factor = _TO_MS.get(str(metrics[name].get("unit", "ms")), 1.0)
            for column in columns:
                put_summary(found, column, metrics[name], factor, _NAMES)
            used.add(name)
    if "inter_token_latency" in metrics:
        note(found, DEFINITION)
    for name, column in _VALUES.items():
        if name in metrics and (value := number(metrics[name].get("avg"))) is not None:
            put(found, column, round(value) if column in _COUNTS else value)
            used.add(name)
    rest = {name: number(metrics[name].get("avg")) for name in metrics if name not in used}
    keep(found, {name: value for name, value in rest.items() if not name.startswith("http_")})


def _put_config(found: Point, config: Mapping[str, Any]) -> None:
    """What was asked for; nested since 0.13, flat under `loadgen` and `endpoint` before."""
    phases = config.get("phases")
    if isinstance(phases, list):
        loads = [p for p in phases if isinstance(p, Mapping) and p.get("kind") == "profiling"]
    else:
        loads = [config["loadgen"]] if isinstance(config.get("loadgen"), Mapping) else []
    for load in loads:
        put(found, "concurrency", number(load.get("concurrency")))
        put(found, "request_rate", number(load.get("request_rate", load.get("rate"))))
        asked = number(load.get("requests", load.get("request_count")))
        put(found, "num_prompts", None if asked is None else int(asked))
    models = config.get("models")
    items = models.get("items") if isinstance(models, Mapping) else None
    endpoint = config.get("endpoint")
    names = endpoint.get("model_names") if isinstance(endpoint, Mapping) else None
    if isinstance(items, list) and items and isinstance(items[0], Mapping):
        put(found, "model", items[0].get("name"))
    elif isinstance(names, list) and names:
        put(found, "model", str(names[0]))
    if isinstance(endpoint, Mapping):
        urls = endpoint.get("urls") or endpoint.get("url")
        keep(found, {"target": urls[0] if isinstance(urls, list) and urls else urls})
    data = config.get("datasets")
    if isinstance(data, list) and data and isinstance(data[0], Mapping):
        put(found, "dataset", data[0].get("type"))


def is_csv(text: str) -> bool:
    """Whether a CSV is AIPerf's: a block of metrics with their statistics, then one of values."""
    return text.startswith("Metric,avg,min,max")


def read_csv(text: str) -> Found:
    """The one point of a CSV export. It names neither the load nor the model."""
    metrics: dict[str, dict[str, Any]] = {}
    header: list[str] = []
    for row in csv.reader(io.StringIO(text)):
        if not row or not row[0]:
            continue
        if row[0] == "Metric":
            header = row
        elif header and header[0] == "Metric" and row[0] != "Endpoint":
            name, unit = _title(row[0])
            values = dict(zip(header[1:], row[1:], strict=False))
            metrics[name] = {"unit": unit, "avg": values.get("Value"), **values}
        elif row[0] == "Endpoint":
            header = row  # a table of GPUs follows
    found = new_point(TOOL)
    _put_metrics(found, metrics)
    rate = number((metrics.get("request_error_rate") or {}).get("avg"))
    every = number((metrics.get("completed_requests") or {}).get("avg"))
    if rate is not None and every is not None:
        put(found, "failed", round(rate * every / 100))
    return Found("AIPerf CSV", [found])


def _title(text: str) -> tuple[str, str]:
    """Name and unit of `Time to First Token (ms)`; the CSV adds a sentence to some names."""
    match = re.fullmatch(r"(.*?)(?: \([A-Z][^)]*\))?(?: \(([^)]*)\))?", text)
    words, unit = (match[1], match[2] or "") if match else (text, "")
    name = re.sub(r"\W+", "_", words.lower()).strip("_")
    return _TITLES.get(name, name), unit
