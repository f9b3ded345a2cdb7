"""Logs of one model served in four ways, with the numbers that a user worked days for.

SGLang prints in the shape of 0.5.10: its accept rate counts the bonus token. Windows of 40 steps
and stamps of whole seconds, as a server prints them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

REQUESTS, OUTPUT = 3, 1320  # one after another, tokens each
BEGIN = datetime(2026, 4, 7, 10, 0, 0)
RESET = (
    "Max running requests is reset to 48 for speculative decoding. You can override this by "
    "explicitly setting --max-running-requests."
)
DRAFT: dict[str, Any] = {
    "speculative_algorithm": "EAGLE3", "speculative_num_steps": 3, "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4, "max_running_requests": 48,
}  # fmt: skip


def _stamp(seconds: float) -> str:
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


def _args(**values: Any) -> str:
    given = {
        "model_path": "org/moe-547b", "tp_size": 8, "dp_size": 1, "pp_size": 1,
        "decode_log_interval": 40, "max_running_requests": None, "mem_fraction_static": 0.9,
        "speculative_algorithm": None, "speculative_num_steps": None,
        "speculative_eagle_topk": None, "speculative_num_draft_tokens": None,
        "speculative_draft_model_path": None, "page_size": 1,
        "json_model_override_args": '{"stop_word": "Traceback (most recent call last):"}', **values,
    }  # fmt: skip
    return "ServerArgs(" + ", ".join(f"{name}={value!r}" for name, value in given.items()) + ")"


def sglang(
    rate: float, *, cap: int = 2048, length: float | None = None, says_so: bool = True, **args: Any
) -> list[str]:
    """A start that serves one request after another at this rate (tok/s)."""
    at = f"[{_stamp(0)}"
    lines = [f"{at}] {RESET}"] if cap == 48 and says_so else []
    lines += [
        f"{at}] server_args={_args(**args)}",
        f"{at} TP0] max_total_num_tokens=812000, chunked_prefill_size=8192, "
        f"max_prefill_tokens=16384, max_running_requests={cap}, context_len=131072, "
        "available_gpu_mem=9.41 GB",
        f"{at}] The server is fired up and ready to roll!",
    ]
    return [*lines, *_stream(rate, length)]


def _stream(rate: float, length: float | None) -> Iterator[str]:
    spec = f"accept len: {length:.2f}, accept rate: {length / 4:.2f}, " if length else ""
    tokens, at = 40 * (length or 1.0), 5.0
    for _ in range(REQUESTS):
        yield (
            f"[{_stamp(at)} TP0] Prefill batch, #new-seq: 1, #new-token: 1024, #cached-token: 0, "
            "token usage: 0.00, #running-req: 0, #queue-req: 0, "
        )
        for i in range(1, round(OUTPUT / tokens) + 1):
            printed = rate * (1 + 0.002 * (-1) ** i)
            at += tokens / printed
            yield (
                f"[{_stamp(at)} TP0] Decode batch, #running-req: 1, "
                f"#token: {1024 + round(i * tokens)}, token usage: 0.00, {spec}cuda graph: True, "
                f"gen throughput (token/s): {printed:.2f}, #queue-req: 0, "
            )


def vllm(rate: float) -> list[str]:
    """A vLLM start with one long stream at this rate (tok/s)."""

    def info(seconds: float, text: str) -> str:
        at = BEGIN + timedelta(seconds=seconds)
        return f"(APIServer pid=11) INFO {at:%m-%d %H:%M:%S} [loggers.py:248] {text}"

    return [
        info(0, "vLLM API server version 0.14.0"),
        info(1, "non-default args: {'model': 'org/moe-547b', 'tensor_parallel_size': 8}"),
        info(60, "Application startup complete."),
        *(
            info(70 + 10 * i, f"Engine 000: Avg prompt throughput: {102.4 if not i else 0.0} "
                 f"tokens/s, Avg generation throughput: {rate} tokens/s, Running: 1 reqs, "
                 "Waiting: 0 reqs, GPU KV cache usage: 0.3%, Prefix cache hit rate: 0.0%")
            for i in range(12)
        ),
    ]  # fmt: skip


def four() -> dict[str, list[str]]:
    """The four set-ups."""
    return {
        "vllm": vllm(82.5),
        "base": sglang(63.6),
        "eagle3": sglang(
            62.9, cap=48, length=1.65, speculative_draft_model_path="org/eagle3", **DRAFT
        ),
        "custom": sglang(
            44.1, cap=48, length=1.0, speculative_draft_model_path="/models/own-draft", **DRAFT
        ),
    }


POINTS = {
    "vllm": {1: 82.5, 16: 780.0, 64: 1536.0},
    "base": {1: 63.6, 16: 610.0, 64: 2370.0},
    "eagle3": {1: 62.9, 16: 520.0, 64: 849.0},
}


def bench(name: str) -> str:
    """The result file of a client against one of the set-ups: output tok/s by concurrency."""
    lines = []
    for concurrency, rate in POINTS[name].items():
        requests = 10 * concurrency
        duration = requests * 512 / rate
        lines.append(json.dumps({
            "backend": "sglang", "dataset_name": "sharegpt", "request_rate": math.inf,
            "max_concurrency": concurrency, "duration": duration, "completed": requests,
            "total_input_tokens": requests * 1024, "total_output_tokens": requests * 512,
            "request_throughput": requests / duration, "output_throughput": rate,
            "mean_e2e_latency_ms": 512 * concurrency / rate * 1000,
            "mean_ttft_ms": 180.0, "median_ttft_ms": 170.0,
            "mean_tpot_ms": concurrency / rate * 1000, "median_tpot_ms": concurrency / rate * 1000,
        }))  # fmt: skip
    return "\n".join(lines) + "\n"
