"""SGLang's dated facts: arguments, start-up, capacity, overrides, retractions, faults, stops."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from parsers.rules import Read, Rule, boot, dump, effect, fault, milestone, note, override, stop
from parsers.sglang_cards import read_args, read_graphs, read_pairs, read_pool


def _step(literal: str, title: str, pattern: str, read: Read = read_pairs) -> Rule:
    """A step whose line names what it took."""
    return milestone(literal, title, pattern, read)


def _override(literal: str, title: str, pattern: str, name: str, to: Any = None) -> Rule:
    """One that stands before the arguments, and so may open a run."""
    return replace(override(literal, title, pattern, name, to), boots=True)


_N = "[0-9]+"
_START = (
    dump("args", "server_args=", "Server arguments", r"^server_args=", read_args),
    boot("sglang.launch_server' is still supported", "Launcher started"),
    _override(
        "Max running requests is reset to",
        "max_running_requests lowered to {max_running_requests} by speculative decoding",
        rf"Max running requests is reset to (?P<max_running_requests>{_N}) for speculative",
        "max_running_requests",
    ),
    _override(
        "max_running_requests is capped to",
        "max_running_requests lowered to {max_running_requests} by the mamba state cache",
        rf"max_running_requests is capped to (?P<max_running_requests>{_N}) by the mamba state "
        rf"cache(?: \(max_mamba_cache_size=(?P<max_mamba_cache_size>{_N}), "
        rf"(?P<state_slots>{_N}) state slots per request)?",
        "max_running_requests",
    ),
    _override(
        "raph is disabled because",
        "{what} disabled",
        r"^(?P<what>\w+ graph) is disabled because",
        "disable_cuda_graph",
        True,
    ),
    _override(
        "verlap schedule",
        "Overlap schedule off",
        r"Overlap schedule\w* is (?:disabled|not implemented)",
        "disable_overlap_schedule",
        True,
    ),
    _override(
        "mixed chunked prefill",
        "Mixed chunked prefill off",
        r"mixed chunked prefill (?:is|are) disabled",
        "enable_mixed_chunk",
        "off",
    ),
    boot("SGLANG_CPU_OMP_THREADS_BIND is set", "CPU threads bound"),
    note(
        "ready", "fired up and ready to roll", "Ready", r"^The server is fired up and ready to roll"
    ),
    Rule(
        "max_total_num_tokens=",
        "capacity",
        "Pool: {max_total} tokens",
        rf"^max_total_num_tokens=(?P<max_total>{_N})",
        read=read_pool,
    ),
    _step("Init torch distributed b", "Connecting ranks", r"^Init torch distributed begin"),
    _step("Init torch distributed e", "Ranks connected", r"^Init torch distributed ends"),
    _step("Init parallel b", "Connecting ranks", r"^Init parallel begin"),
    _step("Init parallel e", "Ranks connected", r"^Init parallel ends"),
    milestone(
        "CCL warmup completed in",
        "Collectives warmed up",
        r"CCL warmup completed in (?P<duration_s>[0-9.]+)s",
    ),
    _step("Load weight begin", "Loading weights", r"^(?:\[gpu_id=[0-9]+\] )?Load weight begin"),
    milestone(
        "Committed real weights",
        "Weights committed",
        r"^Load weight end\. Committed real weights .*? in (?P<duration_s>[0-9.]+) s",
    ),
    _step("Load weight end", "Weights loaded", r"^(?:\[gpu_id=[0-9]+\] )?Load weight end"),
    milestone(
        "Using KV cache dtype",
        "KV cache of {kv_cache_dtype}",
        r"^Using KV cache dtype: (?P<kv_cache_dtype>\S+)",
    ),
    _step("KV Cache is allocated", "KV cache allocated", r"^(?:\w+ )*KV Cache is allocated"),
    _step("VA upper bound", "KV cache size reserved", r"^(?:\w+ )*KV Cache VA upper bound"),
    _step("Mamba Cache is allocated", "State cache allocated", r"^Mamba Cache is allocated"),
    _step("Memory pool end", "Memory pool ready", r"^(?:\[gpu_id=[0-9]+\] )?Memory pool end"),
    _step("Tree cache initialized", "Prefix cache ready", r"^Tree cache initialized:"),
    _step("raph begin", "Capturing graphs", r"^Capture .*graph begin", read_graphs),
    _step("raph end", "Graphs captured", r"^Capture .*graph end", read_graphs),
    milestone(
        "Capture cuda graph bs",
        "Graph sizes",
        r"^Capture cuda graph bs ",
        read=lambda text, _: {
            "data": {"bs": [int(n) for n in re.findall(_N, text.partition("[")[2])]}
        },
    ),
    _step("prefill warmup", "Prefill warm-up", r"^(?:Start|End) of prefill warmup"),
    _step("Disaggregation warmup", "Warm-up of disaggregation", r"^Disaggregation warmup"),
    note(
        "note",
        "pec v2 is enabled",
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
    note(
        "retraction",
        "etract requests",
        "{retracted} requests retracted: KV cache full",
        rf"Retract requests\. {_RETRACTION}",
        severity="warning",
    ),
    note(
        "retraction",
        "ecode out of memory happened",
        "{retracted} requests retracted: KV cache full",
        rf"ecode out of memory happened[.,] {_RETRACTION}",
        severity="warning",
    ),
    note(
        "retract_abort",
        "retract_decode: aborted",
        "A retracted request was aborted",
        r"^retract_decode: aborted (?:last )?request (?P<rid>[^\s:]+)",
        "warning",
    ),
    note(
        "cache_flush", "Cache flushed successfully", "Cache flushed", r"^Cache flushed successfully"
    ),
    note(
        "rebalance", "rebalance start", "Rebalancing experts", r"^\[EPLBManager\] rebalance start"
    ),
    note(
        "rebalance",
        "rebalance end",
        "Experts rebalanced",
        r"^\[EPLBManager\] rebalance end.*?time=(?P<duration_s>[0-9.]+)s",
    ),
    Rule(
        "LoRA adapter",
        "lora",
        "LoRA adapter: {what}",
        r"^LoRA adapter (?P<what>(?:un)?loading (?:starts|completes))",
        read=lambda text, _: {"data": read_pairs(text.rpartition(". ")[2], "")["data"]},
    ),
    note("profiling", "Profiling starts", "Profiling on", r"^Profiling starts", "warning"),
    note("profiling", "Profiling done", "Profiling off", r"^Profiling done"),
    note("weights_update", "eights: update", "Weights updated", r"^Weights: update"),
    note(
        "garbage_collection",
        "GARBAGE COLLECTION DETECTED",
        "Long garbage collection",
        rf"Generation (?P<generation>{_N}) \| Duration: (?P<duration_s>[0-9.]+)s",
    ),
    note(
        "pd_failure",
        " failed for request rank=",
        "{what} failed for a request",
        rf"^(?P<what>(?:Prefill|Decode) (?:bootstrap|transfer|handshake)) failed for request "
        rf"rank=(?P<on_rank>{_N}).*?rid='(?P<rid>[^']+)'(?:.*?bootstrap_room=(?P<room>{_N}))?",
        "warning",
    ),
    note(
        "pd_failure",
        "onnection with prefill instance",
        "Connection with a prefill instance lost",
        r"^Los(?:ing|t) connection with prefill instance \((?:bootstrap_addr: )?(?P<addr>[^)]+)\)"
        rf"(?:, (?:affected )?(?P<affected>{_N}))?",
        "warning",
    ),
    note(
        "health",
        "Health check failed",
        "Health check failed",
        rf"^Health check failed\..*?last (?P<timeout_s>{_N}) seconds"
        r"(?:.*?last_heartbeat time: (?P<last_heartbeat>[0-9:]+))?",
        "warning",
    ),
    note(
        "memory_leak",
        "memory leak detected",
        "Memory leak in {pool}",
        r"^(?P<pool>\w+) memory leak detected!",
        "warning",
    ),
    note(
        "sampling", "errors during sampling", "NaN", r"^Detected errors during sampling", "warning"
    ),
    note(
        "router",
        "Starting router on",
        "Router on {listen}, {mode}, {policy}",
        r"Starting router on (?P<listen>\S+) \| mode: (?P<mode>\w+).*?\| policy: (?P<policy>\w+)",
    ),
    note("router", "Router mode:", "Router mode {mode}", r"Router mode: (?P<mode>\w+)"),
)
_ENDS = (
    note(
        "crash_dump",
        "Dumping requests before crash",
        "Requests dumped before a crash",
        r"^Dumping requests before crash",
        "warning",
    ),
    note(
        "forced_exit",
        "while health check failed",
        "Stopped while the health check failed",
        r"^Signal SIGTERM received while health check failed",
        "warning",
    ),
    stop("SIGTERM received", "SIGTERM received", r"SIGTERM received"),
    stop(
        "Gracefully exiting",
        "Stopping",
        r"^Gracefully exiting(?:\.\.\. [Rr]emaining number of requests (?P<remaining>[0-9]+))?",
    ),
    fault("hit an exception", "{what} hit an exception", r"^(?P<what>\w+) hit an exception"),
    fault(
        "crashed with exit code",
        "{what} died with exit code {code}",
        r"^Subprocess (?P<what>\w+) .*crashed with exit code (?P<code>-?[0-9]+)",
    ),
    fault(
        "unexpectedly failed with",
        "A child process died",
        r"^Child process unexpectedly failed with",
    ),
    effect(
        "scheduler is dead", "A scheduler is dead", rf"^Rank (?P<on_rank>{_N}) scheduler is dead"
    ),
    effect(
        "eceived sigquit from a child", "A child process failed", r"^Received sigquit from a child"
    ),
    effect("SIGQUIT received", "A child process failed", r"^SIGQUIT received"),
    fault(
        "atchdog timeout (",
        "Watchdog timeout",
        r"^(?:(?P<what>\w+) )?[Ww]atchdog timeout \((?!.*soft=True)"
        rf"self\.watchdog_timeout=(?P<timeout_s>{_N})",
    ),
    fault(
        "Initialization failed. warmup error",
        "Warm-up failed",
        r"^Initialization failed\. warmup error",
    ),
    fault("refill out of memory", "Out of KV memory", r"^(?:Prefill|Decode) out of memory\. Try"),
    fault("ecode out of memory", "Out of KV memory", r"^Decode out of memory\. Try"),
    note(
        "client_error",
        "exceeds the maximum allowed length",
        "A request was refused: longer than the context",
        rf"^Input length \((?P<input_tokens>{_N}) tokens\) exceeds the maximum allowed length",
    ),
)
RULES = (*_START, *_SERVING, *_ENDS)
