"""vLLM's dated facts: arguments, start-up, capacity, overrides, retractions, faults, stops."""

from __future__ import annotations

import json
import re
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


def _read_engine(message: str, salt: str) -> dict[str, Any]:
    """The engine config line: resolved values; max_num_seqs is not among them (0.1.7 to 0.33.0)."""
    config = redact(parse_dump(message.partition("config: ")[2]), salt=salt)
    card = {
        "model": config.get("model"),
        "context_len": config.get("max_seq_len"),
        "effective": {k: v for k, v in config.items() if not isinstance(v, dict | list)},
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
RULES = (
    Rule("  version ", "boot", "vLLM {engine_version}", rf"[█▀▄] +version {_VERSION}", boots=True),
    Rule("  model ", "boot", "Model {model}", r"[█▀▄] +model +(?P<model>\S+)", boots=True),
    Rule(
        "API server version",
        "boot",
        "vLLM {engine_version}",
        rf"vLLM API server version {_VERSION}",
        boots=True,
    ),
    Rule(
        "vLLM server version",
        "boot",
        "vLLM {engine_version}",
        r"vLLM server version (?P<engine_version>[^\s,]+), serving model (?P<model>\S+)",
        boots=True,
    ),
    Rule(
        "non-default args: ",
        "args",
        "Arguments set by the user",
        r"^non-default args: ",
        boots=True,
        read=read_args,
        keep_text=False,
    ),
    Rule(
        "args: Namespace(",
        "args",
        "Server arguments",
        r"^args: Namespace\(",
        boots=True,
        read=read_args,
        keep_text=False,
    ),
    Rule(
        " engine (v",
        "engine",
        "Engine {engine_version} starts",
        r"^Initializing an? .*engine \(v(?P<engine_version>[^)]+)\) with config: ",
        boots=True,
        read=_read_engine,
        keep_text=False,
    ),
    Rule(
        "Initializing an LLM engine with config",
        "engine",
        "Engine starts",
        r"^Initializing an LLM engine with config: ",
        boots=True,
        read=_read_engine,
        keep_text=False,
    ),
    Rule("Application startup complete", "ready", "Ready", r"^Application startup complete"),
    Rule(
        "KV cache size:",
        "capacity",
        "KV cache: {tokens} tokens",
        r"KV cache size: (?P<tokens>[0-9,]+) tokens",
        read=_read_cache,
    ),
    Rule(
        "Maximum concurrency for",
        "capacity",
        "Concurrency at full length: {max}",
        _CONCURRENCY,
        read=_read_cache,
    ),
    Rule(
        "Available KV cache memory",
        "capacity",
        "KV cache memory: {memory_gb} GiB",
        r"Available KV cache memory: (?P<memory_gb>[0-9.]+) GiB",
    ),
    Rule(
        "Model loading took",
        "milestone",
        "Weights loaded",
        r"Model loading took (?P<memory_gb>[0-9.]+) Gi?B (?:memory )?"
        r"and (?P<duration_s>[0-9.]+) seconds",
    ),
    Rule(
        "Loading weights took",
        "milestone",
        "Weights read",
        r"Loading weights took (?P<duration_s>[0-9.]+) seconds",
    ),
    Rule(
        "torch.compile takes",
        "milestone",
        "Compiled",
        r"torch\.compile takes (?P<duration_s>[0-9.]+) s in total",
    ),
    Rule(
        "Graph capturing finished",
        "milestone",
        "Graphs captured",
        r"Graph capturing finished in (?P<duration_s>[0-9.]+) secs"
        r"(?:, took (?P<memory_gb>[0-9.]+) GiB)?",
    ),
    Rule(
        "init engine (",
        "milestone",
        "Engine initialised",
        r"init engine \(.*?\) took (?P<duration_s>[0-9.]+) s",
    ),
    Rule(
        "is preempted by PreemptionMode",
        "preemption",
        "Preempted: KV cache full",
        r"is preempted by PreemptionMode\.\w+",
        severity="warning",
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
    Rule(
        "engine core exited unexpectedly",
        "fault",
        "Engine core exited unexpectedly",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "EngineCore encountered a fatal error",
        "fault",
        "Engine core hit a fatal error",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "EngineCore hit an exception",
        "fault",
        "Engine core hit an exception",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "EngineCore failed to start",
        "fault",
        "Engine core failed to start",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "Engine core initialization failed",
        "fault",
        "Engine core failed to start",
        r"Engine core initialization failed",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "Engine process failed to start",
        "fault",
        "Engine process failed to start",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "output_handler failed",
        "fault",
        "Engine dead",
        r"^AsyncLLM output_handler failed",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "died unexpectedly",
        "fault",
        "{what} died",
        r"(?P<what>(?:Engine core|Worker|RayWorkerProc)[\w= -]*?) (?:\S+ )?died unexpectedly",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "EngineDeadError",
        "fault",
        "Engine dead",
        r"EngineDeadError",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "out of memory occurred when warming up",
        "fault",
        "CUDA out of memory in warm-up",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "disabling stats logging",
        "stats_off",
        "Stats lines switched off: several API servers",
        severity="warning",
    ),
    Rule(
        "No available shared memory broadcast block found",
        "stall",
        "No shared memory block for a minute: hang or slow start",
        severity="info",
    ),
)
