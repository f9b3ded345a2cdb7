"""Lines read by their form from the bytes are the same as lines read by their pattern."""

from __future__ import annotations

from datetime import datetime
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ingest.pipeline import Pipeline, SourceInfo
from parsers import forms, lines
from parsers.access_forms import AccessForms

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
        patch.setattr(forms, "ROWS", 16)
        by_form = samples(text)
    assert_frame_equal(by_form, by_pattern)


def test_most_lines_of_a_usual_log_are_read_by_their_form() -> None:
    line = SGLANG.format(day=1, hour=2, rank=0, n=3, tokens=400, flag=True, rate="5.25", queue=0)
    pipeline = Pipeline(SourceInfo("s"), "f")
    data = (line + "\n").encode() * 600
    frames, taken = pipeline._readers.samples.take(data, lines.split(data, 0))
    assert taken.sum() > 590  # those at the very end have too few bytes behind them
    assert frames[0]["gen_tok_s"].unique().to_list() == [5.25]


@pytest.mark.parametrize("decimals", [0, 1, 2, 3])
def test_numbers_of_every_width_are_those_that_python_reads(decimals: int) -> None:
    rng = np.random.default_rng(7)
    whole = [int(rng.integers(0, 10**width)) for width in range(1, 9) for _ in range(200)]
    texts = [f"{n}.{n % 10**decimals:0{decimals}d}" if decimals else str(n) for n in whole]
    data = "".join(f"{text}, #" for text in texts).encode() + b" " * 16
    at = np.cumsum([0, *(len(text) + 3 for text in texts[:-1])])
    values, widths, good = forms._number(forms.words_of(data)[at], decimals)
    fits = [len(text) <= (8 if decimals else 7) for text in texts]
    assert good.tolist() == fits
    assert values[good].tolist() == [float(t) for t, fit in zip(texts, fits, strict=True) if fit]
    assert widths[good].tolist() == [len(t) for t, fit in zip(texts, fits, strict=True) if fit]


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


def test_most_access_lines_are_read_by_their_form() -> None:
    line = 'INFO:     10.0.0.7:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    readers = AccessForms()
    data = (line + "\n").encode() * 600
    starts = np.arange(600) * (len(line) + 1)
    assert not readers.take(data, starts, np.ones(600, np.bool_))
    readers.learn(line)
    (found,) = readers.take(data, starts, np.ones(600, np.bool_))
    assert len(found.rows) > 590  # those at the very end have too few bytes behind them
    assert found.tail.unique().to_list() == [line.partition('"')[2]]
