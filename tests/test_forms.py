"""Lines read by their form from the bytes are the same as lines read by their pattern."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ingest.pipeline import Pipeline, SourceInfo
from parsers import forms, kernels, lines, sglang
from parsers.access_forms import AccessForms
from parsers.forms import Form, _Value
from parsers.kernels import Block
from parsers.samples import Reader

SGLANG = (
    "[2026-03-0{day} 1{hour}:00:07 DP{rank} TP0] Decode batch, #running-req: {n}, "
    "#token: {tokens}, token usage: 0.4{day}, accept len: 1.{day}5, cuda graph: {flag}, "
    "gen throughput (token/s): {rate}, #queue-req: {queue}"
)
VLLM = (
    "INFO 03-0{day} 1{hour}:00:07 [loggers.py:112] Engine 00{rank}: Avg prompt throughput: "
    "{rate} tokens/s, Avg generation throughput: 4{day}.5 tokens/s, Running: {n} reqs, "
    "Waiting: {queue} reqs, GPU KV cache usage: 1{day}.2%, Prefix cache hit rate: 0.0%"
)
LINE = st.fixed_dictionaries(
    {
        "day": st.integers(0, 9),  # the 0th is no day
        "hour": st.integers(0, 9),
        "rank": st.integers(0, 12),
        "n": st.sampled_from([0, 1, 48, 2048, 1234567, 12345678, "-1", "", "7x"]),
        "tokens": st.integers(0, 10**9),
        "flag": st.sampled_from(["True", "False", "Maybe", "Tru"]),
        "rate": st.sampled_from(["0.00", "9.99", "12345.67", "123456.78", "nan", "1.5", "7"]),
        "queue": st.integers(0, 300),
    }
)
ENDINGS = ("\n", "\n", "\n", "\n", "\r\n", ", \n", " and more\n", "")


def samples(text: str) -> pl.DataFrame:
    data = text.encode()
    pipeline = Pipeline(SourceInfo("s", clock_hint=datetime(2026, 4, 1)), "f")
    read = pipeline.feed(data)
    return read.samples


@pytest.mark.parametrize("form", [SGLANG, VLLM], ids=["sglang", "vllm"])
@given(data=st.data())
def test_both_ways_give_the_same_samples(form: str, data: st.DataObject) -> None:
    usual = [
        form.format(
            day=1 + i % 9, hour=i % 9, rank=i % 2, n=i, tokens=50 * i, flag=i % 3 == 0,
            rate=f"{i * 7.3:.{2 if form is SGLANG else 1}f}", queue=i % 5,
        )
        + "\n"
        for i in range(40)
    ]  # fmt: skip
    odd = data.draw(st.lists(st.tuples(LINE, st.sampled_from(ENDINGS)), max_size=12))
    texts = usual + [form.format(**line) + ending for line, ending in odd]
    text = "".join(data.draw(st.permutations(texts))) + usual[0] * 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "FEWEST", 10**9)
        by_pattern = samples(text)
        patch.setattr(forms, "FEWEST", 1)
        by_form = samples(text)
    assert_frame_equal(by_form, by_pattern)


def block_of(texts: Sequence[str]) -> Block:
    return Block.split("".join(f"{text}\n" for text in texts).encode())


def taken(form: Form, *texts: str) -> tuple[list[int], dict[str, Any]]:
    rows, values = form.take(block_of(texts), np.arange(len(texts)))
    return rows.tolist(), {name: column.tolist() for name, column in values.items()}


def test_the_compiled_loops_are_built() -> None:
    assert kernels.BUILT


def test_all_lines_of_a_usual_log_are_read_by_their_form() -> None:
    line = SGLANG.format(day=1, hour=2, rank=0, n=3, tokens=400, flag=True, rate="5.25", queue=0)
    block = block_of([line] * 600)
    reader = Pipeline(SourceInfo("s"), "f")._readers.samples
    frames, sampled = reader.take(block, lines.split(block.data, 0).head(forms.FEWEST))
    assert sampled.all()
    assert frames[0]["gen_tok_s"].unique().to_list() == [5.25]


@pytest.mark.parametrize("decimals", [0, 1, 2, 3, 6])
def test_numbers_of_every_width_are_those_that_python_reads(decimals: int) -> None:
    rng = np.random.default_rng(7)
    whole = [int(rng.integers(0, 10**width)) for width in range(1, 18) for _ in range(50)]
    texts = [f"{n}.{n % 10**decimals:0{decimals}d}" if decimals else str(n) for n in whole]
    form = Form(b"n: ", {}, (_Value("n", b"", decimals),), b", #")
    rows, values = taken(form, *(f"n: {text}, #" for text in texts))
    fits = [len(text.replace(".", "")) <= 15 for text in texts]
    assert rows == np.flatnonzero(fits).tolist()
    assert values["n"] == [float(t) for t, fit in zip(texts, fits, strict=True) if fit]


@pytest.mark.parametrize("text", ["", ".5", "5", "05.2", "5.2", "5.231", "-5.23", "5.2x", "5,23"])
def test_what_is_no_number_with_two_decimals_is_left_to_the_pattern(text: str) -> None:
    form = Form(b"n: ", {}, (_Value("n", b"", 2),), b"")
    assert taken(form, f"n: {text}")[0] == []


def test_no_line_reads_into_the_next_one() -> None:
    form = Form(b"n: ", {}, (_Value("n", b"", 0), _Value("flag", b", ", None)), b"")
    rows, values = taken(form, "n: 1, True", "n: 2, Tr", "ue", "n: 3", ", False", "n: ")
    assert rows == [0]
    assert values["flag"] == [True]


def test_lines_that_are_not_asked_for_are_not_read() -> None:
    form = Form(b"n: ", {}, (_Value("n", b"", 0),), b"")
    rows, values = form.take(block_of(["n: 1", "n: 2", "x", "n: 4"]), np.array([1, 2, 3]))
    assert rows.tolist() == [1, 3]
    assert values["n"].tolist() == [2, 4]


def test_stamps_of_every_day_are_those_of_the_calendar() -> None:
    first = datetime(1999, 12, 30)
    days = [first + timedelta(days=i, seconds=86_399 * (i % 2)) for i in range(40_000)]
    block = block_of([f"{day:%Y-%m-%d %H:%M:%S}" for day in days])
    found, none = kernels.stamps(block, block.starts)
    assert none == 0
    assert pl.Series(found).cast(pl.Datetime("us")).to_list() == days


@pytest.mark.parametrize(
    "stamp", ["2026-02-29 00:00:00", "2026-13-01 00:00:00", "2026-00-10 00:00:00",
              "2026-04-31 00:00:00", "2100-02-29 00:00:00", "2026-01-00 00:00:00",
              "2026-01-01 24:00:00", "2026-01-01 00:60:00", "2026-01-01 00:00:60"],
)  # fmt: skip
def test_a_stamp_that_is_no_time_is_none(stamp: str) -> None:
    block = block_of([stamp, "2024-02-29 23:59:59"])
    found, none = kernels.stamps(block, block.starts)
    assert none == 1
    assert found[0] == kernels.NO_TIME
    assert found[1] == 1_709_251_199_000_000


@given(st.lists(st.sampled_from(["a", "ab", "abc", "abd", "", "ä"]), max_size=30))
def test_texts_that_begin_alike_get_one_number(found: list[str]) -> None:
    block = block_of(found)
    for same in (2, 9):
        code, firsts = kernels.distinct(block, block.starts, block.ends, same)
        keys = [text.encode()[:same] for text in found]
        assert [keys[firsts[i]] for i in code] == keys
        assert [keys[i] for i in firsts] == list(dict.fromkeys(keys))


def test_numbers_of_many_texts_still_name_what_they_say() -> None:
    texts = [str(i % 9_000) for i in range(30_000)]
    block = block_of(texts)
    code, firsts = kernels.distinct(block, block.starts, block.ends, 99)
    assert [texts[firsts[i]] for i in code] == texts
    numbers = np.array([int(text) << 40 for text in texts])
    code, firsts = kernels.alike(numbers)
    assert (numbers[firsts][code] == numbers).all()


@given(st.lists(st.sampled_from(["", "a", "bc\r", "ä" * 9]), max_size=20), st.booleans())
def test_a_block_has_the_lines_that_its_newlines_end(texts: list[str], ended: bool) -> None:
    data = "\n".join(texts).encode() + b"\n" * ended
    block = Block.split(data, 7)
    frame = lines.split(data, 7)
    assert_frame_equal(lines.of_block(block, np.arange(block.lines)), frame)
    some = np.flatnonzero(np.arange(block.lines) % 3)
    assert_frame_equal(lines.of_block(block, some), frame[some])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "BUILT", False)
        assert_frame_equal(lines.split(data, 7), frame)


ACCESS = st.builds(
    '{stamp}INFO:     {client} - "{method} {path} HTTP/1.1" {status}{end}'.format,
    stamp=st.sampled_from(
        ["[2026-03-01 11:00:07] ", "[2026-03-01 11:01:00] ", "(APIServer pid=41) ", ""]
    ),
    client=st.sampled_from(
        ["127.0.0.1:80", "10.20.130.240:54321", "[::1]:4000", "localhost:1", "1.2.3.4:5 - x"]
    ),
    method=st.sampled_from(["GET", "POST", "get"]),
    path=st.sampled_from(
        ["/v1/chat/completions", "/health", "/v1/models?limit=2", "/get/12345", "/ä", "", "/a b"]
    ),
    status=st.sampled_from([200, 404, 500, "2000", ""]),
    end=st.sampled_from([" OK", "", " Not Found", " OK [2026-03-01 11:01:00] x", "\r"]),
)


@given(odd=st.lists(ACCESS, max_size=20), seed=st.randoms())
def test_access_lines_are_counted_the_same_both_ways(odd: list[str], seed: Random) -> None:
    usual = [
        f"[2026-03-01 11:0{i % 3}:07] INFO:     127.0.0.1:4{i:03} - "
        f'"POST /v1/completions HTTP/1.1" {200 if i % 5 else 503} OK'
        for i in range(30)
    ]
    text = [*usual, *odd]
    seed.shuffle(text)
    data = "".join(f"{line}\n" for line in [usual[0], *text, *usual[:6]]).encode()
    counts = []
    with pytest.MonkeyPatch.context() as patch:
        for fewest in (10**9, 1):
            patch.setattr(forms, "FEWEST", fewest)
            pipeline = Pipeline(SourceInfo("s", clock_hint=datetime(2026, 4, 1)), "f")
            first, again = pipeline.feed(data), pipeline.feed(data)
            counts.append([first.access_counts, again.access_counts, again.events])
    for by_pattern, by_form in zip(*counts, strict=True):
        assert_frame_equal(by_form, by_pattern)


def test_the_first_block_is_read_by_the_forms_of_both_kinds() -> None:
    """Also by that of which its head has few lines."""
    prefill = (
        "[2026-03-01 10:00:07 TP0] Prefill batch, #new-seq: 1, #new-token: 80, #cached-token: 0, "
        "token usage: 0.41, #running-req: 3, #queue-req: 0, "
    )
    decode = SGLANG.format(day=1, hour=0, rank=0, n=3, tokens=50, flag=True, rate="9.99", queue=0)
    block = block_of(([decode] * 9 + [prefill]) * 60)
    head = lines.of_block(block, np.arange(500))
    frames, taken = Reader(sglang.KINDS, sglang.GATES).take(block, head)
    assert taken.all()
    assert sorted(frame.height for frame in frames) == [60, 540]


def test_all_access_lines_are_read_by_their_form() -> None:
    line = 'INFO:     10.0.0.7:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    readers, block = AccessForms(), block_of([line] * 600)
    free = np.ones(600, np.bool_)
    assert not readers.take(block, pl.DataFrame({"line": ["no request"]}), free)
    (found,) = readers.take(block, pl.DataFrame({"line": ["no request", line]}), free)
    assert len(found.rows) == 600
    assert found.texts["tail"].to_list() == [line.partition('"')[2]]
    assert not found.said.any()
