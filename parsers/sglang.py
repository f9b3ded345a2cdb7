"""What SGLang's lines mean: 0.1.3 to 0.5.23."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from parsers.keyvalue import Field
from parsers.marks import Rule
from parsers.records import BIG, INT, REAL
from parsers.samples import Kind
from parsers.server_args import config_hash, parse_dump, redact

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
_POOLS = re.compile(r"(full|swa)=([0-9.]+)")


def _named(labels: Sequence[str], names: dict[str, tuple[str, pl.DataType]]) -> dict[str, pl.Expr]:
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
        columns["hit_rate_scope"] = pl.lit("lifetime")
    elif "#new-token" in labels and "#cached-token" in labels:
        new = pl.col("#new-token").cast(REAL, strict=False)
        cached = pl.col("#cached-token").cast(REAL, strict=False)
        columns["prefix_hit_rate"] = (
            pl.when(new + cached > 0).then(cached / (new + cached)).otherwise(None)
        )
        columns["hit_rate_scope"] = pl.lit("batch")
    return columns


def _adapt(start: re.Match[str], fields: list[Field]) -> list[Field]:
    adapted: list[Field] = []
    for f in fields:
        pools = _POOLS.findall(f.value)
        if pools:  # 0.4.9: "#token: full=1809, swa=1200"
            pattern = "#{} token" if f.key == "#token" else "{} token usage"
            adapted += [Field(pattern.format(pool), value, f.start, f.end) for pool, value in pools]
        elif f.key in _OLD_NAMES:
            adapted.append(Field(_OLD_NAMES[f.key], f.value, f.start, f.end))
        else:
            adapted.append(f)
    mixed = start.groupdict().get("mixed")
    if mixed:
        adapted.append(Field("#running-req", mixed, start.start("mixed"), start.end("mixed")))
    return adapted


def _adapt_oldest(start: re.Match[str], _: list[Field]) -> list[Field]:
    """0.1.3 to 0.1.16: "new fill batch. #seq: 4. #cached_token: 120. …"."""
    text, at = start.string, start.end()
    pairs = re.finditer(r"([#a-z_]+): ([0-9.]*[0-9])%?", text[at:])
    return _adapt(start, [Field(m[1], m[2], at + m.start(2), at + m.end(2)) for m in pairs])


KINDS = (
    Kind(
        "sglang",
        "decode",
        re.compile(r"Decode batch(?: \[[0-9]+\])?[.,] ?(?=#)|(?<![\w:,(] )#running-req: (?=[0-9]+, #token: [0-9]+, token usage)"),
        _decode_columns,
        _adapt,
        needs=("#running-req",),
    ),
    Kind(
        "sglang",
        "prefill",
        re.compile(r"Prefill batch(?: \[[0-9]+\])?(?:\(mixed #running-req: (?P<mixed>[0-9]+)\))?[.,] ?(?=#)"),
        _prefill_columns,
        _adapt,
        needs=("#new-seq", "#new-token"),
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
GATES = ("Decode batch", "Prefill batch", "new fill batch", "#running-req: ")


def read_args(message: str) -> dict[str, Any]:
    """The run card that a server_args dump gives (0.2.15 on; resolved values, not the given ones)."""
    args = redact(parse_dump(message.partition("server_args=")[2]))
    tp, pp = args.get("tp_size") or 1, args.get("pp_size") or 1
    dp = args.get("dp_size") or 1
    # DP attention splits the TP group; without it every DP replica has a TP group of its own.
    gpus = tp * pp * (1 if args.get("enable_dp_attention") else dp)
    return {
        "args": json.dumps(args),
        "config_hash": config_hash(args),
        "model": args.get("model_path"),
        "gpus": gpus,
        "tp": tp,
        "dp": dp,
        "pp": pp,
        "ep": args.get("ep_size"),
        "spec_algorithm": args.get("speculative_algorithm"),
        "spec_steps": args.get("speculative_num_steps"),
        "spec_draft_tokens": args.get("speculative_num_draft_tokens"),
        "max_total_tokens": args.get("max_total_tokens"),
        "context_len": args.get("context_length"),
        "decode_log_interval": args.get("decode_log_interval"),
        "disaggregation_mode": args.get("disaggregation_mode"),
    }


def _read_pool(message: str) -> dict[str, Any]:
    """The pool summary: what the scheduler finally runs with, per DP rank (0.1.26 on)."""
    pairs = {k: int(v) for k, v in re.findall(r"(\w+)=([0-9]+)(?![.0-9])", message)}
    return {
        "effective": pairs,
        "max_running_requests": pairs.get("max_running_requests"),
        "max_total_tokens": pairs.get("max_total_num_tokens"),
        "context_len": pairs.get("context_len"),
    }


def _override(literal: str, pattern: str, title: str) -> Rule:
    return Rule(literal, "override", title, pattern, severity="warning", boots=True)


_GB = r"(?P<memory_gb>[0-9.]+) GB"
RULES = (
    Rule("server_args=", "args", "Server arguments", r"^server_args=", boots=True, read=read_args, keep_text=False),
    Rule("sglang.launch_server' is still supported", "boot", "Launcher started", boots=True),
    _override(
        "Max running requests is reset to",
        r"Max running requests is reset to (?P<max_running_requests>[0-9]+) for speculative decoding",
        "max_running_requests lowered to {max_running_requests} by speculative decoding",
    ),
    _override(
        "max_running_requests is capped to",
        r"max_running_requests is capped to (?P<max_running_requests>[0-9]+) by the mamba state cache",
        "max_running_requests lowered to {max_running_requests} by the mamba state cache",
    ),
    _override("raph is disabled because", r"^(?P<what>\w+ graph) is disabled because", "{what} disabled"),
    _override("verlap schedule", r"Overlap schedule\w* is (?:disabled|not implemented)", "Overlap schedule off"),
    _override("mixed chunked prefill", r"mixed chunked prefill (?:is|are) disabled", "Mixed chunked prefill off"),
    Rule("SGLANG_CPU_OMP_THREADS_BIND is set", "boot", "CPU threads bound", boots=True),
    Rule("fired up and ready to roll", "ready", "Ready", r"^The server is fired up and ready to roll"),
    Rule("max_total_num_tokens=", "capacity", "Pool: {max_total} tokens", r"^max_total_num_tokens=(?P<max_total>[0-9]+)", read=_read_pool),
    Rule("Load weight end", "milestone", "Weights loaded", rf"^Load weight end\.(?: elapsed=(?P<duration_s>[0-9.]+) s,)?.*?(?:mem usage={_GB}|$)"),
    Rule("Cache is allocated", "milestone", "KV cache allocated", r"^(?:\w+ )*Cache is allocated"),
    Rule("raph end", "milestone", "Graphs captured", rf"^Capture .*graph end\. ?(?:Time elapsed: |elapsed=)?(?P<duration_s>[0-9.]+)? ?s?.*?(?:mem usage={_GB}|$)"),
    Rule("init torch distributed ends".replace("init", "Init"), "milestone", "Process groups ready", r"^Init torch distributed ends\.(?: elapsed=(?P<duration_s>[0-9.]+) s)?"),
    Rule("Init parallel ends", "milestone", "Process groups ready", r"^Init parallel ends\. elapsed=(?P<duration_s>[0-9.]+) s"),
    Rule("etract requests", "retraction", "{retracted} requests retracted: KV cache full", r"Retract requests\. #retracted_reqs: (?P<retracted>[0-9]+)", severity="warning"),
    Rule("ecode out of memory happened", "retraction", "{retracted} requests retracted: KV cache full", r"#retracted_reqs: (?P<retracted>[0-9]+)", severity="warning"),
    Rule("Cache flushed successfully", "cache_flush", "Cache flushed", r"^Cache flushed successfully"),
    Rule("SIGTERM received", "stop", "SIGTERM received", r"SIGTERM received", ends="stopped"),
    Rule("Gracefully exiting", "stop", "Stopping", r"^Gracefully exiting", ends="stopped"),
    Rule("hit an exception", "fault", "{what} hit an exception", r"^(?P<what>\w+) hit an exception", severity="fault", ends="crashed"),
    Rule("crashed with exit code", "fault", "{what} died with exit code {code}", r"^Subprocess (?P<what>\w+) .*crashed with exit code (?P<code>-?[0-9]+)", severity="fault", ends="crashed"),
    Rule("unexpectedly failed with", "fault", "A child process died", r"^Child process unexpectedly failed with", severity="fault", ends="crashed"),
    Rule("eceived sigquit from a child", "fault", "A child process failed", r"^Received sigquit from a child", severity="fault", ends="crashed"),
    Rule("SIGQUIT received", "fault", "A child process failed", r"^SIGQUIT received", severity="fault", ends="crashed"),
    Rule("atchdog timeout (", "fault", "Watchdog timeout", r"^(?:\w+ )?[Ww]atchdog timeout \((?!.*soft=True)", severity="fault", ends="crashed"),
    Rule("Initialization failed. warmup error", "fault", "Warm-up failed", r"^Initialization failed\. warmup error", severity="fault", ends="crashed"),
    Rule("refill out of memory", "fault", "Out of KV memory", r"^(?:Prefill|Decode) out of memory\. Try", severity="fault", ends="crashed"),
    Rule("ecode out of memory", "fault", "Out of KV memory", r"^Decode out of memory\. Try", severity="fault", ends="crashed"),
)
