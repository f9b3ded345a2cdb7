"""What vLLM's lines mean: 0.1.7 to 0.33.0."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from parsers import keyvalue
from parsers.keyvalue import Field
from parsers.record_search import Kind
from parsers.records import BIG, HIT_RATE_SCOPE, INT, REAL

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
            # One draft token a step: the list is one number.
            pl.col(label).cast(pl.String).str.split(", ").cast(pl.List(REAL), strict=False)
        )
    return columns


_PER_POSITION = "Per-position acceptance rate"
# Names, and how their values end in every release: with a unit or all their decimals. A value
# that ends otherwise is torn.
_FORMS = [
    (re.compile(name), re.compile(value))
    for name, value in (
        (r"throughput$", r".* tokens/s$"),
        (r"^(?:Running|Waiting|Deferred|Swapped|Pending)$", r"[0-9]+ reqs$"),
        (r"usage$|hit rate$|^CPU$|^Avg Draft", r".*%\.?$"),
        (r"^(?:Accepted|Drafted)$", r"[0-9]+ tokens$"),
        (r"^Draft acceptance|^System eff", r".*%$|[0-9]\.[0-9]{3}$|nan$"),
        (r"^Mean acceptance", r"[0-9]+\.[0-9]{2}$|nan$"),
        (rf"^{_PER_POSITION}$", r"(?:(?:[0-9]\.[0-9]{3}|nan)(?:, |$))+$"),
        (r"^KV fetch$", r"(?:[0-9]+ [a-z ]+(?:, |$)){3}$"),
    )
]


# What stands after a whole list of rates: it is the last field where the draft rate comes first,
# and else never.
_AFTER_LIST = {False: re.compile(r"\s*(?:[\"\r]|$)|, [A-Z][A-Za-z ]*: [0-9]")}
_AFTER_LIST[True] = re.compile(r", [A-Z][A-Za-z ]*: [0-9]")


_AGGREGATED = re.compile(r"([0-9]+) Engines Aggregated: $")


def _tail(text: str, start: int) -> list[Field]:
    """The fields, and how many engines a line sums up (0.11.1 on; KV usage is their mean)."""
    fields = keyvalue.tail(text, start)
    engines = _AGGREGATED.search(text, max(0, start - 40), start)
    return (
        [Field("Engines Aggregated", engines[1], *engines.span(1)), *fields] if engines else fields
    )


def _adapt(start: re.Match[str], fields: list[Field]) -> list[Field]:
    """The fields without torn values."""
    after_list = _AFTER_LIST[all(f.key != "Draft acceptance rate" for f in fields)]
    return [
        f
        for f in fields
        if not any(name.search(f.key) and not form.match(f.value) for name, form in _FORMS)
        and (f.key != _PER_POSITION or after_list.match(start.string, f.end))
    ]


def _whole(fields: Sequence[Field], rest: str) -> bool:
    """Whether a line's last value can be whole: a count is followed by a full stop."""
    last = fields[-1]
    if last.key == "KV fetch":
        return False  # words of it are missing: every release prints more after it
    return "," in rest or last.value.endswith(".") or not last.key.startswith("Number of ")


# "KV Transfer metrics: Avg xfer time (ms)=9.6, …": names hold blanks, brackets and labels, values
# may be dicts of one connector.
_TRANSFER = re.compile(
    r"(?P<key>(?:\([^)]*\)|[^=,(])+)=(?P<value>\{(?:[^{}]|\{[^{}]*\})*\}|[^,\s]+)(?:, |\s*$)"
)
_ITERATION = re.compile(
    r"Iteration\((?P<Iteration>[0-9]+)\)|(?P<value>[0-9]+) (?P<key>(?:context|generation) \w+)"
    r"|(?P<name>[A-Za-z][A-Za-z ]*): (?P<number>[0-9.]*[0-9])(?P<unit>%| ms)?"
    r"|(?P<dummy>\(dummy\))"
)
_MFU = re.compile(r"(?P<value>[0-9.]*[0-9]) (?P<unit>TF/s|GB/s)/\w+")


def _transfer(text: str, start: int) -> list[Field]:
    return [
        Field(m["key"].strip(), m["value"], *m.span("value"))
        for m in _TRANSFER.finditer(text, start)
    ]


def _iteration(text: str, start: int) -> list[Field]:
    """One step: "Iteration(7): 1 context requests, …, iteration elapsed time: 14.37 ms"."""
    fields = []
    for m in _ITERATION.finditer(text, start):
        group = next(g for g in ("Iteration", "dummy", "value", "number") if m[g])
        name = m["key"] or m["name"] or group
        if m["unit"] == " ms":
            name += " (ms)"
        end = max(m.end("unit"), m.end(group))
        fields.append(Field(name, text[m.start(group) : end], m.start(group), end))
    return fields


def _mfu(text: str, start: int) -> list[Field]:
    return [
        Field(f"{m['unit']} per device", m["value"], *m.span("value"))
        for m in _MFU.finditer(text, start)
    ]


def _metrics_columns(labels: Sequence[str]) -> dict[str, pl.Expr]:
    """V0's prefix cache line: over all requests since the start (0.5.5 on)."""
    if list(labels) != ["GPU", "CPU"]:
        return {}
    scope = pl.lit("lifetime", HIT_RATE_SCOPE)
    return {"prefix_hit_rate": _share("GPU"), "hit_rate_scope": scope}


_ENGINE = r"(?:Engine (?P<engine_no>[0-9]+): )?"
_METRICS = (
    (re.compile(r"(?<![,.] )Prefix cache hit rate: (?=GPU: )"), keyvalue.tail),
    (re.compile(r"(?:KV|EC) Transfer metrics: "), _transfer),
    (re.compile(rf"{_ENGINE}MFU: (?=[0-9])"), _mfu),
    (re.compile(rf"{_ENGINE}(?=Iteration\([0-9]+\): )"), _iteration),
    (re.compile(r"SpecDecodeWorker stage times: "), keyvalue.equals),
    (re.compile(r"DiffusionDecoding metrics: (?=[A-Z])"), keyvalue.tail),
)
KINDS: tuple[Kind, ...] = (
    Kind(
        "vllm",
        "stats",
        re.compile(
            r"(?:Engine (?P<engine_no>[0-9]+): |[0-9]+ Engines Aggregated: )?"
            r"(?=Avg prompt throughput: |Running: [0-9]+ reqs, (?:Waiting|Swapped): )"
        ),
        _stats_columns,
        _adapt,
        _tail,
        needs=("Running",),
        whole=_whole,
    ),
    Kind(
        "vllm",
        "spec",
        re.compile(r"(?:SpecDecoding|Speculative) metrics: (?=[A-Z])"),
        _spec_columns,
        _adapt,
        needs=("Accepted", "Number of accepted tokens"),
        whole=_whole,
    ),
)
KINDS += tuple(
    Kind("vllm", "metrics", start, _metrics_columns, tail=tail) for start, tail in _METRICS
)
GATES = (
    "Avg prompt throughput: ",
    " reqs, Waiting: ",
    "SpecDecoding metrics: ",
    "Speculative metrics: ",
    "Prefix cache hit rate: GPU: ",
    " Transfer metrics: ",
    ": MFU: ",
    "Iteration(",
    "SpecDecodeWorker stage times: ",
    "DiffusionDecoding metrics: ",
    "Engine 0",
)
# A message that begins like a periodic line of some release.
LOOKS = (
    r"Engine [0-9]+: (?!vllm cache_config_info|MFU details)|[0-9]+ Engines Aggregated: "
    r"|Avg prompt throughput|(?:SpecDecoding|Speculative) metrics: "
)
