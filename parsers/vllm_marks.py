"""vLLM's dated facts: arguments, start-up, capacity, overrides, retractions, faults, stops."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from parsers.marks import Rule
from parsers.server_args import config_hash, parse_dump, redact


def read_args(message: str, salt: str = "") -> dict[str, Any]:
    """The run card that an args line gives: all values to 0.8.5, those set by the user from 0.9."""
    body = message.partition("args: ")[2]
    return _card(redact(parse_dump(body), salt=salt), body.startswith("Namespace"))


def _card(args: dict[str, Any], whole: bool) -> dict[str, Any]:
    card = {
        "args": json.dumps(args),
        "config_hash": config_hash(args),
        "model": args.get("model") or args.get("model_tag"),
        "max_running_requests": args.get("max_num_seqs"),
        "context_len": args.get("max_model_len"),
    } | _parallel(args, whole)
    spec = args.get("speculative_config")
    if isinstance(spec, dict):
        card |= _speculation(spec)
    elif args.get("num_speculative_tokens"):
        card["spec_draft_tokens"] = args["num_speculative_tokens"]
    return {k: v for k, v in card.items() if not isinstance(v, dict | list)}


def _parallel(args: dict[str, Any], whole: bool) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        short: args.get(f"{name}_parallel_size")
        for short, name in (("tp", "tensor"), ("pp", "pipeline"), ("dp", "data"))
    }
    if not whole and all(v is None for v in sizes.values()):
        return {}
    sizes = {k: v or 1 for k, v in sizes.items()}
    return sizes | {"gpus": sizes["tp"] * sizes["pp"] * sizes["dp"]}


def _speculation(spec: dict[str, Any]) -> dict[str, Any]:
    tokens = spec.get("num_speculative_tokens") or spec.get("num_spec_tokens")
    method = spec.get("method") or spec.get("draft_model") or spec.get("model")
    return {"spec_algorithm": method, "spec_draft_tokens": tokens, "spec_steps": tokens}


# Settings of dozens of parts; of the compiler's only what graphs it captures is kept.
_LONG = ("compilation_config", "observability_config", "pooler_config", "kernel_config")
_GRAPHS = ("level", "mode", "cudagraph_mode", "cudagraph_capture_sizes", "max_capture_size",
           "max_cudagraph_capture_size", "use_cudagraph", "backend")  # fmt: skip


def _graphs(config: dict[str, Any]) -> dict[str, Any]:
    compiler = config.get("compilation_config")
    if not isinstance(compiler, dict):
        return {}
    kept = {k: compiler[k] for k in _GRAPHS if compiler.get(k) not in (None, "")}
    return {"compilation_config": kept} if kept else {}


def _read_engine(message: str, salt: str) -> dict[str, Any]:
    """The engine config line: resolved values; max_num_seqs is not among them (0.1.7 to 0.33.0)."""
    config = redact(parse_dump(message.partition("config: ")[2]), salt=salt)
    card = {
        "model": config.get("model"),
        "context_len": config.get("max_seq_len"),
        "effective": {k: v for k, v in config.items() if k not in _LONG} | _graphs(config),
    } | _parallel(config, whole="tensor_parallel_size" in config)
    spec = config.get("speculative_config")
    return card | (_speculation(spec) if isinstance(spec, dict) else {})


_CONCURRENCY = r"Maximum concurrency for (?P<len>[0-9,]+) tokens per request: (?P<max>[0-9.]+)x"


def _read_cache(message: str, _: str) -> dict[str, Any]:
    """KV cache size and the concurrency at full length; one line from 0.28, two before."""
    tokens = re.search(r"KV cache size: ([0-9,]+) tokens", message)
    concurrency = re.search(_CONCURRENCY, message)
    found: dict[str, Any] = {}
    if tokens:
        found["max_total_tokens"] = int(tokens[1].replace(",", ""))
    if concurrency:
        found["effective"] = {"max_concurrency_x": float(concurrency["max"])}
    return found


_VERSION = r"(?P<engine_version>[0-9]\S*)"
_N = "[0-9,]*[0-9]"  # counts from 0.8 on have a comma every three digits
_GIB = r"(?P<memory_gb>[0-9.]+) Gi?B"  # 2^30 bytes under either name
_SECONDS = r"(?P<duration_s>[0-9.]+) s"


def _rule(kind: str, literal: str, title: str, pattern: str, severity: str = "info") -> Rule:
    return Rule(literal, kind, title, pattern, severity=severity)


def _milestone(literal: str, title: str, pattern: str) -> Rule:
    return Rule(literal, "milestone", title, pattern)


def _boot(literal: str, title: str, pattern: str) -> Rule:
    return Rule(literal, "boot", title, pattern, boots=True)


def _dump(
    kind: str,
    literal: str,
    title: str,
    pattern: str,
    read: Callable[[str, str], dict[str, Any]],
) -> Rule:
    return Rule(literal, kind, title, pattern, boots=True, read=read, keep_text=False)


def _override(literal: str, title: str, pattern: str, name: str, to: Any = None) -> Rule:
    return Rule(literal, "override", title, pattern, severity="warning", sets=name, to=to)


def _fault(literal: str, title: str, pattern: str | None = None) -> Rule:
    return Rule(literal, "fault", title, pattern, severity="fault", ends="crashed")


def _effect(literal: str, title: str, pattern: str | None = None) -> Rule:
    return replace(_fault(literal, title, pattern), effect=True)


_START = (
    _boot("  version ", "vLLM {engine_version}", rf"[█▀▄] +version {_VERSION}"),
    _boot("  model ", "Model {model}", r"[█▀▄] +model +(?P<model>\S+)"),
    _boot("API server version", "vLLM {engine_version}", rf"vLLM API server version {_VERSION}"),
    _boot(
        "vLLM server version",
        "vLLM {engine_version}",
        r"vLLM server version (?P<engine_version>[^\s,]+), serving model (?P<model>\S+)",
    ),
    _dump(
        "args",
        "non-default args: ",
        "Arguments set by the user",
        r"^non-default args: ",
        read_args,
    ),
    _dump("args", "args: Namespace(", "Server arguments", r"^args: Namespace\(", read_args),
    _dump(
        "engine",
        " engine (v",
        "Engine {engine_version} starts",
        r"^Initializing an? .*engine \(v(?P<engine_version>[^)]+)\) with config: ",
        _read_engine,
    ),
    _dump(
        "engine",
        "Initializing an LLM engine with config",
        "Engine starts",
        r"^Initializing an LLM engine with config: ",
        _read_engine,
    ),
    _rule(
        "platform",
        "Automatically detected platform",
        "Platform {hardware}",
        r"^Automatically detected platform (?P<hardware>\w+)\.",
    ),
    Rule("Application startup complete", "ready", "Ready", r"^Application startup complete"),
)
_CAPACITY = (
    Rule(
        "KV cache size:",
        "capacity",
        "KV cache: {tokens} tokens",
        rf"(?P<device>\w+(?: \+ host)?) KV cache size: (?P<tokens>{_N}) tokens"
        rf"(?:, Maximum concurrency for (?P<len>{_N}) tokens per request: (?P<max>[0-9.]+)x)?",
        read=_read_cache,
    ),
    Rule(
        "Maximum concurrency for",
        "capacity",
        "Concurrency at full length: {max}",
        _CONCURRENCY,
        read=_read_cache,
    ),
    _rule(
        "capacity",
        "Available KV cache memory",
        "KV cache memory: {memory_gb} GiB",
        rf"Available KV cache memory: {_GIB}",
    ),
    _rule(
        "capacity",
        " blocks: ",
        "KV cache: {blocks} blocks",
        rf"^# (?P<device>\w+) blocks: (?P<blocks>{_N})(?:, # CPU blocks: (?P<cpu_blocks>{_N}))?",
    ),
    _rule(
        "capacity",
        "vllm cache_config_info",
        "KV cache: {blocks} blocks",
        rf"(?:Engine (?P<engine_index>[0-9]+)|(?P<engines>[0-9]+) Engines): vllm cache_config_info "
        rf".*num_gpu_blocks is: (?P<blocks>{_N})",
    ),
    _rule(
        "capacity",
        "Chunked prefill is enabled",
        "Chunked prefill",
        r"^Chunked prefill is enabled"
        rf"(?: with max_num_batched_tokens=(?P<max_num_batched_tokens>{_N}))?",
    ),
    _override(
        "with num_gpu_blocks_override",
        "num_gpu_blocks overridden",
        rf"Overriding num_gpu_blocks={_N} with num_gpu_blocks_override=(?P<effective>{_N})",
        "num_gpu_blocks",
    ),
    _override(
        "Auto-fit max_model_len",
        "max_model_len reduced to {effective}",
        rf"Auto-fit max_model_len: reduced from {_N} to (?P<effective>{_N})",
        "max_model_len",
    ),
    _override(
        "Cudagraph is disabled under",
        "Graphs off: eager mode",
        r"^Cudagraph is disabled under eager mode",
        "cudagraph_mode",
        "off",
    ),
    _override(
        "Asynchronous scheduling is disabled",
        "Asynchronous scheduling off",
        r"^Asynchronous scheduling is disabled",
        "async_scheduling",
        False,
    ),
    _rule(
        "fallback",
        "alling back to",
        "Your device lacks a feature: {what}",
        r"^Your device .*?does(?:n't| not) support (?P<what>[^.,]{1,80}).*?[Ff]alling back to "
        r"(?P<fallback>[^.,]{1,80})",
        severity="warning",
    ),
    _rule(
        "note",
        "have been overridden by the model",
        "Sampling defaults come from the model",
        r"^Default .*sampling parameters have been overridden by the model",
    ),
    _rule(
        "note",
        "CUDA graph memory profiling is enabled",
        "Graph memory counts towards the memory fraction",
        r"^CUDA graph memory profiling is enabled",
    ),
    _rule(
        "note",
        "exceeds max_num_seqs * max_model_len",
        "max_num_batched_tokens is larger than all requests together",
        rf"max_num_batched_tokens \((?P<max_num_batched_tokens>{_N})\) exceeds max_num_seqs",
    ),
    _rule(
        "note",
        "padding layers",
        "KV cache memory wasted by padding layers",
        r"^Add (?P<layers>[0-9]+) padding layers, may waste at most (?P<waste_pct>[0-9.]+)%",
    ),
    _rule(
        "note",
        "Setting attention block size",
        "Attention blocks of {block_size} tokens",
        r"^Setting attention block size to (?P<block_size>[0-9]+) tokens",
    ),
)
_MILESTONES = (
    _milestone(
        "Model loading took",
        "Weights loaded",
        rf"Model loading took {_GIB} (?:memory )?and (?P<duration_s>[0-9.]+) seconds",
    ),
    _milestone(
        "Loading model weights took", "Weights loaded", rf"Loading model weights took {_GIB}"
    ),
    _milestone("Loading weights took", "Weights read", rf"Loading weights took {_SECONDS}econds"),
    _milestone("torch.compile takes", "Compiled", rf"torch\.compile takes {_SECONDS} in total"),
    _milestone(
        "Dynamo bytecode transform", "Traced", rf"Dynamo bytecode transform time: {_SECONDS}"
    ),
    _milestone(
        "Compiling a graph for",
        "Graph compiled",
        rf"Compiling a graph for (?P<what>[\w ]+|compile range \([^)]*\)) takes {_SECONDS}",
    ),
    _milestone(
        "the compiled graph(s) for",
        "Compiled graphs loaded",
        rf"Directly load the compiled graph\(s\) for .*took {_SECONDS}",
    ),
    _milestone(
        "profiling/warmup run took", "Profiled", rf"Initial profiling/warmup run took {_SECONDS}"
    ),
    _milestone(
        "Graph capturing finished",
        "Graphs captured",
        rf"Graph capturing finished in {_SECONDS}ecs(?:, took {_GIB})?",
    ),
    _milestone(
        "CUDA graph pool memory",
        "Graph memory",
        rf"CUDA graph pool memory: {_GIB} \(actual\), (?P<estimated_gb>[0-9.]+) GiB \(estimated\)",
    ),
    _milestone(
        "init engine (",
        "Engine initialised",
        rf"init engine \(.*?\) took {_SECONDS}(?:econds)?"
        r"(?: \(compilation: (?P<compile_s>[0-9.]+) s"
        r"(?: — language_model: (?P<compile_language_model_s>[0-9.]+) s, "
        r"encoder: (?P<compile_encoder_s>[0-9.]+) s)?\))?",
    ),
    _milestone(
        "Starting vLLM ",
        "Listening",
        r"^Starting vLLM (?:API )?server (?:(?P<api_server_index>[0-9]+) )?on (?P<listen>\S+)",
    ),
)
_SERVING = (
    _rule(
        "preemption",
        "is preempted by PreemptionMode",
        "Preempted: KV cache full",
        r"Sequence group (?P<seq_group>\S+) is preempted by PreemptionMode\.(?P<mode>\w+)"
        rf"(?:.*total_num_cumulative_preemption=(?P<total_preemptions>{_N}))?",
        severity="warning",
    ),
    Rule(
        "disabling stats logging",
        "stats_off",
        "Stats lines switched off: several API servers",
        severity="warning",
    ),
    _rule(
        "stall",
        "No available shared memory broadcast block found",
        "No shared memory block for a minute: hang or slow start",
        rf"No available shared memory broadcast block found(?: in (?P<seconds>{_N}) second)?",
    ),
    Rule(
        "shutdown triggered",
        "stop",
        "Shutdown asked for",
        r"^\[shutdown\] .*shutdown triggered",
        ends="stopped",
    ),
    Rule(
        "trigger received signal",
        "stop",
        "Shutdown asked for",
        r"^\[shutdown\] .*trigger received signal",
        ends="stopped",
    ),
)
_FAULTS = (
    _effect("engine core exited unexpectedly", "Engine core exited unexpectedly"),
    _effect("EngineCore encountered a fatal error", "Engine core hit a fatal error"),
    _fault("EngineCore hit an exception", "Engine core hit an exception"),
    _effect("EngineCore failed to start", "Engine core failed to start"),
    _effect(
        "Engine core initialization failed",
        "Engine core failed to start",
        r"Engine core initialization failed",
    ),
    _effect("Engine process failed to start", "Engine process failed to start"),
    _effect("output_handler failed", "Engine dead", r"^AsyncLLM output_handler failed"),
    _fault(
        "died unexpectedly",
        "{what} died",
        r"(?P<what>(?:Engine core|Worker|RayWorkerProc)[\w= -]*?) (?:(?P<name>\S+) )?"
        r"died unexpectedly"
        r"(?: \(exit code: (?P<code>-?[0-9]+)\))?",
    ),
    _fault(
        " died, exit code",
        "{what} died with exit code {code}",
        r"^Worker (?P<what>\w+) pid (?P<pid>[0-9]+) died, exit code: (?P<code>-?[0-9]+)",
    ),
    Rule(
        "Dumping input data for",
        "engine_dump",
        "Engine dumps its input before a fatal error",
        r"^Dumping input data for ",
        severity="warning",
        keep_text=False,
    ),
    _effect("EngineDeadError", "Engine dead", r"EngineDeadError"),
    _fault("out of memory occurred when warming up", "CUDA out of memory in warm-up"),
    _fault(
        "To serve at least one request",
        "KV cache too small for one request",
        r"^(?:ValueError: )?To serve at least one request with the model.?s.? max seq len "
        rf"\((?P<max_model_len>{_N})\), \((?P<needed_gb>[0-9.]+) Gi?B KV cache is needed, which is "
        r"larger than the available KV cache memory \((?P<available_gb>[0-9.]+) Gi?B\)",
    ),
    _fault(
        "RPC call to",
        "An engine call timed out",
        r"^(?:TimeoutError: )?RPC call to (?P<method>\w+) timed out",
    ),
    _fault(
        "Timed out waiting for engine core",
        "The engine core did not start in time",
        r"Timed out waiting for engine core processes to start",
    ),
    _rule(
        "client_error",
        "Error in preprocessing prompt inputs",
        "A request was refused: its prompt",
        r"^Error in preprocessing prompt inputs",
    ),
    _rule(
        "client_error",
        "maximum context length is",
        "A request was refused: longer than the context",
        rf"This model's maximum context length is (?P<context_limit>{_N}) tokens",
    ),
)
RULES = (*_START, *_CAPACITY, *_MILESTONES, *_SERVING, *_FAULTS)
