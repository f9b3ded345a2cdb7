"""What vLLM's lines mean: 0.1.7 to 0.33.0."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from parsers.keyvalue import Field
from parsers.records import BIG, HIT_RATE_SCOPE, INT, REAL
from parsers.samples import Kind

_STATS = {
    "Avg prompt throughput": ("prompt_tok_s", REAL),
    "Avg generation throughput": ("gen_tok_s", REAL),
    "Running": ("running_reqs", INT),
    "Waiting": ("queued_reqs", INT),  # V1; already holds the deferred ones
    "Pending": ("queued_reqs", INT),  # V0
    "Preemptions": ("preemptions", INT),
}
_SPEC = {
    "Mean acceptance length": ("accept_len", REAL),
    "Accepted": ("accepted_tokens", BIG),
    "Drafted": ("drafted_tokens", BIG),
    "Number of accepted tokens": ("accepted_tokens", BIG),
    "Number of draft tokens": ("drafted_tokens", BIG),
    "Number of draft tokens tokens": ("drafted_tokens", BIG),  # sic, 0.4.1 to 0.5.2
}
_RATES = ("Avg Draft acceptance rate", "Draft acceptance rate")


def _number(label: str, dtype: pl.DataType) -> pl.Expr:
    return pl.col(label).cast(dtype, strict=False)


def _share(label: str) -> pl.Expr:
    """A percentage as a fraction; rounded, since 95.0 / 100 is not 0.95 in every code path."""
    return (_number(label, REAL) / 100).round(6)


def _stats_columns(labels: Sequence[str]) -> dict[str, pl.Expr]:
    columns = {
        column: _number(label, dtype)
        for label, (column, dtype) in _STATS.items()
        if label in labels
    }
    # V0 prints GPU and CPU use side by side: the CPU one is swap space. V1 prints one, named after
    # the device from 0.30 on.
    usage = [label for label in labels if label.endswith("KV cache usage")]
    if usage:
        label = next((u for u in usage if u.startswith("GPU")), usage[0])
        columns["kv_usage"] = _share(label)
    if "Prefix cache hit rate" in labels:
        columns["prefix_hit_rate"] = _share("Prefix cache hit rate")
        columns["hit_rate_scope"] = pl.lit("last_1000_requests", HIT_RATE_SCOPE)
    return columns


def _spec_columns(labels: Sequence[str]) -> dict[str, pl.Expr]:
    columns = {
        column: _number(label, dtype) for label, (column, dtype) in _SPEC.items() if label in labels
    }
    for label in _RATES:
        if label in labels:
            percent = "Accepted" in labels  # V1 prints per cent, V0 a fraction
            columns["accept_rate_raw"] = _share(label) if percent else _number(label, REAL)
    label = "Per-position acceptance rate"
    if label in labels:
        columns["accept_per_position"] = (
            pl.col(label).str.split(", ").cast(pl.List(REAL), strict=False)
        )
    return columns


_UNIT = re.compile(
    r".* (?:tokens/s|reqs|tokens)$|.*%\.?$|[0-9.]+\.$|[0-9]+\.[0-9]{2}$"
    r"|(?:[0-9]\.[0-9]{3}(?:, |$))+$"
)
_KNOWN = re.compile(r"throughput$|^(?:Running|Waiting|Swapped|Pending)$|usage$|rate$|ccepted|raft")


def _whole(fields: Sequence[Field]) -> bool:
    """Whether a line's last value can be whole: with its unit, or a fraction with its decimals."""
    last = fields[-1]
    return bool(_UNIT.match(last.value)) or not _KNOWN.search(last.key)


KINDS = (
    Kind(
        "vllm",
        "stats",
        re.compile(
            r"(?:Engine (?P<engine_no>[0-9]+): |[0-9]+ Engines Aggregated: )?"
            r"(?=Avg prompt throughput: |Running: [0-9]+ reqs, (?:Waiting|Swapped): )"
        ),
        _stats_columns,
        needs=("Running",),
        whole=_whole,
    ),
    Kind(
        "vllm",
        "spec",
        re.compile(r"(?:SpecDecoding|Speculative) metrics: (?=[A-Z])"),
        _spec_columns,
        needs=("Accepted", "Number of accepted tokens"),
        whole=_whole,
    ),
)
GATES = (
    "Avg prompt throughput: ",
    " reqs, Waiting: ",
    "SpecDecoding metrics: ",
    "Speculative metrics: ",
)
