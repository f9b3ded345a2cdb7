"""`NAME.pytorch.json`: vLLM's results as PyTorch benchmark records, one a metric.

Each record repeats the whole result under `extra_info`, so one of them is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parsers.bench import serving_json, vllm_offline
from parsers.bench.points import Point


def is_records(document: Any) -> bool:
    """Whether a JSON list holds such records."""
    return (
        isinstance(document, list)
        and bool(document)
        and all(
            isinstance(one, Mapping)
            and isinstance(one.get("metric"), Mapping)
            and isinstance(one.get("benchmark"), Mapping)
            for one in document
        )
    )


def points(records: Sequence[Mapping[str, Any]]) -> list[Point]:
    """One point for each result that the records tell of."""
    found: list[Point] = []
    for result in _results(records):
        point = serving_json.point(result) or vllm_offline.point(result)
        if point is not None and point not in found:
            found.append(point)
    return found


def _results(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The result behind each record, with the metrics that only the records themselves name."""
    merged: dict[str, dict[str, Any]] = {}
    for record in records:
        metric = record["metric"]
        info = metric.get("extra_info")
        result = dict(info) if isinstance(info, Mapping) else {}
        key = str(sorted((name, str(value)) for name, value in result.items()))
        into = merged.setdefault(key, result)
        values = metric.get("benchmark_values")
        if isinstance(values, list) and len(values) == 1 and isinstance(metric.get("name"), str):
            into.setdefault(metric["name"], values[0])
        model = record.get("model")
        if isinstance(model, Mapping) and isinstance(model.get("name"), str):
            into.setdefault("model_id", model["name"])
    return list(merged.values())
