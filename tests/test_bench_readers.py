"""Benchmark files of every tool: the right reader, the right columns, the right units.

The values are those that the files under corpus/bench print, in the unit of the column.
"""

from __future__ import annotations

import json
import re
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.bench_read import Titles
from ingest.sources.file import LocalFile
from parsers.bench.frames import frame, rows
from parsers.bench.points import Found
from parsers.bench.read import NoJson, read

CORPUS = Path(__file__).parent / "corpus" / "bench"
SGLANG, VLLM = "sglang.bench_serving", "vllm bench serve"

# GuideLLM prints seconds for whole requests and milliseconds for the rest.
_GUIDELLM: list[dict[str, Any]] = [
    {"tool": "GuideLLM", "tool_version": "0.8.2", "model": "acme/owl-70b", "concurrency": 1.0,
     "duration_s": 40.0, "num_prompts": 23, "completed": 20, "failed": 1, "input_tokens": 10240,
     "output_tokens": 2560, "request_throughput_rps": 0.5, "output_tok_s": 64.0,
     "total_tok_s": 320.0, "ttft_ms_mean": 200.0, "ttft_ms_p95": 350.0, "tpot_ms_median": 15.25,
     "itl_ms_p99": 18.0, "e2e_ms_mean": 2000.0, "e2e_ms_p90": 2400.0},
    {"concurrency": 8.0, "duration_s": 25.0, "output_tok_s": 102.4, "e2e_ms_median": 3430.0},
]  # fmt: skip
_AIPERF: dict[str, Any] = {
    "tool": "AIPerf", "duration_s": 10.0, "completed": 50, "failed": 2, "input_tokens": 25600,
    "output_tokens": 6400, "request_throughput_rps": 5.0, "output_tok_s": 640.0,
    "total_tok_s": 3200.0, "ttft_ms_mean": 120.5, "ttft_ms_p99": 200.0, "tpot_ms_mean": 10.75,
    "itl_ms_median": 10.5, "e2e_ms_p95": 1900.5, "e2e_ms_mean": 1500.25,
}  # fmt: skip

# File -> the points in their order: some columns of each.
POINTS: dict[str, list[dict[str, Any]]] = {
    "sglang-serving-two-tables.txt": [
        {"tool": SGLANG, "model": "acme/owl-70b", "dataset": "sharegpt", "request_rate": None,
         "concurrency": None, "completed": 400, "duration_s": 81.3, "output_tokens": 78400,
         "output_tok_s": 964.33, "total_tok_s": 2072.72, "e2e_ms_median": 41820.77,
         "ttft_ms_p99": 22110.9, "itl_ms_p95": 390.01, "tpot_ms_mean": None},
        {"tool": SGLANG, "request_rate": 6.0, "concurrency": 48.0, "completed": 390,
         "accept_len": 2.31, "ttft_ms_mean": 310.4},
    ],
    "sglang-serving.jsonl": [
        {"tool": SGLANG, "model": "acme/owl-70b", "gpus": 8, "dataset": "random",
         "concurrency": 8.0, "request_rate": None, "duration_s": 10.5, "ttft_ms_mean": 210.125,
         "itl_ms_p95": 33.25, "e2e_ms_median": 5000.25, "accept_len": None},
        {"concurrency": 16.0, "duration_s": 20.5, "output_tok_s": 3800.5},
    ],
    "sglang-one-batch.txt": [
        {"tool": "sglang.bench_one_batch", "concurrency": 4.0, "ttft_ms_mean": 125.0,
         "tpot_ms_median": 10.0, "output_tok_s": 400.0, "total_tok_s": 4890.0, "duration_s": 0.445},
    ],
    "sglang-batches.jsonl": [
        {"tool": "sglang.bench_one_batch", "input_tokens": 2048, "ttft_ms_mean": 125.0,
         "tpot_ms_median": 10.0},
        {"tool": "sglang.bench_one_batch_server", "concurrency": 16.0, "ttft_ms_mean": 500.0,
         "e2e_ms_mean": 4000.0, "accept_len": 2.75, "output_tok_s": 1170.3},
        {"tool": "sglang.bench_offline_throughput", "completed": 10, "duration_s": 5.0,
         "total_tok_s": 600.0},
    ],
    "sglang-one-batch-server.txt": [
        {"tool": "sglang.bench_one_batch_server", "concurrency": 16.0, "ttft_ms_mean": 500.0,
         "duration_s": 4.0, "output_tok_s": 1170.3, "accept_len": 2.75},
    ],
    "sglang-offline.txt": [
        {"tool": "sglang.bench_offline_throughput", "completed": 10, "output_tok_s": 400.0},
    ],
    "vllm-commented.txt": [
        {"tool": VLLM, "concurrency": 12.0, "request_rate": None, "total_tok_s": 457.94,
         "tpot_ms_p99": 81.4},
    ],
    "vllm-inside-server-log.txt": [
        {"tool": VLLM, "completed": 30, "failed": 2, "concurrency": 8.0, "accept_len": 2.23,
         "peak_output_tok_s": 388.0, "duration_s": 22.4},
    ],
    "vllm-appended.json": [
        {"tool": VLLM, "num_prompts": 64, "completed": 60, "concurrency": 16.0,
         "request_rate": None, "e2e_ms_mean": 7900.0, "duration_s": 30.5},
        {"request_rate": 4.0, "concurrency": None, "failed": 0, "accept_len": 2.5},
    ],
    "vllm-throughput.json": [
        {"tool": "vllm bench throughput", "duration_s": 20.0, "completed": 50,
         "request_throughput_rps": 2.5, "total_tok_s": 1600.0, "output_tok_s": None},
    ],
    "vllm-throughput.pytorch.json": [
        {"tool": "vllm bench throughput", "model": "acme/owl-1b", "duration_s": 20.0,
         "total_tok_s": 1600.0},
    ],
    "vllm-offline.txt": [
        {"tool": "vllm bench throughput", "output_tok_s": 600.0, "input_tokens": 20000},
        {"tool": "vllm bench latency", "e2e_ms_mean": 2125.0, "e2e_ms_p99": 2400.0},
    ],
    "vllm-latency.json": [
        {"tool": "vllm bench latency", "e2e_ms_mean": 2125.0, "e2e_ms_median": 2100.0,
         "model": "acme/owl-1b"},
    ],
    "vllm-sweep-summary.csv": [
        {"tool": VLLM, "concurrency": 4.0, "ttft_ms_mean": 55.5, "tpot_ms_p99": 9.25},
        {"concurrency": 8.0, "output_tok_s": 625.0},
    ],
    "guidellm.json": _GUIDELLM,
    "guidellm.csv": _GUIDELLM,
    "aiperf.json": [
        {**_AIPERF, "tool_version": "0.13.1", "model": "acme/owl-70b", "concurrency": 8.0,
         "num_prompts": 52, "dataset": "synthetic"},
    ],
    "aiperf.csv": [{**_AIPERF, "concurrency": None, "model": None}],
    "inference-perf.json": [
        {"tool": "inference-perf", "num_prompts": 120, "completed": 118, "failed": 2,
         "request_rate": 2.0, "ttft_ms_p99": 900.0, "tpot_ms_mean": 20.5, "e2e_ms_median": 3250.0,
         "output_tok_s": 310.5, "output_tokens": 18762},
    ],
    "inferencex-rows.json": [
        {"tool": "InferenceX", "label": "sglang h200-nv fp8", "gpus": 8,
         "concurrency": 32.0, "total_tok_s": 4000.0,
         "output_tok_s": 2000.0, "ttft_ms_p99": 900.0, "tpot_ms_mean": 12.5,
         "e2e_ms_median": 12500.0},
    ],
    "notes.md": [
        {"tool": "table", "label": "base", "concurrency": 1.0, "output_tok_s": 82.5,
         "ttft_ms_median": 140.0, "tpot_ms_mean": 11.9, "num_prompts": 64},
        {"label": "base", "concurrency": 32.0, "output_tok_s": 1536.0},
        {"label": "draft", "output_tok_s": 62.9},
        {"concurrency": 1.0, "accept_len": 1.65},
        {"concurrency": 8.0, "accept_len": 1.7},
        {"concurrency": 1.0, "accept_len": 1.9},
    ],
    "sweep.tsv": [
        {"concurrency": 1.0, "ttft_ms_p99": 250.0, "tpot_ms_mean": 12.0, "output_tok_s": 81.5},
        {"concurrency": 8.0, "ttft_ms_p99": 500.0, "output_tok_s": 402.0},
    ],
    "aligned.txt": [
        {"concurrency": 1.0, "output_tok_s": 82.5, "ttft_ms_mean": 120.0, "failed": 0},
        {"concurrency": 16.0, "output_tok_s": 1536.25, "failed": 3},
    ],
    "private-script.txt": [
        {"tool": "printed lines", "concurrency": 1.0, "num_prompts": 3, "output_tokens": 940,
         "duration_s": 11.6, "output_tok_s": 940 / 11.6, "tpot_ms_median": 11.8,
         "ttft_ms_mean": 140.0, "tpot_ms_p99": None},
        {"concurrency": 16.0, "output_tok_s": 1210.5, "peak_output_tok_s": 1400.0,
         "ttft_ms_median": 800.0},
        {"concurrency": 32.0, "output_tok_s": 1536.0},
        {"concurrency": 64.0, "output_tok_s": 2370.25, "total_tok_s": 4100.0},
    ],
}  # fmt: skip
UNREAD = {"notes.md": ["GPU temp", "engine A 1.2", "engine B 0.9"]}


def parsed(name: str) -> Found:
    found = read((CORPUS / name).read_text())
    assert found is not None
    return found


def test_every_file_of_the_corpus_has_its_answers() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(POINTS)


@pytest.mark.parametrize("name", POINTS)
def test_a_file_gives_its_points(name: str) -> None:
    found = parsed(name)
    made = frame(rows(found.points, name)).to_dicts()
    assert len(made) == len(POINTS[name])
    for row, want in zip(made, POINTS[name], strict=True):
        got = {column: row[column] for column in want}
        assert got == pytest.approx(want)
    assert found.unread == UNREAD.get(name, [])


@pytest.mark.parametrize("name", POINTS)
def test_no_secret_and_no_text_of_users_is_kept(name: str) -> None:
    made = frame(rows(parsed(name).points, name))
    text = made.write_json()
    for hidden in ("sk-livekey", "topsecret", "abcdef0123456789", "private answer"):
        assert hidden not in text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("vllm-throughput.json", "vllm-throughput.pytorch.json"),
        ("vllm-latency.json", "vllm-offline.txt"),
        ("sglang-one-batch.txt", "sglang-batches.jsonl"),
        ("sglang-one-batch-server.txt", "sglang-batches.jsonl"),
        ("sglang-offline.txt", "sglang-batches.jsonl"),
        ("guidellm.json", "guidellm.csv"),
        ("aiperf.json", "aiperf.csv"),
    ],
)
def test_one_measurement_has_one_id_in_every_format(one: str, other: str) -> None:
    first, second = (
        {row["bench_id"] for row in rows(parsed(name).points, name)} for name in (one, other)
    )
    assert first & second


def test_definitions_that_differ_are_told_with_the_point() -> None:
    assert (
        parsed("guidellm.json")
        .points[0]["extra"]["notes"][0]
        .startswith("GuideLLM's TPOT counts the first token")
    )
    extra = parsed("aiperf.json").points[0]["extra"]
    assert extra["notes"][0].startswith("AIPerf's ITL is a mean over each request")
    assert (extra["inter_chunk_latency"], extra["time_to_second_token"]) == (21.5, 9.5)


def test_what_has_no_column_is_kept_under_its_printed_name() -> None:
    extra = parsed("sglang-serving-two-tables.txt").points[0]["extra"]
    assert extra["Max ITL (ms)"] == 3120.45
    assert extra["Max reqeuest concurrency"] == "not set"
    assert extra["args"]["port"] == 30000
    jsonl = parsed("sglang-serving.jsonl").points[1]["extra"]
    assert jsonl["server_info"]["version"] == "0.5.12"
    assert jsonl["request_rate"] == "inf"


def test_the_end_of_a_vllm_run_places_its_beginning() -> None:
    point = parsed("vllm-appended.json").points[0]
    assert point["started_at"].isoformat() == "2026-06-11T10:14:59.500000"


@pytest.mark.parametrize("cut", [1, 100, 500, -2])
def test_a_cut_result_is_refused_in_words(cut: int) -> None:
    text = (CORPUS / "inference-perf.json").read_text()[:cut]
    if cut == 1:
        assert read(text) is None
        return
    with pytest.raises(NoJson, match="is cut off at line 1 column"):
        read(text)


def test_of_appended_results_only_the_cut_one_is_left_out() -> None:
    found = read((CORPUS / "sglang-serving.jsonl").read_text()[:-100])
    assert found is not None
    assert len(found.points) == 1
    assert found.notes == ["result 2 is cut off or damaged and was left out"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\nworld, how are you\n",
        '{"model_type": "llama", "hidden_size": 64}',
        '{"message": "Application startup complete.", "level": "INFO"}\n{"message": "x"}\n',
        "| folder | what it shows |\n| --- | --- |\n| a | 5 |\n",
        "[2026-05-04 10:00:00] Decode batch, #running-req: 1, gen throughput (token/s): 88.00\n",
        "============ Serving Benchmark Result ============\nLatency Mean (s): 3.2\n",
    ],
)
def test_what_is_no_result_is_none(text: str) -> None:
    assert read(text) is None


def test_columns_that_the_user_named_are_read() -> None:
    maps = {"engine A 1.2": ("output_tok_s", None), "engine B 0.9": ("output_tok_s", None)}
    found = read((CORPUS / "notes.md").read_text(), maps)
    assert found is not None
    named = [point for point in found.points if point.get("label", "").startswith("engine")]
    assert [(point["label"], point["output_tok_s"]) for point in named] == [
        ("engine A 1.2", 1042.5),
        ("engine B 0.9", 1253.25),
    ]
    assert named[0]["extra"]["Input len"] == 1000
    assert found.unread == ["GPU temp"]


@pytest.mark.parametrize("name", ["label", "tag"])
def test_a_point_keeps_the_name_that_its_user_gave(name: str) -> None:
    text = (CORPUS / "sglang-serving.jsonl").read_text().splitlines()[0]
    found = read(json.dumps({**json.loads(text), name: " draft 3 "}))
    assert found is not None
    made = frame(rows(found.points, "f", "mine"))
    assert made["label"].to_list() == ["mine · draft 3"]


def test_a_header_may_name_its_own_load() -> None:
    found = read(
        "| set-up | single-stream tok/s | C=16 tok/s | TTFT p50 (ms) @ 16 | peak tok/s |\n"
        "|---|---|---|---|---|\n| base | ~82.5 | 900 | 310 | 1,536 |\n"
    )
    assert found is not None
    assert found.unread == []
    made = frame(rows(found.points, "f")).select(
        "label", "concurrency", "output_tok_s", "ttft_ms_median", "peak_output_tok_s"
    )
    assert made.rows() == [
        ("base", 1.0, 82.5, None, None),
        ("base", 16.0, 900.0, 310.0, None),
        ("base", None, None, None, 1536.0),
    ]


def test_extra_is_json() -> None:
    made = frame(rows(parsed("vllm-inside-server-log.txt").points, "f"))
    assert len(json.loads(made["extra"][0])["oddities"]) == 4


@pytest.mark.parametrize(
    "text",
    [
        "conc,output tok/s,--api-key livekey7731\n4,100,1\n",
        "| conc | tok/s | HF_TOKEN=livekey7731 |\n| --- | --- | --- |\n| 4 | 100 | 7 |\n",
        "--api-key livekey7731\nC=4: 100 tok/s\n",
    ],
)
def test_no_secret_is_told_as_a_header_or_a_title(text: str) -> None:
    found = read(text)
    assert found is not None
    assert found.points[0]["output_tok_s"] == 100
    assert "livekey7731" not in repr(found)


@given(cuts=st.lists(st.integers(1, 340)), again=st.booleans())
def test_tables_are_found_however_a_log_is_read(cuts: list[int], again: bool) -> None:
    """In pieces that end anywhere or begin anew with their line; the rest is read at the end."""
    title = b"============ Serving Benchmark Result ============\n"
    data = b"a line = 1\n" * 3 + title + b"x" * 90 + b"\n" + title * 2 + b"the end\n" * 9
    ends, titles = sorted({0, *cuts}), Titles()
    with tempfile.NamedTemporaryFile() as named:
        Path(named.name).write_bytes(data)
        with closing(LocalFile(Path(named.name))) as file:
            file.watch = titles.seen
            for start, end in pairwise(ends):
                start = data.rfind(b"\n", 0, start) + 1 if again else start
                file.read(start, end - start)
            file.watch = None
            assert titles.of(file, len(data)) == [m.start() for m in re.finditer(b" Bench", data)]
