"""What SGLang's lines mean: 0.1.3 to 0.5.23."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

from parsers import keyvalue
from parsers.keyvalue import Field
from parsers.record_search import Kind
from parsers.records import BIG, HIT_RATE_SCOPE, INT, REAL

_DECODE = {
    "#running-req": ("running_reqs", INT),
    "#queue-req": ("queued_reqs", INT),
    "#token": ("kv_tokens", BIG),
    "gen throughput (token/s)": ("gen_tok_s", REAL),
    "accept len": ("accept_len", REAL),
    "accept rate": ("accept_rate_raw", REAL),
    "#retracted-req": ("retracted_reqs", INT),
}
_PREFILL = {
    "#running-req": ("running_reqs", INT),
    "#queue-req": ("queued_reqs", INT),
    "#token": ("kv_tokens", BIG),
    "#new-seq": ("new_seqs", INT),
    "#new-token": ("new_tokens", BIG),
    "#cached-token": ("cached_tokens", BIG),
    "input throughput (token/s)": ("prompt_tok_s", REAL),
}
# Names of 0.1.3 to 0.1.16 and of 0.4.9, to the ones every later release prints.
_OLD_NAMES = {
    "#seq": "#new-seq",
    "#cached_token": "#cached-token",
    "#new_token": "#new-token",
    "#remaining_req": "#queue-req",
    "#running_req": "#running-req",
    "tree_cache_hit_rate": "cache hit rate",
}
_FLAGS = ("True", "False")
# How values look by the end or the start of their names.
_FORM = {"graph": re.compile(r"(?:True|False)$"), "#": re.compile(r"[0-9.]+$")}
_ANY = re.compile("")
_POOLS = re.compile(r"(full|swa)=([0-9.]+)")


def _named(
    labels: Sequence[str], names: Mapping[str, tuple[str, pl.DataType]]
) -> dict[str, pl.Expr]:
    columns = {
        column: pl.col(label).cast(dtype, strict=False)
        for label, (column, dtype) in names.items()
        if label in labels
    }
    for label in labels:
        if label.endswith(" graph"):
            columns["graph_on"] = pl.col(label) == "True"
    return columns | _pool(labels)


def _pool(labels: Sequence[str]) -> dict[str, pl.Expr]:
    """KV use of plain, hybrid and host-backed pools: the fullest pool counts (0.4.9 to 0.5.23)."""
    columns: dict[str, pl.Expr] = {}
    if "token usage" in labels:
        columns["kv_usage"] = pl.col("token usage").cast(REAL, strict=False)
    else:
        usages = [
            pl.col(label).cast(REAL, strict=False)
            for label in labels
            if label.endswith(" token usage")
        ]
        if usages:
            columns["kv_usage"] = pl.max_horizontal(usages)
    if "#token" not in labels:
        first = next((n for n in ("#full token", "#gpu token") if n in labels), None)
        if first:
            columns["kv_tokens"] = pl.col(first).cast(BIG, strict=False)
    return columns


def _decode_columns(labels: Sequence[str]) -> dict[str, pl.Expr]:
    return _named(labels, _DECODE)


def _prefill_columns(labels: Sequence[str]) -> dict[str, pl.Expr]:
    columns = _named(labels, _PREFILL)
    if "cache hit rate" in labels:  # up to 0.4.3.post2: since start or the last flush
        columns["prefix_hit_rate"] = (
            pl.col("cache hit rate").cast(REAL, strict=False) / 100
        ).round(6)
        columns["hit_rate_scope"] = pl.lit("lifetime", HIT_RATE_SCOPE)
    elif "#new-token" in labels and "#cached-token" in labels:
        new = pl.col("#new-token").cast(REAL, strict=False)
        cached = pl.col("#cached-token").cast(REAL, strict=False)
        columns["prefix_hit_rate"] = (
            pl.when(new + cached > 0).then(cached / (new + cached)).otherwise(None)
        )
        columns["hit_rate_scope"] = pl.lit("batch", HIT_RATE_SCOPE)
    return columns


_ITERATION = re.compile(r"\[([0-9]+)\][.,(]")


def _tail(text: str, start: int) -> list[Field]:
    """The fields, and the forward iteration that 0.5.4 puts before them in brackets."""
    fields = keyvalue.tail(text, start)
    head = text.rfind("batch [", max(0, start - 60), start)
    number = _ITERATION.search(text, head, start) if head >= 0 else None
    return [Field("forward iter", number[1], *number.span(1)), *fields] if number else fields


def _adapt(start: re.Match[str], fields: list[Field]) -> list[Field]:
    adapted: list[Field] = []
    for f in fields:
        pools = _POOLS.findall(f.value)
        if pools:  # 0.4.9: "#token: full=1809, swa=1200"
            pattern = "#{} token" if f.key == "#token" else "{} token usage"
            adapted += [Field(pattern.format(pool), value, f.start, f.end) for pool, value in pools]
        elif not _FORM.get(f.key[-5:], _FORM.get(f.key[0], _ANY)).match(f.value):
            continue  # torn, and glued to something else
        elif f.key in _OLD_NAMES:
            adapted.append(Field(_OLD_NAMES[f.key], f.value, f.start, f.end))
        else:
            adapted.append(f)
    mixed = start.groupdict().get("mixed")
    if mixed:
        adapted.append(Field("#running-req", mixed, start.start("mixed"), start.end("mixed")))
    return adapted


# Each ends in a full stop, but for #running_req, which is the last one in some releases.
_OLDEST_PAIR = re.compile(
    r"([#a-z_]+): ([0-9]+(?=\.(?: |$))|[0-9]+\.[0-9]+(?=%)|(?<=running_req: )[0-9]+(?=\s*$))"
)


def _adapt_oldest(start: re.Match[str], _: list[Field]) -> list[Field]:
    """0.1.3 to 0.1.16: "new fill batch. #seq: 4. #cached_token: 120. …"."""
    text, at = start.string, start.end()
    pairs = _OLDEST_PAIR.finditer(text[at:])
    return _adapt(start, [Field(m[1], m[2], at + m.start(2), at + m.end(2)) for m in pairs])


_DECIMALS = re.compile(r"-?[0-9]+\.[0-9]{2}$|nan")
_WITH_DECIMALS = re.compile(r"throughput|usage$|^accept |time$")


def _whole(fields: Sequence[Field], rest: str) -> bool:
    """Whether a line's last value can be whole: every release prints #queue-req near the end,
    floats with two decimals and flags as True or False."""
    last = fields[-1]
    if "," in rest:
        return True
    if last.key.endswith(" graph"):
        return last.value in _FLAGS
    if _WITH_DECIMALS.search(last.key) and not _DECIMALS.match(last.value):
        return False
    return any(f.key in ("#queue-req", "#remaining_req") for f in fields)


_STATUS_LIST = re.compile(r'"(running_rids|queued_rids)": \[([^\]]*)\]')


def _status_counts(text: str, start: int) -> list[Field]:
    """How many requests a scheduler's status names; not which."""
    fields = [
        Field(m[1], str(len(re.findall(r'"[^"]*"', m[2]))), m.start(2), m.end(2))
        for m in _STATUS_LIST.finditer(text, start)
    ]
    rank = re.match(r'"rank": ([0-9]+)', text[start:])
    if rank:
        fields.insert(0, Field("rank", rank[1], start + rank.start(1), start + rank.end(1)))
    return fields


# What every release begins its fields with, or any other name.
_NAME = r"(?=#|[a-z][\w ./()+-]*: )"
KINDS: tuple[Kind, ...] = (
    Kind(
        "sglang",
        "decode",
        re.compile(
            rf"Decode batch(?: \[[0-9]+\])?[.,] ?{_NAME}"
            r"|(?<![\w:,(] )(?=#running-req: [0-9]+, #token: [0-9]+, token usage)"  # 0.1.x
        ),
        _decode_columns,
        _adapt,
        _tail,
        needs=("#running-req",),
        whole=_whole,
    ),
    Kind(
        "sglang",
        "prefill",
        re.compile(
            r"Prefill batch(?: \[[0-9]+\])?(?:\(mixed #running-req: (?P<mixed>[0-9]+)\))?"
            rf"[.,] ?{_NAME}"
        ),
        _prefill_columns,
        _adapt,
        _tail,
        needs=("#new-seq", "#new-token"),
        whole=_whole,
    ),
    Kind(
        "sglang",
        "prefill",
        re.compile(r"new fill batch\. (?=#seq)"),
        _prefill_columns,
        _adapt_oldest,
        needs=("#new-seq",),
    ),
)
_METRICS = (
    # Share of the experts' load, newest releases every few passes (0.4.6.post5 on).
    (re.compile(r"\[Expert Balancedness\] (?=forward_pass_id=)"), keyvalue.equals),
    # Since start or the last flush, when internal state was changed (0.4.3.post4 on).
    (re.compile(r"(?<=\] )(?=avg_spec_accept_length=[0-9])"), keyvalue.equals),
    # Every minute with SGLANG_LOG_SCHEDULER_STATUS_TARGET (0.5.8 on).
    (
        re.compile(r'\{"timestamp": "[^"]*", "event": "scheduler\.status", (?="rank")'),
        _status_counts,
    ),
)
KINDS += tuple(
    Kind("sglang", "metrics", start, lambda _: {}, tail=tail) for start, tail in _METRICS
)
GATES = (
    "Decode batch", "Prefill batch", "new fill batch", "#running-req: ", "[Expert Balancedness] ",
    "avg_spec_accept_length=", '"event": "scheduler.status"',
)  # fmt: skip
# A message that begins like a periodic line of some release.
LOOKS = r"(?:Decode|Prefill) batch\b|new fill batch\b"
