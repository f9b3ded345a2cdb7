"""SGLang's dated facts: arguments, start-up, capacity, overrides, retractions, faults, stops."""

from __future__ import annotations

import json
import re
from typing import Any

from parsers.marks import Rule
from parsers.server_args import config_hash, parse_dump, redact


def read_args(message: str, salt: str = "") -> dict[str, Any]:
    """The run card that a server_args dump gives (0.2.15 on): resolved, not given values."""
    args = redact(parse_dump(message.partition("server_args=")[2]), salt=salt)
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


def _read_pool(message: str, _: str) -> dict[str, Any]:
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
    Rule(
        "server_args=",
        "args",
        "Server arguments",
        r"^server_args=",
        boots=True,
        read=read_args,
        keep_text=False,
    ),
    Rule("sglang.launch_server' is still supported", "boot", "Launcher started", boots=True),
    _override(
        "Max running requests is reset to",
        r"Max running requests is reset to (?P<max_running_requests>[0-9]+) for speculative",
        "max_running_requests lowered to {max_running_requests} by speculative decoding",
    ),
    _override(
        "max_running_requests is capped to",
        r"max_running_requests is capped to (?P<max_running_requests>[0-9]+) by the mamba",
        "max_running_requests lowered to {max_running_requests} by the mamba state cache",
    ),
    _override(
        "raph is disabled because", r"^(?P<what>\w+ graph) is disabled because", "{what} disabled"
    ),
    _override(
        "verlap schedule",
        r"Overlap schedule\w* is (?:disabled|not implemented)",
        "Overlap schedule off",
    ),
    _override(
        "mixed chunked prefill",
        r"mixed chunked prefill (?:is|are) disabled",
        "Mixed chunked prefill off",
    ),
    Rule("SGLANG_CPU_OMP_THREADS_BIND is set", "boot", "CPU threads bound", boots=True),
    Rule(
        "fired up and ready to roll", "ready", "Ready", r"^The server is fired up and ready to roll"
    ),
    Rule(
        "max_total_num_tokens=",
        "capacity",
        "Pool: {max_total} tokens",
        r"^max_total_num_tokens=(?P<max_total>[0-9]+)",
        read=_read_pool,
    ),
    Rule(
        "Load weight end",
        "milestone",
        "Weights loaded",
        rf"^Load weight end\.(?: elapsed=(?P<duration_s>[0-9.]+) s,)?.*?(?:mem usage={_GB}|$)",
    ),
    Rule("Cache is allocated", "milestone", "KV cache allocated", r"^(?:\w+ )*Cache is allocated"),
    Rule(
        "raph end",
        "milestone",
        "Graphs captured",
        r"^Capture .*graph end\. ?(?:Time elapsed: |elapsed=)?(?P<duration_s>[0-9.]+)? ?s?"
        rf".*?(?:mem usage={_GB}|$)",
    ),
    Rule(
        "Init torch distributed ends",
        "milestone",
        "Process groups ready",
        r"^Init torch distributed ends\.(?: elapsed=(?P<duration_s>[0-9.]+) s)?",
    ),
    Rule(
        "Init parallel ends",
        "milestone",
        "Process groups ready",
        r"^Init parallel ends\. elapsed=(?P<duration_s>[0-9.]+) s",
    ),
    Rule(
        "etract requests",
        "retraction",
        "{retracted} requests retracted: KV cache full",
        r"Retract requests\. #retracted_reqs: (?P<retracted>[0-9]+)",
        severity="warning",
    ),
    Rule(
        "ecode out of memory happened",
        "retraction",
        "{retracted} requests retracted: KV cache full",
        r"#retracted_reqs: (?P<retracted>[0-9]+)",
        severity="warning",
    ),
    Rule(
        "Cache flushed successfully", "cache_flush", "Cache flushed", r"^Cache flushed successfully"
    ),
    Rule("SIGTERM received", "stop", "SIGTERM received", r"SIGTERM received", ends="stopped"),
    Rule("Gracefully exiting", "stop", "Stopping", r"^Gracefully exiting", ends="stopped"),
    Rule(
        "hit an exception",
        "fault",
        "{what} hit an exception",
        r"^(?P<what>\w+) hit an exception",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "crashed with exit code",
        "fault",
        "{what} died with exit code {code}",
        r"^Subprocess (?P<what>\w+) .*crashed with exit code (?P<code>-?[0-9]+)",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "unexpectedly failed with",
        "fault",
        "A child process died",
        r"^Child process unexpectedly failed with",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "eceived sigquit from a child",
        "fault",
        "A child process failed",
        r"^Received sigquit from a child",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "SIGQUIT received",
        "fault",
        "A child process failed",
        r"^SIGQUIT received",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "atchdog timeout (",
        "fault",
        "Watchdog timeout",
        r"^(?:\w+ )?[Ww]atchdog timeout \((?!.*soft=True)",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "Initialization failed. warmup error",
        "fault",
        "Warm-up failed",
        r"^Initialization failed\. warmup error",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "refill out of memory",
        "fault",
        "Out of KV memory",
        r"^(?:Prefill|Decode) out of memory\. Try",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "ecode out of memory",
        "fault",
        "Out of KV memory",
        r"^Decode out of memory\. Try",
        severity="fault",
        ends="crashed",
    ),
)
