"""JSON of serving benchmarks: `sglang.bench_serving`, `vllm bench serve`, InferenceX.

All three descend from one script and share most keys, so one function reads them; what tells
them apart also tells the unit. Durations are seconds everywhere. Latencies are milliseconds in
keys that end with `_ms`; InferenceX drops the ending and writes seconds, SGLang 0.1.26 dropped
it and wrote milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from parsers.bench.points import Point, keep, moment, new_point, number, printed_clock, put

SGLANG = "sglang.bench_serving"
VLLM = "vllm bench serve"
INFERENCEX = "InferenceX"

_COLUMNS = {
    "duration": "duration_s",
    "model_id": "model",
    "dataset_name": "dataset",
    "max_concurrency": "concurrency",
    "request_rate": "request_rate",
    "num_prompts": "num_prompts",
    "completed": "completed",
    "failed": "failed",
    "total_input_tokens": "input_tokens",
    "total_input": "input_tokens",  # SGLang 0.1.26
    "total_output_tokens": "output_tokens",
    "total_output": "output_tokens",
    "request_throughput": "request_throughput_rps",
    "output_throughput": "output_tok_s",
    "output_token_throughput": "output_tok_s",
    "total_token_throughput": "total_tok_s",
    "total_throughput": "total_tok_s",
    "max_output_tokens_per_s": "peak_output_tok_s",
    "accept_length": "accept_len",
    "spec_decode_acceptance_length": "accept_len",
    # the aggregated rows of InferenceX
    "model": "model",
    "conc": "concurrency",
}
_COUNTS = {"num_prompts", "completed", "failed", "input_tokens", "output_tokens"}
_TEXTS = {"model", "dataset"}
_LATENCY = re.compile(r"(mean|median|p50|p90|p95|p99)_(ttft|tpot|itl|e2el|e2e_latency)(_ms)?")
# Of the server's arguments only what says which server it was and how it was cut.
_SERVER = re.compile(
    r"version$|model_path|served_model_name|host$|port$|(tp|pp|dp|ep)_size|speculative_|quantization"
    r"|max_running_requests|max_total_tokens|context_length|dtype|kv_cache_dtype|attention_backend"
    r"|mem_fraction_static|chunked_prefill_size|disable_cuda_graph|disable_radix_cache|enable_dp"
)
_SUM_KEYS = ("request_throughput", "output_throughput", "output_token_throughput", "tput_per_gpu")


def tool_of(result: Mapping[str, Any]) -> str | None:
    """Which tool wrote a JSON object; None if it is no result of a serving benchmark."""
    if not any(key in result for key in _SUM_KEYS):
        return None
    latencies = [match for key in result if (match := _LATENCY.fullmatch(key))]
    if "tput_per_gpu" in result and "conc" in result:
        return INFERENCEX
    if not latencies and "duration" not in result:
        return None
    if any(key.startswith(("sharegpt_", "random_")) for key in result) or any(
        match[2] == "e2e_latency" for match in latencies
    ):
        return SGLANG
    if latencies and not any(match[3] for match in latencies):
        return INFERENCEX
    return VLLM if "total_output_tokens" in result or "completed" in result else None


def point(result: Mapping[str, Any]) -> Point | None:
    """The point of one JSON result; None if it is none of a serving benchmark."""
    tool = tool_of(result)
    if tool is None:
        return None
    found = new_point(tool)
    used = set()
    for key, value in result.items():
        column = _COLUMNS.get(key)
        if column is not None and _put(found, column, value):
            used.add(key)
        elif match := _LATENCY.fullmatch(key):
            used |= {key} if _put_latency(found, match, number(value), tool) else set()
    _place_in_time(found, result)
    _count_gpus(found, result)
    if isinstance(info := result.get("server_info"), Mapping):
        used.add("server_info")
        _server(found, info)
    put(found, "label", _label(result))
    keep(found, result, used)
    return found


def _label(result: Mapping[str, Any]) -> str | None:
    """What the user called the set-up: vLLM's `--label`, SGLang's `--tag`; InferenceX's row."""
    for name in ("label", "tag"):
        if isinstance(result.get(name), str) and result[name].strip():
            return str(result[name]).strip()
    parts = [result.get(name) for name in ("framework", "hw", "precision")]
    if "tput_per_gpu" not in result or not all(isinstance(part, str) for part in parts):
        return None
    drafts = result.get("spec_decoding")
    return " ".join([*map(str, parts), *([drafts] if drafts not in (None, "", "none") else [])])


def _put(found: Point, column: str, value: Any) -> bool:
    """Whether the value went into its column. `inf`, null and odd types stay in `extra`."""
    if column in _TEXTS:
        if isinstance(value, str) and value:
            put(found, column, value)
            return bool(found[column] == value)
        return False
    read = number(value)
    if read is None:
        return False
    put(found, column, int(read) if column in _COUNTS else read)
    return True


def _put_latency(found: Point, match: re.Match[str], value: float | None, tool: str) -> bool:
    if value is None:
        return False
    in_seconds = match[3] is None and tool == INFERENCEX
    metric = {"e2el": "e2e", "e2e_latency": "e2e"}.get(match[2], match[2])
    statistic = "median" if match[1] == "p50" else match[1]
    put(found, f"{metric}_ms_{statistic}", value * 1000 if in_seconds else value)
    return True


def _place_in_time(found: Point, result: Mapping[str, Any]) -> None:
    """vLLM writes `date` when the run has ended, in whole seconds of the client's clock."""
    ended = moment(result.get("date")) if isinstance(result.get("date"), str) else None
    if ended is not None and "duration_s" in found:
        with suppress(OverflowError):  # longer than the calendar
            printed_clock(found, (ended - timedelta(seconds=found["duration_s"])).isoformat())


def _count_gpus(found: Point, result: Mapping[str, Any]) -> None:
    """InferenceX's aggregated rows give throughput per GPU: the sums are of all of them."""
    per_gpu = number(result.get("tput_per_gpu"))
    if per_gpu is None:
        return
    if result.get("is_multinode"):
        sizes = [number(result.get(f"num_{role}_gpu")) for role in ("prefill", "decode")]
    else:
        sizes = [number(result.get("tp"))]
    if any(size is None for size in sizes):
        return
    put(found, "gpus", int(sum(size or 0 for size in sizes)))
    put(found, "total_tok_s", per_gpu * found["gpus"])
    output = number(result.get("output_tput_per_gpu"))
    if output is not None and sizes[-1] is not None:
        put(found, "output_tok_s", output * sizes[-1])  # decode GPUs only, where they are apart


def _server(found: Point, info: Mapping[str, Any]) -> None:
    """What SGLang's client copies of the server (0.5.4.post3 on): its arguments and version."""
    put(found, "model", info.get("model_path") or None)
    sizes = {name: int(number(info.get(f"{name}_size")) or 1) for name in ("tp", "pp", "dp")}
    if "tp_size" in info:
        # With DP attention the data-parallel ranks live inside the tensor-parallel group.
        ranks = 1 if info.get("enable_dp_attention") else sizes["dp"]
        put(found, "gpus", sizes["tp"] * sizes["pp"] * ranks)
    told = {name: info[name] for name in info if _SERVER.match(name)}
    keep(
        found, {"server_info": {k: v for k, v in told.items() if isinstance(v, str | int | float)}}
    )
