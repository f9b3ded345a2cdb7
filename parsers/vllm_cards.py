"""What vLLM's arguments and the lines of its start tell of a run."""

from __future__ import annotations

import json
import re
from typing import Any

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


def read_engine(message: str, salt: str) -> dict[str, Any]:
    """The engine config line: resolved values; max_num_seqs is not among them (0.1.7 to 0.33.0)."""
    config = redact(parse_dump(message.partition("config: ")[2]), salt=salt)
    card = {
        "model": config.get("model"),
        "context_len": config.get("max_seq_len"),
        "effective": {k: v for k, v in config.items() if k not in _LONG} | _graphs(config),
    } | _parallel(config, whole="tensor_parallel_size" in config)
    spec = config.get("speculative_config")
    return card | (_speculation(spec) if isinstance(spec, dict) else {})


CONCURRENCY = r"Maximum concurrency for (?P<len>[0-9,]+) tokens per request: (?P<max>[0-9.]+)x"


def read_cache(message: str, _: str) -> dict[str, Any]:
    """KV cache size and the concurrency at full length; one line from 0.28, two before."""
    tokens = re.search(r"KV cache size: ([0-9,]+) tokens", message)
    concurrency = re.search(CONCURRENCY, message)
    found: dict[str, Any] = {}
    if tokens:
        found["max_total_tokens"] = int(tokens[1].replace(",", ""))
    if concurrency:
        found["effective"] = {"max_concurrency_x": float(concurrency["max"])}
    return found
