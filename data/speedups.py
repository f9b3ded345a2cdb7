"""A comparison number by number: what each side has, their ratio, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from data import intervals
from data.compare import RATES, Comparison, Measured, Pair, Summary, load

NONE_OF_ONE: Final = "1 run each: no interval"
TITLES: Final = {
    "single_stream_tok_s": "single stream, tok/s",
    "decode_tok_s_at_1": "decode at 1 request, tok/s",
    "peak_log_tok_s": "peak of the log, tok/s",
    "best_point_tok_s": "best benchmark point, tok/s",
}
SPEEDUPS: Final[dict[str, pl.DataType]] = {
    "label": pl.String(),
    "metric": pl.String(),
    "base": pl.Float64(),
    "value": pl.Float64(),
    "ratio": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "sure": pl.String(),  # the kind of interval, or why there is none
}


def speedups(comparison: Comparison) -> pl.DataFrame:
    """Every metric of every configuration against the baseline: columns of SPEEDUPS."""
    base, *others = comparison.summaries
    rows = [
        {"label": pair.label, **row}
        for pair, other in zip(comparison.pairs, others, strict=True)
        for row in (*_matched(pair), *_rates(base, other), *_points(pair))
    ]
    return pl.DataFrame(rows, schema=SPEEDUPS)


def _matched(pair: Pair) -> Iterator[dict[str, Any]]:
    metric = "decode at equal running counts, tok/s a rank"
    match = pair.match
    if match is None:
        yield _row(metric, None, None, None, pair.no_match)
    else:
        yield _row(metric, match.base_tok_s, match.tok_s, match.interval, match.interval_note)


def _rates(base: Summary, other: Summary) -> Iterator[dict[str, Any]]:
    for name in RATES:
        before, after = base.rates[name], other.rates[name]
        why = NONE_OF_ONE if base.starts == other.starts == 1 else "pooled over starts: no interval"
        missing = _missing(before, "baseline") or _missing(after, "this side")
        yield _row(TITLES[name], before.value, after.value, None, missing or _told(after) or why)


def _missing(rate: Measured, side: str) -> str:
    return f"{side}: {rate.note}" if rate.value is None else ""


def _told(rate: Measured) -> str:
    """Where a number is from, which matters more than that it has no interval."""
    return f"{rate.note}; {NONE_OF_ONE}" if rate.note.startswith("from the benchmark") else ""


def _points(pair: Pair) -> Iterator[dict[str, Any]]:
    for point in pair.points:
        note = point.note.replace(intervals.NONE_OF_ONE, NONE_OF_ONE)
        yield _row(
            f"benchmark at {load(point)}, output tok/s",
            point.base["output_tok_s"], point.other["output_tok_s"], point.interval, note,
        )  # fmt: skip


def _row(
    metric: str,
    base: float | None,
    value: float | None,
    interval: intervals.Interval | None,
    note: str,
) -> dict[str, Any]:
    known = base is not None and value is not None and base > 0
    return {
        "metric": metric, "base": base, "value": value,
        "ratio": value / base if known and base and value is not None else None,
        "low": interval.low if interval else None, "high": interval.high if interval else None,
        "sure": interval.kind if interval else note,
    }  # fmt: skip
