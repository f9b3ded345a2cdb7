"""A run's settings under one name each, whichever engine printed them and wherever it did.

`runs` has columns for what lists and rules need; all else of the card stays in its JSON columns
under the engine's own names. `settings` reads both, so that no page has to know those names.

- given: what the user set, `default` where they set nothing, None where the log does not tell.
  vLLM prints it from 0.9 on (its arguments that are not default); SGLang prints it never, but an
  override's line tells what it overrode.
- resolved: the argument after the engine's own rules (SGLang's dump, vLLM's engine config).
- effective: what the server said last: the pool line, or an override.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a run; None: not told."""

    name: str
    given: Any
    resolved: Any
    effective: Any

    @property
    def value(self) -> Any:
        """What the server runs with, as far as it is known."""
        told = (self.effective, self.resolved, self.given)
        return next((v for v in told if v is not None and v != DEFAULT), None)


@dataclass(frozen=True, slots=True)
class _Names:
    """Where a setting stands: paths into the arguments and the effective values, any first."""

    name: str
    args: tuple[str, ...]
    effective: tuple[str, ...] = ()
    column: str | None = None  # of runs, where the others are silent


_SETTINGS = (
    _Names("model", ("model_path", "model", "model_tag"), ("model",), "model"),
    _Names("served model name", ("served_model_name",), ("served_model_name",)),
    _Names("tensor parallel", ("tp_size", "tensor_parallel_size"), ("tensor_parallel_size",), "tp"),
    _Names("data parallel", ("dp_size", "data_parallel_size"), ("data_parallel_size",), "dp"),
    _Names(
        "pipeline parallel",
        ("pp_size", "pipeline_parallel_size"),
        ("pipeline_parallel_size",),
        "pp",
    ),
    _Names("expert parallel", ("ep_size", "enable_expert_parallel"), (), "ep"),
    _Names("data parallel attention", ("enable_dp_attention",)),
    _Names("dtype", ("dtype",), ("dtype",)),
    _Names("quantization", ("quantization",), ("quantization",)),
    _Names("KV cache dtype", ("kv_cache_dtype",), ("kv_cache_dtype",)),
    _Names(
        "context",
        ("context_length", "max_model_len"),
        ("context_len", "max_seq_len"),
        "context_len",
    ),
    _Names("memory fraction", ("mem_fraction_static", "gpu_memory_utilization")),
    _Names(
        "running requests at most",
        ("max_running_requests", "max_num_seqs"),
        ("max_running_requests",),
        "max_running_requests",
    ),
    _Names("queued requests at most", ("max_queued_requests",)),
    _Names("KV cache tokens", ("max_total_tokens",), ("max_total_num_tokens",), "max_total_tokens"),
    _Names(
        "chunked prefill",
        ("chunked_prefill_size", "enable_chunked_prefill"),
        ("chunked_prefill_size", "enable_chunked_prefill", "chunked_prefill_enabled"),
    ),
    _Names("prefill tokens at most", ("max_prefill_tokens", "max_num_batched_tokens"),
           ("max_prefill_tokens",)),
    _Names("page size", ("page_size", "block_size")),
    _Names("prefix cache", ("enable_prefix_caching",), ("enable_prefix_caching",)),
    _Names("prefix cache off", ("disable_radix_cache",)),
    _Names(
        "speculation",
        ("speculative_algorithm", "speculative_config.method"),
        ("speculative_config.method",),
        "spec_algorithm",
    ),
    _Names("speculative steps", ("speculative_num_steps",), (), "spec_steps"),
    _Names(
        "draft tokens",
        (
            "speculative_num_draft_tokens",
            "speculative_config.num_speculative_tokens",
            "num_speculative_tokens",
        ),
        ("speculative_config.num_spec_tokens",),
        "spec_draft_tokens",
    ),
    _Names("speculative top-k", ("speculative_eagle_topk",)),
    _Names(
        "draft model",
        ("speculative_draft_model_path", "speculative_config.model", "speculative_model"),
        ("speculative_config.model", "speculative_config.draft_model"),
    ),
    _Names("attention backend", ("attention_backend",)),
    _Names("prefill attention backend", ("prefill_attention_backend",)),
    _Names("decode attention backend", ("decode_attention_backend",)),
    _Names("MoE backend", ("moe_runner_backend",)),
    _Names("MoE communication", ("moe_a2a_backend", "all2all_backend")),
    _Names("disaggregation", ("disaggregation_mode", "kv_transfer_config.kv_role")),
    _Names("graphs off", ("disable_cuda_graph", "enforce_eager"), ("enforce_eager",)),
    _Names(
        "largest graph",
        ("cuda_graph_max_bs", "cuda_graph_config.decode.max_bs"),
        (
            "compilation_config.max_cudagraph_capture_size",
            "compilation_config.max_capture_size",
        ),
    ),
    _Names("graph mode", ("cuda_graph_config.decode.backend",),
           ("compilation_config.cudagraph_mode",)),
    _Names("overlap schedule off", ("disable_overlap_schedule",)),
    _Names("decode log interval", ("decode_log_interval",)),
    _Names("device", ("device",), ("device_config",), "hardware"),
    _Names("host", ("host",)),
    _Names("port", ("port",)),
)  # fmt: skip


def settings(
    run: Mapping[str, Any], overrides: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Setting]:
    """The settings of a run that its log tells, by their names here.

    Args:
        run: a row of `runs`.
        overrides: the data of its override events (name, given, effective).
    """
    args, effective = (json.loads(run.get(n) or "{}") for n in ("args", "effective"))
    told = {str(o.get("name")): o for o in overrides}
    found = {}
    for names in _SETTINGS:
        setting = _setting(names, run, args, effective, told)
        if setting.value is not None:
            found[names.name] = setting
    return found


def _setting(
    names: _Names,
    run: Mapping[str, Any],
    args: Mapping[str, Any],
    effective: Mapping[str, Any],
    told: Mapping[str, Mapping[str, Any]],
) -> Setting:
    asked = _first(args, names.args)
    settled = _first(effective, names.effective)
    override = next((told[n] for n in names.args if n in told), None)
    if run.get("engine") == "vllm":
        whole = any(value is None for value in args.values())  # a Namespace names every argument
        given = None if whole or not args else DEFAULT if asked is None else asked
        resolved = settled if settled is not None else asked if whole else None
        final = None
    else:
        given, resolved, final = None, asked, settled
    if override is not None:
        given, final = override.get("given"), override.get("effective")
    if final is None and resolved is None and names.column:
        final = run.get(names.column)
    return Setting(names.name, given, resolved, final)


def _first(values: Mapping[str, Any], paths: Iterable[str]) -> Any:
    for path in paths:
        value: Any = values
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    return None
