"""Rows of single prompts, gathered into one point.

Throughput is tokens over seconds summed over the prompts, never a mean of printed rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from parsers.bench.points import Point, keep, new_point, note, odd, put

_ENOUGH = 10  # prompts for a high percentile to mean anything


@dataclass(slots=True)
class Row:
    """What one prompt took."""

    index: int | None = None
    seconds: float | None = None
    output_tokens: float | None = None
    input_tokens: float | None = None
    rate: float | None = None  # tokens per second, as printed
    columns: dict[str, float] = field(default_factory=dict)  # latencies, in milliseconds

    def tokens(self) -> float | None:
        """Tokens of the answer: counted, else the rate times the seconds."""
        if self.output_tokens is not None:
            return self.output_tokens
        return None if self.rate is None or self.seconds is None else self.rate * self.seconds


def gather(tool: str, rows: Sequence[Row], concurrency: int | None, title: str) -> Point:
    """The point of a group of rows; `concurrency` as stated, None if it is not."""
    point = new_point(tool, num_prompts=len(rows), completed=len(rows))
    put(point, "concurrency", float(concurrency or 1))
    if concurrency is None:
        odd(point, "The concurrency is not stated; taken as one request after another.")
    for side in ("input", "output"):
        counted = [getattr(row, f"{side}_tokens") for row in rows]
        if all(count is not None for count in counted):
            put(point, f"{side}_tokens", round(sum(counted)))
    seconds = [row.seconds for row in rows if row.seconds is not None]
    tokens = [count for row in rows if (count := row.tokens()) is not None]
    if concurrency in (None, 1) and len(seconds) == len(rows):
        put(point, "duration_s", sum(seconds))
        if len(tokens) == len(rows) and sum(seconds) > 0:
            put(point, "output_tok_s", sum(tokens) / sum(seconds))
            note(point, "Throughput is tokens over seconds of the prompts, summed.")
    _put_statistics(point, "e2e", [second * 1000 for second in seconds])
    for metric in ("ttft", "tpot", "itl"):
        name = f"{metric}_ms_mean"
        _put_statistics(point, metric, [r.columns[name] for r in rows if name in r.columns])
    keep(point, {"per_prompt_tok_s": [row.rate for row in rows if row.rate is not None]})
    if title:
        keep(point, {"title": title})
    return point


def _put_statistics(point: Point, metric: str, values: Sequence[float]) -> None:
    if not values:
        return
    put(point, f"{metric}_ms_mean", float(np.mean(values)))
    put(point, f"{metric}_ms_median", float(np.median(values)))
    if len(values) >= _ENOUGH:
        for percentile in (90, 95, 99):
            put(point, f"{metric}_ms_p{percentile}", float(np.percentile(values, percentile)))
