"""SGLang's dated facts: arguments, start-up, capacity, overrides, retractions, faults, stops."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from parsers.marks import Rule, as_value
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


_PAIR = re.compile(
    r"(?:^|[\s,.\[(])#?(?P<key>[A-Za-z_](?:[\w ]*\w)?)(?:=|: )"
    r"(?P<value>\[[^\]]*\]|[0-9.]*[0-9]|[^\s,]+?(?=[,.)\]]*(?:\s|$)))\s?(?P<unit>GB|s\b)?"
)


def _read_pairs(message: str, _: str) -> dict[str, Any]:
    """Seconds, memory and whatever else a start-up line prints as `name=value` or `name: value`,
    under its printed name with its unit ("avail_mem_gb")."""
    data: dict[str, Any] = {}
    for match in _PAIR.finditer(message):
        unit = {"GB": "_gb", "s": "_s", None: ""}[match["unit"]]
        value = match["value"]
        data[match["key"].replace(" ", "_") + unit] = (
            [int(n) for n in re.findall("[0-9]+", value)] if value[0] == "[" else as_value(value)
        )
    seconds = data.pop("elapsed_s", data.pop("Time_elapsed_s", None))
    sizes = [data[name] for name in data if name.endswith("_size_gb")]
    used = data.pop("mem_usage_gb", round(sum(sizes), 2) if sizes else None)
    return {"duration_s": seconds, "memory_gb": used, "data": data}


def _read_pool(message: str, _: str) -> dict[str, Any]:
    """The pool summary: what the scheduler finally runs with, per DP rank (0.1.26 on)."""
    data = _read_pairs(message, "")["data"]
    pairs = {k: v for k, v in data.items() if isinstance(v, int)}
    return {
        "effective": pairs,
        "max_running_requests": pairs.get("max_running_requests"),
        "max_total_tokens": pairs.get("max_total_num_tokens"),
        "context_len": pairs.get("context_len"),
        "data": data,
    }


def _read_graphs(message: str, _: str) -> dict[str, Any]:
    """Which graphs are captured: device, name ("target decode", "draft extend"), sizes."""
    found = _read_pairs(message, "")
    name = re.match(r"Capture ((?:[\w-]+ )*?)(\w+) graph", message)
    if name:
        graph = name[1].strip().replace(" ", "_") or "target"
        found["data"] |= {"graph": graph, "device": name[2].lower()}
    return found


def _milestone(
    literal: str,
    pattern: str,
    title: str,
    read: Callable[[str, str], dict[str, Any]] = _read_pairs,
) -> Rule:
    return Rule(literal, "milestone", title, pattern, read=read)


def _override(literal: str, pattern: str, title: str, name: str, to: Any = None) -> Rule:
    return Rule(
        literal, "override", title, pattern, severity="warning", boots=True, sets=name, to=to
    )


def _fault(literal: str, pattern: str, title: str) -> Rule:
    return Rule(literal, "fault", title, pattern, severity="fault", ends="crashed")


def _effect(literal: str, pattern: str, title: str) -> Rule:
    return replace(_fault(literal, pattern, title), effect=True)


def _note(kind: str, literal: str, pattern: str, title: str, severity: str = "info") -> Rule:
    return Rule(literal, kind, title, pattern, severity=severity)


_N = "[0-9]+"
_START = (
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
        rf"Max running requests is reset to (?P<max_running_requests>{_N}) for speculative",
        "max_running_requests lowered to {max_running_requests} by speculative decoding",
        "max_running_requests",
    ),
    _override(
        "max_running_requests is capped to",
        rf"max_running_requests is capped to (?P<max_running_requests>{_N}) by the mamba state "
        rf"cache(?: \(max_mamba_cache_size=(?P<max_mamba_cache_size>{_N}), "
        rf"(?P<state_slots>{_N}) state slots per request)?",
        "max_running_requests lowered to {max_running_requests} by the mamba state cache",
        "max_running_requests",
    ),
    _override(
        "raph is disabled because",
        r"^(?P<what>\w+ graph) is disabled because",
        "{what} disabled",
        "disable_cuda_graph",
        True,
    ),
    _override(
        "verlap schedule",
        r"Overlap schedule\w* is (?:disabled|not implemented)",
        "Overlap schedule off",
        "disable_overlap_schedule",
        True,
    ),
    _override(
        "mixed chunked prefill",
        r"mixed chunked prefill (?:is|are) disabled",
        "Mixed chunked prefill off",
        "enable_mixed_chunk",
        "off",
    ),
    Rule("SGLANG_CPU_OMP_THREADS_BIND is set", "boot", "CPU threads bound", boots=True),
    Rule(
        "fired up and ready to roll", "ready", "Ready", r"^The server is fired up and ready to roll"
    ),
    Rule(
        "max_total_num_tokens=",
        "capacity",
        "Pool: {max_total} tokens",
        rf"^max_total_num_tokens=(?P<max_total>{_N})",
        read=_read_pool,
    ),
    _milestone("Init torch distributed b", r"^Init torch distributed begin", "Connecting ranks"),
    _milestone("Init torch distributed e", r"^Init torch distributed ends", "Ranks connected"),
    _milestone("Init parallel b", r"^Init parallel begin", "Connecting ranks"),
    _milestone("Init parallel e", r"^Init parallel ends", "Ranks connected"),
    Rule(
        "CCL warmup completed in",
        "milestone",
        "Collectives warmed up",
        r"CCL warmup completed in (?P<duration_s>[0-9.]+)s",
    ),
    _milestone(
        "Load weight begin", r"^(?:\[gpu_id=[0-9]+\] )?Load weight begin", "Loading weights"
    ),
    Rule(
        "Committed real weights",
        "milestone",
        "Weights committed",
        r"^Load weight end\. Committed real weights .*? in (?P<duration_s>[0-9.]+) s",
    ),
    _milestone("Load weight end", r"^(?:\[gpu_id=[0-9]+\] )?Load weight end", "Weights loaded"),
    Rule(
        "Using KV cache dtype",
        "milestone",
        "KV cache of {kv_cache_dtype}",
        r"^Using KV cache dtype: (?P<kv_cache_dtype>\S+)",
    ),
    _milestone("KV Cache is allocated", r"^(?:\w+ )*KV Cache is allocated", "KV cache allocated"),
    _milestone("VA upper bound", r"^(?:\w+ )*KV Cache VA upper bound", "KV cache size reserved"),
    _milestone("Mamba Cache is allocated", r"^Mamba Cache is allocated", "State cache allocated"),
    _milestone("Memory pool end", r"^(?:\[gpu_id=[0-9]+\] )?Memory pool end", "Memory pool ready"),
    _milestone("Tree cache initialized", r"^Tree cache initialized:", "Prefix cache ready"),
    _milestone("raph begin", r"^Capture .*graph begin", "Capturing graphs", _read_graphs),
    _milestone("raph end", r"^Capture .*graph end", "Graphs captured", _read_graphs),
    Rule(
        "Capture cuda graph bs",
        "milestone",
        "Graph sizes",
        r"^Capture cuda graph bs ",
        read=lambda text, _: {
            "data": {"bs": [int(n) for n in re.findall(_N, text.partition("[")[2])]}
        },
    ),
    _milestone("prefill warmup", r"^(?:Start|End) of prefill warmup", "Prefill warm-up"),
    _milestone("Disaggregation warmup", r"^Disaggregation warmup", "Warm-up of disaggregation"),
    Rule(
        "pec v2 is enabled",
        "note",
        "Spec v2 with overlap schedule",
        r"^(?:Spec v2|Beta spec) is enabled",
    ),
)
_RETRACTION = (
    rf"#retracted_reqs: (?P<retracted>{_N})(?:, #aborted_retracted_reqs: (?P<aborted>{_N}))?"
    rf"(?:, #new_tokens_gained: (?P<new_tokens_gained>{_N}))?"
    rf"(?:, #mamba_num_gained: (?P<mamba_num_gained>{_N}))?"
    r"(?:, #new_token_ratio: (?P<new_token_ratio_before>[0-9.]+) -> "
    r"(?P<new_token_ratio_after>[0-9.]+))?"
)
_SERVING = (
    Rule(
        "etract requests",
        "retraction",
        "{retracted} requests retracted: KV cache full",
        rf"Retract requests\. {_RETRACTION}",
        severity="warning",
    ),
    Rule(
        "ecode out of memory happened",
        "retraction",
        "{retracted} requests retracted: KV cache full",
        rf"ecode out of memory happened[.,] {_RETRACTION}",
        severity="warning",
    ),
    _note(
        "retract_abort",
        "retract_decode: aborted",
        r"^retract_decode: aborted (?:last )?request (?P<rid>[^\s:]+)",
        "A retracted request was aborted",
        "warning",
    ),
    Rule(
        "Cache flushed successfully", "cache_flush", "Cache flushed", r"^Cache flushed successfully"
    ),
    _note(
        "rebalance", "rebalance start", r"^\[EPLBManager\] rebalance start", "Rebalancing experts"
    ),
    Rule(
        "rebalance end",
        "rebalance",
        "Experts rebalanced",
        r"^\[EPLBManager\] rebalance end.*?time=(?P<duration_s>[0-9.]+)s",
    ),
    Rule(
        "LoRA adapter",
        "lora",
        "LoRA adapter: {what}",
        r"^LoRA adapter (?P<what>(?:un)?loading (?:starts|completes))",
        read=lambda text, _: {"data": _read_pairs(text.rpartition(". ")[2], "")["data"]},
    ),
    _note("profiling", "Profiling starts", r"^Profiling starts", "Profiling on", "warning"),
    _note("profiling", "Profiling done", r"^Profiling done", "Profiling off"),
    _note("weights_update", "eights: update", r"^Weights: update", "Weights updated"),
    Rule(
        "GARBAGE COLLECTION DETECTED",
        "garbage_collection",
        "Long garbage collection",
        rf"Generation (?P<generation>{_N}) \| Duration: (?P<duration_s>[0-9.]+)s",
    ),
    _note(
        "pd_failure",
        " failed for request rank=",
        rf"^(?P<what>(?:Prefill|Decode) (?:bootstrap|transfer|handshake)) failed for request "
        rf"rank=(?P<on_rank>{_N}).*?rid='(?P<rid>[^']+)'(?:.*?bootstrap_room=(?P<room>{_N}))?",
        "{what} failed for a request",
        "warning",
    ),
    _note(
        "pd_failure",
        "onnection with prefill instance",
        r"^Los(?:ing|t) connection with prefill instance \((?:bootstrap_addr: )?(?P<addr>[^)]+)\)"
        rf"(?:, (?:affected )?(?P<affected>{_N}))?",
        "Connection with a prefill instance lost",
        "warning",
    ),
    _note(
        "health",
        "Health check failed",
        rf"^Health check failed\..*?last (?P<timeout_s>{_N}) seconds"
        r"(?:.*?last_heartbeat time: (?P<last_heartbeat>[0-9:]+))?",
        "Health check failed",
        "warning",
    ),
    _note(
        "memory_leak",
        "memory leak detected",
        r"^(?P<pool>\w+) memory leak detected!",
        "Memory leak in {pool}",
        "warning",
    ),
    _note(
        "sampling", "errors during sampling", r"^Detected errors during sampling", "NaN", "warning"
    ),
    _note(
        "router",
        "Starting router on",
        r"Starting router on (?P<listen>\S+) \| mode: (?P<mode>\w+).*?\| policy: (?P<policy>\w+)",
        "Router on {listen}, {mode}, {policy}",
    ),
    _note("router", "Router mode:", r"Router mode: (?P<mode>\w+)", "Router mode {mode}"),
)
_ENDS = (
    _note(
        "crash_dump",
        "Dumping requests before crash",
        r"^Dumping requests before crash",
        "Requests dumped before a crash",
        "warning",
    ),
    _note(
        "forced_exit",
        "while health check failed",
        r"^Signal SIGTERM received while health check failed",
        "Stopped while the health check failed",
        "warning",
    ),
    Rule("SIGTERM received", "stop", "SIGTERM received", r"SIGTERM received", ends="stopped"),
    Rule(
        "Gracefully exiting",
        "stop",
        "Stopping",
        r"^Gracefully exiting(?:\.\.\. [Rr]emaining number of requests (?P<remaining>[0-9]+))?",
        ends="stopped",
    ),
    _fault("hit an exception", r"^(?P<what>\w+) hit an exception", "{what} hit an exception"),
    _fault(
        "crashed with exit code",
        r"^Subprocess (?P<what>\w+) .*crashed with exit code (?P<code>-?[0-9]+)",
        "{what} died with exit code {code}",
    ),
    _fault(
        "unexpectedly failed with",
        r"^Child process unexpectedly failed with",
        "A child process died",
    ),
    _effect(
        "scheduler is dead", rf"^Rank (?P<on_rank>{_N}) scheduler is dead", "A scheduler is dead"
    ),
    _effect(
        "eceived sigquit from a child", r"^Received sigquit from a child", "A child process failed"
    ),
    _effect("SIGQUIT received", r"^SIGQUIT received", "A child process failed"),
    _fault(
        "atchdog timeout (",
        r"^(?:(?P<what>\w+) )?[Ww]atchdog timeout \((?!.*soft=True)"
        rf"self\.watchdog_timeout=(?P<timeout_s>{_N})",
        "Watchdog timeout",
    ),
    _fault(
        "Initialization failed. warmup error",
        r"^Initialization failed\. warmup error",
        "Warm-up failed",
    ),
    _fault("refill out of memory", r"^(?:Prefill|Decode) out of memory\. Try", "Out of KV memory"),
    _fault("ecode out of memory", r"^Decode out of memory\. Try", "Out of KV memory"),
    _note(
        "client_error",
        "exceeds the maximum allowed length",
        rf"^Input length \((?P<input_tokens>{_N}) tokens\) exceeds the maximum allowed length",
        "A request was refused: longer than the context",
    ),
)
RULES = (*_START, *_SERVING, *_ENDS)
