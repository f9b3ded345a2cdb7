"""What a run was given, what the engine made of it, and what it runs with; its start-up."""

from __future__ import annotations

import json
from typing import Any

from data.setting_groups import group_of
from data.settings import DEFAULT, Setting, settings
from ingest.pipeline import Batch
from tests.logs import decode, read, text

S = "[2026-05-04 10:00:{:02}] "
V = "(EngineCore pid=9) INFO 05-04 10:00:{:02} [core.py:7] "


def pool(running: int, *, tokens: int = 65536, rank: str = "", context: int = 8192) -> str:
    """A pool summary of SGLang 0.5.23."""
    return (
        f"[2026-05-04 10:00:09{rank}] max_total_num_tokens={tokens}, chunked_prefill_size=4096, "
        f"max_prefill_tokens=16384, max_running_requests={running}, context_len={context}, "
        "available_gpu_mem=9.50 GB"
    )


def sglang(args: str, *lines: str) -> Batch:
    """The start of an SGLang server with these arguments and lines."""
    dump = S.format(1) + "server_args={'model_path': 'acme/quill-7b', " + args + "}"
    return read(text([*(line for line in lines if "reset to" in line), dump,
                      *(line for line in lines if "reset to" not in line)]))  # fmt: skip


def overrides(batch: Batch) -> list[dict[str, Any]]:
    """The data of override events."""
    rows = batch.events.filter(batch.events["kind"] == "override")
    return [json.loads(data) for data in rows["data"]]


def run_of(batch: Batch) -> dict[str, Any]:
    """The last row of facts."""
    return dict(batch.run_facts.rows(named=True)[-1])


def test_a_setting_stands_where_a_reader_looks_for_it() -> None:
    assert group_of("num_continuous_decode_steps") == "scheduling"
    assert group_of("speculative_num_draft_tokens") == "speculation"


def test_a_share_of_the_argument_on_each_rank_is_no_override() -> None:
    lines = [pool(256, rank=f" DP{i} TP{i}") for i in range(8)]
    batch = sglang("'dp_size': 8, 'max_running_requests': 2048", *lines)
    assert overrides(batch) == []


def test_a_pool_below_the_argument_is_told_once() -> None:
    lines = [pool(100, rank=f" DP{i} TP{i}") for i in range(8)]
    batch = sglang("'dp_size': 8, 'max_running_requests': 2048", *lines)
    (found,) = overrides(batch)
    assert (found["given"], found["effective"], found["ranks"]) == (2048, 100, 8)
    assert found["name"] == "max_running_requests"


def test_a_page_less_of_tokens_is_no_override_and_half_is() -> None:
    page = "'max_total_tokens': 65600, 'page_size': 128"
    assert overrides(sglang(page, pool(8, tokens=65536))) == []
    (found,) = overrides(sglang(page, pool(8, tokens=32768)))
    assert (found["name"], found["effective"]) == ("max_total_tokens", 32768)


def test_speculation_lowers_a_default() -> None:
    line = S.format(0) + "Max running requests is reset to 48 for speculative decoding."
    batch = sglang("'max_running_requests': 48, 'speculative_algorithm': 'EAGLE3'", line, pool(48))
    assert overrides(batch) == [
        {"name": "max_running_requests", "given": DEFAULT, "effective": 48}
    ]  # fmt: skip
    told = settings(run_of(batch), overrides(batch))
    assert told["running requests at most"] == Setting(
        "running requests at most", DEFAULT, 48, 48
    )  # fmt: skip


def test_the_state_cache_caps_what_was_asked() -> None:
    line = (
        "[2026-05-04 10:00:05 TP0] max_running_requests is capped to 40 by the mamba state cache "
        "(max_mamba_cache_size=161, 4 state slots per request). To raise it: increase it."
    )
    (found,) = overrides(sglang("'max_running_requests': 512", line, pool(40)))
    assert (found["given"], found["effective"], found["rank"]) == (512, 40, "TP0")


def vllm(args: str, config: str) -> Batch:
    """The start of a vLLM server."""
    return read(
        text(
            [
                f"(APIServer pid=7) INFO 05-04 10:00:00 [u.py:1] non-default args: {{{args}}}",
                V.format(1) + "Initializing a V1 LLM engine (v0.33.0) with config: "
                f"model='acme/reed-8b', speculative_config=None, {config}, seed=0",
            ]
        )
    )


def test_spellings_of_one_value_are_no_override() -> None:
    batch = vllm(
        "'model': 'acme/reed-8b', 'dtype': 'half', 'max_model_len': 8192, 'kv_cache_dtype': 'fp8', "
        "'tensor_parallel_size': 2, 'data_parallel_size': 4, 'quantization': None",
        "dtype=torch.float16, max_seq_len=8192, kv_cache_dtype=fp8_e4m3, tensor_parallel_size=2, "
        "data_parallel_size=1, quantization=fp8",
    )
    assert overrides(batch) == []


def test_an_engine_that_runs_otherwise_than_asked() -> None:
    batch = vllm(
        "'model': 'acme/reed-8b', 'max_model_len': 8192, 'enforce_eager': False, 'max_num_seqs': 9",
        "dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=1, enforce_eager=True, "
        "enable_prefix_caching=True",
    )
    assert overrides(batch) == [
        {"name": "max_model_len", "given": 8192, "effective": 4096},
        {"name": "enforce_eager", "given": False, "effective": True},
    ]
    told = settings(run_of(batch), overrides(batch))
    assert told["context"] == Setting("context", 8192, 4096, 4096)
    assert told["running requests at most"].given == 9
    assert told["prefix cache"] == Setting("prefix cache", DEFAULT, True, None)
    assert told["dtype"].value == "torch.bfloat16"
    assert "memory fraction" not in told


def test_the_card_of_a_server_with_much_set() -> None:
    batch = sglang(
        "'tp_size': 8, 'dp_size': 8, 'ep_size': 8, 'enable_dp_attention': True, 'host': '0.0.0.0', "
        "'port': 30000, 'quantization': 'fp8', 'kv_cache_dtype': 'fp8_e4m3', 'device': 'cuda', "
        "'mem_fraction_static': 0.84, 'attention_backend': 'fa3', 'moe_a2a_backend': 'deepep', "
        "'moe_runner_backend': 'auto', 'disaggregation_mode': 'decode', "
        "'speculative_algorithm': 'EAGLE', 'speculative_num_steps': 3, "
        "'speculative_num_draft_tokens': 4, 'speculative_draft_model_path': 'acme/quill-draft', "
        "'cuda_graph_config': {'decode': {'backend': 'full', 'max_bs': 32}}, "
        "'max_running_requests': 2048, 'chunked_prefill_size': 16384",
        pool(256, rank=" DP0 TP0"),
    )
    told = {name: setting.value for name, setting in settings(run_of(batch)).items()}
    assert told == told | {
        "model": "acme/quill-7b", "tensor parallel": 8, "data parallel": 8, "expert parallel": 8,
        "quantization": "fp8", "KV cache dtype": "fp8_e4m3", "context": 8192,
        "memory fraction": 0.84, "running requests at most": 256, "KV cache tokens": 65536,
        "speculation": "EAGLE", "speculative steps": 3, "draft tokens": 4,
        "draft model": "acme/quill-draft", "attention backend": "fa3", "MoE backend": "auto",
        "MoE communication": "deepep", "disaggregation": "decode", "largest graph": 32,
        "graph mode": "full", "host": "0.0.0.0", "port": 30000, "device": "cuda",
        "chunked prefill": 4096,
    }  # fmt: skip


BAR = "Loading safetensors checkpoint shards: {} Completed | {}/4 [00:{:02}<00:00,  2.52it/s]"


def test_the_start_of_a_server_as_steps() -> None:
    """Each with its seconds and memory, bars as one step, the draft model's told apart."""
    r = " TP0] "
    lines = [
        S.format(2)[:-2] + r + "Init torch distributed ends. elapsed=1.82 s, mem usage=1.96 GB",
        S.format(2)[:-2] + r + "Load weight begin. avail mem=137.34 GB",
        *(BAR.format(f" {25 * i}%", i, i) for i in range(4)),
        BAR.format("100%", 4, 5),
        BAR.format("100%", 4, 5),
        "",
        S.format(8)[:-2] + r + "Load weight end. elapsed=5.02 s, type=QuillForCausalLM, "
        "avail mem=80.00 GB, mem usage=57.04 GB.",
        S.format(9)[:-2] + r + "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 65536, "
        "K size: 4.00 GB, V size: 4.00 GB",
        S.format(9)[:-2] + r + "Memory pool end. avail mem=12.00 GB",
        S.format(12)[:-2] + r + "Capture target decode CUDA graph end. elapsed=2.89 s, "
        "mem usage=0.15 GB, avail mem=6.95 GB.",
        S.format(14)[:-2] + r + "Load weight end. elapsed=0.91 s, type=QuillEagle, "
        "avail mem=6.00 GB, mem usage=0.95 GB.",
        S.format(14)[:-2] + r + "Memory pool end. avail mem=5.00 GB",
        S.format(15) + "INFO:     Started server process [4242]",
        S.format(16) + "The server is fired up and ready to roll!",
        decode("10:00:20"),
    ]
    batch = sglang("'tp_size': 1", *lines)
    steps = batch.events.select("title", "duration_s", "memory_gb").rows()
    assert steps == [
        ("Server arguments", None, None),
        ("Ranks connected", 1.82, 1.96),
        ("Loading weights", None, None),
        ("Weight files read", 5.0, None),
        ("Weights loaded", 5.02, 57.04),
        ("KV cache allocated", None, 8.0),
        ("Memory pool ready", None, None),
        ("Graphs captured", 2.89, 0.15),
        ("Weights loaded (draft model)", 0.91, 0.95),
        ("Memory pool ready (draft model)", None, None),
        ("HTTP server process started", None, None),
        ("Ready", None, None),
    ]
