"""What containers, schedulers and collectors put around lines changes no record."""

from __future__ import annotations

import json
from datetime import datetime

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.pipeline import Batch, SourceInfo
from parsers import lines as line_split
from parsers import wrappers
from tests.logs import decode, prefill, read, sglang_boot, stats, text
from tests.wrapping import (
    WRAPPERS,
    Wrapper,
    collector,
    compose,
    cri,
    docker,
    docker_json,
    follow,
    journal_json,
    srun,
)

PRINTED = SourceInfo("test", as_printed=True, clock_hint=datetime(2026, 5, 5))
SGLANG = [
    *sglang_boot("10:00:00"),
    decode("10:00:01", 3, 88.5),
    '[2026-05-04 10:00:02] INFO:     127.0.0.1:5 - "POST /generate HTTP/1.1" 200 OK',
    decode("10:00:02", 4, 91.25, accept=1.75, ranks=" DP1 TP4"),
    prefill("10:00:03", 2, 1),
    "[2026-05-04 10:00:04] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/engine/scheduler.py", line 51, in run',
    "    step()",
    "RuntimeError: a kernel is missing",
    "",
]
VLLM = [
    "INFO 05-04 10:00:00 [utils.py:299]  █▄█▀ █     █     █     █  version 0.20.2",
    stats("05-04 10:00:05", 51.5, 2),
    'INFO:     10.0.0.1:37016 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
    stats("05-04 10:00:15", 60.25, 3, engine=1),
    "(EngineCore pid=8) ERROR 05-04 10:00:16 [core.py:1138] EngineCore encountered a fatal error.",
    "(EngineCore pid=8) ERROR 05-04 10:00:16 [core.py:1138] Traceback (most recent call last):",
    '(EngineCore pid=8) ERROR 05-04 10:00:16 [core.py:1138]   File "/opt/a.py", line 1, in step',
    "(EngineCore pid=8) ERROR 05-04 10:00:16 [core.py:1138] ValueError: no block is free",
]
# What depends on the place of a line, or on the lines before it.
PLACES = ("byte_offset", "ts", "ts_inferred", "interval_s", "interval_from", "window", "run_id")


def records_of(batch: Batch) -> list[pl.DataFrame]:
    """What no wrapper may change."""
    told = ["line_no", "kind", "severity", "title", "detail", "count"]
    return [
        batch.samples.drop(PLACES),
        batch.events.sort("byte_offset").select(told),
        batch.access_counts.group_by("path", "status").agg(pl.sum("n")).sort("path"),
        batch.run_facts.unique("run_id", keep="last", maintain_order=True).select(
            "engine", "model", "end_state"
        ),
    ]


def assert_same(one: Batch, other: Batch) -> None:
    for a, b in zip(records_of(one), records_of(other), strict=True):
        assert a.equals(b), (a, b)


@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda wrap: wrap.__name__)
@pytest.mark.parametrize("plain", [SGLANG, VLLM], ids=["sglang", "vllm"])
def test_one_wrapper(wrap: Wrapper, plain: list[str]) -> None:
    assert_same(read(text(plain), source=PRINTED), read(text(wrap(plain)), source=PRINTED))


@settings(max_examples=20)
@given(st.lists(st.sampled_from(WRAPPERS), min_size=2, max_size=4), st.sampled_from([SGLANG, VLLM]))
def test_nested_wrappers(layers: list[Wrapper], plain: list[str]) -> None:
    wrapped = plain
    for wrap in layers:
        wrapped = wrap(wrapped)
    assert_same(read(text(plain), source=PRINTED), read(text(wrapped), source=PRINTED))


@settings(max_examples=20)
@given(st.sampled_from(WRAPPERS), st.sampled_from(WRAPPERS), st.data())
def test_any_growth_of_a_wrapped_file(inner: Wrapper, outer: Wrapper, data: st.DataObject) -> None:
    whole = text(outer(inner(SGLANG)))
    sizes = data.draw(st.lists(st.integers(0, len(whole)), max_size=5).map(sorted))
    grown, once = follow(whole, sizes, PRINTED), follow(whole, [], PRINTED)
    assert_same(grown, once)
    assert grown.samples["byte_offset"].equals(once.samples["byte_offset"])
    assert grown.samples["ts"].equals(once.samples["ts"])


@pytest.mark.parametrize("wrap", [docker_json, cri], ids=["docker", "cri"])
@settings(max_examples=20)
@given(size=st.integers(20, 90), sizes=st.lists(st.integers(0, 12_000), max_size=6).map(sorted))
def test_messages_in_pieces_are_put_together(wrap: object, size: int, sizes: list[int]) -> None:
    cut = wrap(SGLANG, size)  # type: ignore[operator]
    assert len(cut) > len(SGLANG)
    told = [frame.drop("line_no", strict=False) for frame in records_of(follow(text(cut), sizes))]
    plain = [frame.drop("line_no", strict=False) for frame in records_of(read(text(SGLANG)))]
    for one, other in zip(told, plain, strict=True):
        assert one.equals(other)


def test_pieces_of_two_streams_are_kept_apart() -> None:
    one, other = decode("10:00:01", 7), decode("10:00:02", 9)
    stamp = "2026-05-04T10:00:03.5+00:00"
    mixed = [
        f"{stamp} stdout P {one[:50]}",
        f"{stamp} stderr P {other[:70]}",
        f"{stamp} stdout F {one[50:]}",
        f"{stamp} stderr F {other[70:]}",
    ]
    assert read(text(mixed)).samples["running_reqs"].to_list() == [7, 9]
    assert follow(text(mixed), [len(text(mixed[:3]))]).samples.height == 2


def test_a_piece_whose_rest_never_comes_gives_what_is_whole_in_it() -> None:
    line = decode("10:00:01", 7)
    piece = f"2026-05-04T10:00:03.5Z stdout P {line[: line.index(', token usage')]}, tok"
    row = follow(text([piece]), []).samples
    assert row["running_reqs"].to_list() in ([], [7])
    assert row["kv_usage"].drop_nulls().to_list() == []


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""], ids=["marked", "unmarked"])
@settings(max_examples=20)
@given(sizes=st.lists(st.integers(0, 4000), max_size=4).map(sorted))
@example(sizes=[209])  # between the two bytes of a newline
def test_utf_16(encoding: str, mark: str, sizes: list[int]) -> None:
    whole = "".join(line + "\r\n" for line in SGLANG[:-4] + VLLM)
    data = (mark + whole).encode(encoding)
    found = follow(data, sizes, PRINTED)
    assert_same(found, read(whole.encode(), source=PRINTED))
    for offset, number in found.samples.select("byte_offset", "line_no").rows():
        line = data[offset:].decode(encoding).split("\r\n")[0]
        assert line == whole.split("\r\n")[number - 1]


def test_two_records_in_a_line_of_utf_16() -> None:
    data = ("\ufeff" + decode("10:00:01", 4) + decode("10:00:02", 5) + "\n").encode("utf-16-le")
    for offset, running in read(data).samples.select("byte_offset", "running_reqs").rows():
        assert f"#running-req: {running}," in data[offset:].decode("utf-16-le")[:60]


def test_a_byte_order_mark_hides_no_first_line() -> None:
    trace = ["Traceback (most recent call last):", '  File "/x/vllm/a.py", line 1', "OSError: no"]
    data = b"\xef\xbb\xbf" + text(docker([*VLLM, *trace]))
    assert_same(read(data, source=PRINTED), read(text([*VLLM, *trace]), source=PRINTED))


def test_offsets_lead_to_the_text_inside() -> None:
    for wrap in WRAPPERS:
        data = text(wrap(["", "é", decode("10:00:01")]))
        (offset,) = read(data).samples["byte_offset"]
        assert data[offset : offset + 6] == b"[2026-" or wrap.__name__ == "ray", wrap


BAR = "  2% 1/64 [00:04<04:51,  4.62s/it]"


@pytest.mark.parametrize("wrap", [docker, docker_json, compose, srun], ids=lambda w: w.__name__)
def test_bars_before_and_after_a_record(wrap: Wrapper) -> None:
    ready = "[2026-05-04 10:00:03] The server is fired up and ready to roll!"
    glued = [
        f"{BAR}\r{BAR}{decode('10:00:01', 4)}",
        f"{decode('10:00:02', 5)}\r{BAR}",
        f"{ready}\r{BAR}\r{BAR}",
        f"{BAR}\r{decode('10:00:04', 6)}\r{decode('10:00:05', 7)}",
    ]
    found = read(text(wrap([*sglang_boot("10:00:00")[:1], *glued])))
    assert found.samples["running_reqs"].to_list() == [4, 5, 6, 7]
    assert found.samples["byte_offset"].is_unique().all()
    assert found.events.filter(kind="ready")["line_no"].to_list() == [4]


@pytest.mark.parametrize("wrap", [docker, docker_json, cri, journal_json, collector])
def test_a_torn_record_of_a_wrapper_gives_no_wrong_number(wrap: Wrapper) -> None:
    line = decode("10:00:01", 12, 1374.52, accept=2.57)
    (whole,) = wrap([line])
    full = read(text([line])).samples.row(0, named=True)
    names = ("running_reqs", "kv_tokens", "kv_usage", "accept_len", "gen_tok_s", "queued_reqs")
    rest = wrap([decode("10:00:02", 3)])[0]
    torn = [whole[:cut] + end for cut in range(len(whole)) for end in ("", rest)]
    for row in read(text(torn)).samples.iter_rows(named=True):
        if row["running_reqs"] != 3:
            assert {n: row[n] for n in names if row[n] not in (None, full[n])} == {}


def test_two_processes_mixed_inside_a_line_make_no_sample_of_both() -> None:
    one, other = decode("10:00:01", 12, 1374.52), decode("10:00:01", 31, 871.25, queue=6)
    seen = {(12, 1374.52, 0), (31, 871.25, 6)}
    for cut in range(0, len(one), 7):
        for wrap in (docker, compose, cri):
            mixed = wrap([one[:cut] + other, one[cut:]])
            for row in read(text(mixed)).samples.iter_rows(named=True):
                told = (row["running_reqs"], row["gen_tok_s"], row["queued_reqs"])
                fits = [all(a in (None, b) for a, b in zip(told, s, strict=True)) for s in seen]
                assert any(fits), (cut, told)


def test_json_records_of_vllm() -> None:
    def record(message: str, **more: str) -> str:
        fields = {"asctime": "2026-11-01 10:00:00,614", "levelname": "INFO", "name": "vllm.x"}
        process = {"processName": "MainProcess", "process": 812}
        rest = {**more, "vllm_process_name": "APIServer"}
        return json.dumps({**fields, **process, "message": message, **rest})

    line = stats("x", 55.5, 4).partition("] ")[2]
    lines = [
        record("vLLM server version 0.32.0, serving model org/m"),
        record(line),
        record('127.0.0.1:3456 - "POST /v1/completions HTTP/1.1" 200'),
        record(
            "EngineCore encountered a fatal error.",
            exc_info='Traceback (most recent call last):\n  File "/a/core.py", line 9, in run\n'
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        ),
    ]
    found = read(text(lines))
    row = found.samples.row(0, named=True)
    assert (row["running_reqs"], row["gen_tok_s"]) == (4, 55.5)
    assert row["ts"] == datetime(2026, 11, 1, 10, 0, 0, 614_000)
    assert found.access_counts.select("path", "status", "n").rows() == [("/v1/completions", 200, 1)]
    faults = found.events.filter(severity="fault")
    assert faults["incident_id"].n_unique() == 1
    assert "Tried to allocate" in "".join(faults["detail"].drop_nulls())


@pytest.mark.parametrize(
    "line",
    [
        decode("10:00:01"),
        stats("05-04 10:00:05", 51.5, 2),
        "Loading safetensors checkpoint shards:  45% Completed | 5/11 [00:04<00:05,  1.10it/s]",
        "Capturing CUDA graph shapes: 100%|███| 35/35 [00:13<00:00,  2.51it/s]",
        '{"backend": "engine", "duration": 3.5}',
        "2026-07-25 13:42:38,525 - INFO - autotuner.py:2216 - flashinfer.jit: done",
        '  File "/opt/a.py", line 1, in f',
        "RuntimeError: no",
        "WARNING:  something",
        "W0223 00:00:12.633401 4311 file.cpp:9] x",
        "",
    ],
)
def test_what_is_no_wrapper_stays(line: str) -> None:
    block = line_split.split(text([line]), 0)
    assert wrappers.unwrap(block)["line"].to_list() == [line]


@settings(max_examples=20)
@given(st.lists(st.one_of(st.binary(max_size=80), st.sampled_from(SGLANG).map(str.encode))))
def test_no_bytes_in_any_wrapper_raise(pieces: list[bytes]) -> None:
    torn = b"\n".join(pieces).decode("utf-8", "replace").split("\n")
    for wrap in (docker, docker_json, cri, journal_json, compose):
        read(text(wrap(torn)))
        read(text(line[:-5] for line in wrap(torn)))
