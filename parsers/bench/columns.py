"""What a column of a table made by hand means: recognised by name and unit, never guessed.

A header such as `TTFT p99 (ms)`, `Mean Time to First Token [s]` or `out tok/s` is cut into a
name, a statistic and a unit. A latency without a unit, or a name that is not known, stays
unread until the user says once what it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from parsers.bench.points import latency_column
from parsers.records import BENCH_RESULTS, BIG, INT, REAL

DIMENSION = "dimension"  # says of which point the row is; kept in `extra`
LABEL = "label"
_NOT_MEASURED = {"bench_id", "bench_file", "run_id", "tool_version", "extra", "position", "seq"}

_UNITS = {
    "ms": 1.0, "msec": 1.0, "millisecond": 1.0, "milliseconds": 1.0,
    "s": 1000.0, "sec": 1000.0, "secs": 1000.0, "second": 1000.0, "seconds": 1000.0,
    "us": 0.001, "µs": 0.001, "μs": 0.001,
}  # fmt: skip
_STATISTICS = {
    "mean": "mean", "avg": "mean", "average": "mean", "median": "median", "med": "median",
    "mdn": "median", "p50": "median", "50%": "median", "50p": "median", "p90": "p90", "90%": "p90",
    "p95": "p95", "95%": "p95", "p99": "p99", "99%": "p99", "90th": "p90", "95th": "p95",
    "99th": "p99", "50th": "median",
}  # fmt: skip
_LATENCIES = {
    "ttft": "ttft", "time to first token": "ttft", "first token latency": "ttft",
    "first token": "ttft", "tpot": "tpot", "time per output token": "tpot",
    "time per token": "tpot", "per token": "tpot", "itl": "itl", "inter token latency": "itl",
    "time between tokens": "itl", "tbt": "itl", "e2e": "e2e", "e2el": "e2e",
    "e2e latency": "e2e", "end to end latency": "e2e", "end to end": "e2e",
    "request latency": "e2e", "total latency": "e2e",
}  # fmt: skip
_NAMES = {
    "concurrency": "concurrency", "conc": "concurrency", "c": "concurrency",
    "max concurrency": "concurrency", "maximum concurrency": "concurrency",
    "max request concurrency": "concurrency", "concurrent requests": "concurrency",
    "concurrent": "concurrency", "parallel": "concurrency", "parallelism": "concurrency",
    "streams": "concurrency", "concurrent streams": "concurrency", "users": "concurrency",
    "clients": "concurrency", "batch size": "concurrency", "batch": "concurrency",
    "bs": "concurrency", "bsz": "concurrency", "num concurrent": "concurrency",
    "request rate": "request_rate", "target rate": "request_rate",
    "target qps": "request_rate", "requested rate": "request_rate",
    "req/s": "request_throughput_rps", "reqs/s": "request_throughput_rps",
    "requests/s": "request_throughput_rps", "requests/sec": "request_throughput_rps",
    "rps": "request_throughput_rps", "qps": "request_throughput_rps",
    "request throughput": "request_throughput_rps", "requests per second": "request_throughput_rps",
    "num prompts": "num_prompts", "prompts": "num_prompts", "num requests": "num_prompts",
    "requests": "num_prompts", "number of prompts": "num_prompts",
    "number of requests": "num_prompts", "completed": "completed",
    "successful requests": "completed", "successful": "completed", "success": "completed",
    "ok": "completed", "failed": "failed", "failed requests": "failed", "errors": "failed",
    "failures": "failed", "total input tokens": "input_tokens", "total prompt tokens":
    "input_tokens", "total output tokens": "output_tokens", "total generated tokens":
    "output_tokens", "generated tokens": "output_tokens", "duration": "duration_s",
    "benchmark duration": "duration_s", "elapsed": "duration_s", "elapsed time": "duration_s",
    "wall time": "duration_s", "wall": "duration_s", "total time": "duration_s",
    "output throughput": "output_tok_s", "output token throughput": "output_tok_s",
    "output": "output_tok_s", "out": "output_tok_s", "gen": "output_tok_s",
    "generation throughput": "output_tok_s", "gen throughput": "output_tok_s",
    "generation": "output_tok_s", "decode throughput": "output_tok_s", "decode": "output_tok_s",
    "throughput": "output_tok_s", "aggregate throughput": "output_tok_s",
    "aggregate": "output_tok_s", "agg": "output_tok_s", "system throughput": "output_tok_s",
    "output tokens per second": "output_tok_s", "tokens per second": "output_tok_s",
    "tps": "output_tok_s", "output tps": "output_tok_s", "": "output_tok_s",
    "total throughput": "total_tok_s", "total token throughput": "total_tok_s",
    "total": "total_tok_s", "input + output throughput": "total_tok_s",
    "peak": "peak_output_tok_s", "peak throughput": "peak_output_tok_s",
    "peak output throughput": "peak_output_tok_s", "peak output token throughput":
    "peak_output_tok_s", "accept len": "accept_len", "accept length": "accept_len",
    "acc len": "accept_len", "acc length": "accept_len", "acceptance length": "accept_len",
    "average accept length": "accept_len", "accepted length": "accept_len",
    "mean acceptance length": "accept_len", "mean accepted length": "accept_len",
    "tau": "accept_len", "τ": "accept_len", "gpus": "gpus", "num gpus": "gpus",
    "gpu count": "gpus", "model": "model", "dataset": "dataset", "data set": "dataset",
    "config": LABEL, "configuration": LABEL, "setup": LABEL, "set up": LABEL, "name": LABEL,
    "label": LABEL, "run": LABEL, "engine": LABEL, "framework": LABEL, "variant": LABEL,
    "server": LABEL, "system": LABEL, "version": LABEL,
}  # fmt: skip
# Known, but no column of ours: kept under the printed name.
_DIMENSIONS = re.compile(
    r"(tp|dp|pp|ep|isl|osl|input|output|in|out|prompt|prompt tokens|completion tokens"
    r"|(input|output|prompt|gen)( tokens?)? ?(len|length|size)?"
    r"|(input|output) (tokens?|toks?|seq len|sequence length)"
    r"|(tensor|data) parallel( size)?|accept(ance)? rate|acc rate|draft tokens|num draft tokens"
    r"|steps|num steps|cache hit rate|prefix hit rate|hit rate|prompt( id| no)?|id|i|idx|index|#"
    r"|seed|note|notes|comment|gpu|hardware|quantization|dtype|dataset size|input cost|output cost"
    r"|profile|latency|interactivity|temperature|concurrency mean)"
)
_TOKEN_RATE = re.compile(
    r"(?:output |out |gen |generated |decode |total |peak |agg |aggregate )*"
    r"(?:tok|toks|token|tokens|t)(?:en)?s?\s*(?:/|per)\s*(?:s|sec|second)$"
)
_RATE_UNIT = re.compile(r"(?:tok|toks|token|tokens|t)\s*(?:/|per)\s*(?:s|sec|second)s?$")
_PER_USER = re.compile(r"per user|/ ?user|/ ?u\b|per request|/ ?req|per gpu|/ ?gpu")
_LOADED = (
    re.compile(r"(?i)single[- ]?(?:stream|user|request)[\s:,]+(?P<rest>.+)"),
    re.compile(
        r"(?i)(?:c|conc|concurrency|bs|batch(?: size)?)\s*[=@ ]\s*(?P<load>[0-9]+)[\s:,]+"
        r"(?P<rest>.+)"
    ),
    re.compile(r"(?i)(?P<rest>.+?)\s*(?:@|\bat)\s*(?:c\s*=\s*)?(?P<load>[0-9]+)"),
    re.compile(r"(?i)(?P<rest>.+?)\s*\(\s*c(?:onc)?\s*=\s*(?P<load>[0-9]+)\s*\)"),
)
_BRACKETS = re.compile(r"[(\[]\s*([^()\[\]]*?)\s*[)\]]")


@dataclass(frozen=True, slots=True)
class Column:
    """What a column means."""

    name: str  # a column of BENCH_RESULTS, DIMENSION or LABEL
    factor: float = 1.0  # from the cell to the column's unit
    load: float | None = None  # the concurrency that the header itself names


Maps = Mapping[str, tuple[str, str | None]]  # header -> name of ours and unit, as the user said


def recognise(header: str, maps: Maps | None = None) -> Column | None:
    """The meaning of a header; None if it is not known."""
    text = header.strip().strip("*`_ ")
    if maps and text in maps:
        return mapped(*maps[text])
    return _known(text)


@lru_cache(1 << 12)
def _known(text: str) -> Column | None:
    if (loaded := _with_load(text)) is not None:
        return loaded
    if text in BENCH_RESULTS and text not in _NOT_MEASURED:
        return Column(text)
    name, unit = _cut(text)
    if _PER_USER.search(text.lower()):
        return Column(DIMENSION)
    return _latency(name, unit) or _rate(name, unit) or _other(name, unit)


def _with_load(text: str) -> Column | None:
    """A measure with its concurrency: `single-stream tok/s`, `C=16 tok/s`, `TTFT (ms) @ 8`."""
    for pattern in _LOADED:
        if match := pattern.fullmatch(text):
            inner = _known(match["rest"].strip(" ,:"))
            if inner is not None and (inner.name.endswith("tok_s") or "_ms_" in inner.name):
                load = match.groupdict().get("load")
                return Column(inner.name, inner.factor, float(load) if load else 1.0)
    return None


def mapped(name: str, unit: str | None) -> Column | None:
    """The meaning that the user gave; None if the name is no column of ours."""
    if name in (DIMENSION, LABEL):
        return Column(name)
    if name not in BENCH_RESULTS or name in _NOT_MEASURED:
        return None
    if "_ms_" in name:
        return Column(name, _UNITS.get(unit or "ms", 1.0))
    if name == "duration_s":
        return Column(name, _UNITS.get(unit or "s", 1000.0) / 1000)
    return Column(name)


def is_count(column: str) -> bool:
    """Whether the column holds whole numbers."""
    return BENCH_RESULTS.get(column) in (INT, BIG)


def is_number(column: str) -> bool:
    """Whether the column holds numbers."""
    return BENCH_RESULTS.get(column) in (INT, BIG, REAL)


def _cut(text: str) -> tuple[str, str]:
    """Name and unit of a header: `TTFT p99 (ms)`, `ttft_p99_ms`, `TPOT, ms`, `tok/s`."""
    lowered = text.lower().replace("–", "-")
    units = [unit for unit in _BRACKETS.findall(lowered) if unit]
    name = _BRACKETS.sub(" ", lowered)
    name = re.sub(r"[_\-:\\]+", " ", name).strip(" ,./")
    unit = units[-1] if units else ""
    if not unit:
        head, _, last = re.sub(r",\s*| / ", " , ", name).rpartition(" ")
        if last in _UNITS and head.strip(" ,"):
            name, unit = head.strip(" ,"), last
    return re.sub(r"\s+", " ", name), unit


def _latency(name: str, unit: str) -> Column | None:
    words = re.split(r"[ ,]+", name)
    statistics = [_STATISTICS[word] for word in words if word in _STATISTICS]
    bare = " ".join(
        word for word in words if word not in _STATISTICS and word != "percentile" and word
    )
    if unit in _STATISTICS and not statistics:  # `TTFT (p99)`: no unit
        return None
    metric = _LATENCIES.get(bare)
    if metric is None or unit not in _UNITS or len(statistics) > 1:
        return None
    column = latency_column(metric, statistics[0] if statistics else "mean")
    return Column(column, _UNITS[unit]) if column else None


def _rate(name: str, unit: str) -> Column | None:
    """Tokens per second, with the unit in brackets or as the name itself."""
    if _TOKEN_RATE.fullmatch(name):
        kind = next((word for word in ("total", "peak") if name.startswith(word)), "output")
        return Column(
            {"total": "total_tok_s", "peak": "peak_output_tok_s"}.get(kind, "output_tok_s")
        )
    if not _RATE_UNIT.fullmatch(unit):
        return None
    column = _NAMES.get(name, "")
    if column.endswith("tok_s"):
        return Column(column)
    return Column(DIMENSION) if name.startswith(("input", "prefill", "prompt")) else None


def _other(name: str, unit: str) -> Column | None:
    column = _NAMES.get(name)
    if column is None:
        return Column(DIMENSION) if _DIMENSIONS.fullmatch(name) else None
    if column == "duration_s":
        return Column(column, _UNITS[unit] / 1000) if unit in _UNITS else None
    if column.endswith("tok_s"):
        # Without a unit only where the name says that it is tokens.
        says = "token" in name or name.endswith("tps")
        return Column(column) if says and not unit else None
    if name == "throughput" or (column == "request_rate" and unit in _UNITS):
        return None
    return Column(column)
