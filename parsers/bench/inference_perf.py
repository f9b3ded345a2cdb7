"""inference-perf (Kubernetes SIG): `summary_lifecycle_metrics.json` and the file of each stage.

Seconds throughout. Its time per output token leaves the first token out, as TPOT does; the
normalised one (request latency over output tokens) is kept under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsers.bench.points import Found, Point, count, keep, new_point, number, put, put_summary

TOOL = "inference-perf"
_NAMES = {"mean": "mean", "median": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
_LATENCIES = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "request_latency": "e2e",
}


def is_report(document: Any) -> bool:
    """Whether a JSON document is a lifecycle report."""
    return (
        isinstance(document, Mapping)
        and isinstance(document.get("successes"), Mapping)
        and ("load_summary" in document or "failures" in document)
    )


def read_json(document: Mapping[str, Any]) -> Found:
    """The one point of a report."""
    successes = document["successes"]
    load, failures = _inside(document, "load_summary"), _inside(document, "failures")
    latency, rates = _inside(successes, "latency"), _inside(successes, "throughput")
    found = new_point(
        TOOL,
        num_prompts=count(load.get("count")),
        completed=count(successes.get("count")),
        failed=count(failures.get("count")),
        request_rate=number(load.get("requested_rate")),
        concurrency=number(load.get("concurrency")),
        duration_s=number(load.get("duration", successes.get("total_time"))),
        request_throughput_rps=number(rates.get("requests_per_sec")),
        output_tok_s=number(rates.get("output_tokens_per_sec")),
        total_tok_s=number(rates.get("total_tokens_per_sec")),
    )
    for name, metric in _LATENCIES.items():
        put_summary(found, metric, latency.get(name), 1000, _NAMES)
    _put_tokens(found, successes)
    keep(
        found,
        {
            "achieved_rate": load.get("achieved_rate"),
            "send_duration": load.get("send_duration"),
            "normalized_time_per_output_token": _inside(
                latency, "normalized_time_per_output_token"
            ).get("mean"),
        },
    )
    return Found("inference-perf JSON", [found])


def _put_tokens(found: Point, successes: Mapping[str, Any]) -> None:
    """Lengths are means over requests; `prompt_len` became `prompt_tokens`."""
    for names, column in (
        (("prompt_len", "prompt_tokens"), "input_tokens"),
        (("output_len", "output_tokens"), "output_tokens"),
    ):
        for name in names:
            mean = number(_inside(successes, name).get("mean"))
            if mean is not None and "completed" in found:
                put(found, column, round(mean * found["completed"]))


def _inside(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    held = value.get(name)
    return held if isinstance(held, Mapping) else {}
