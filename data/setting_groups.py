"""The part of a server that a setting is about, for lists that a person reads."""

from __future__ import annotations

import re
from typing import Final

OTHER: Final = "other"
# The first that fits; names of both engines and those of data.settings.
_PATTERNS: Final = {
    "speculation": r"spec|draft",
    "memory": r"mem|kv|cach|page|block|swap|offload|max_total|quantiz|dtype|radix",
    "graphs and kernels": r"graph|compil|eager|attention|attn_backend|kernel|moe_runner|triton|"
    r"flashinfer|gemm|moe backend|sampling_backend",
    "scheduling": r"sched|running|queue|chunk|prefill|batch|num_seqs|overlap|policy|priority|"
    r"preempt|stream_interval|concurren|retraction|continuous_decode",
    "parallelism": r"parallel|(?:^|_)(?:tp|dp|ep|pp|cp)(?:_|$)|nnodes|node_rank|dist_|nccl|"
    r"load_balance|disaggregation|all2all|moe_a2a|communication|expert|eplb",
    "model": r"^model|model$|model_|tokenizer|revision|trust_remote|load_format|engine|version|"
    r"weight|lora|chat_template|parser|context|max_seq|device",
    "serving": r"host|port|api|log|ssl|metrics|served|url|auth|key|timeout|trace|warmup|"
    r"allow|root_path|uvicorn|grpc",
}
GROUPS: Final = (*_PATTERNS, OTHER)
_COMPILED: Final = {group: re.compile(pattern) for group, pattern in _PATTERNS.items()}


def group_of(name: str) -> str:
    """One of GROUPS."""
    fits = (group for group, pattern in _COMPILED.items() if pattern.search(name.lower()))
    return next(fits, OTHER)
