"""Lines read by their form from the bytes are the same as lines read by their pattern."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ingest.pipeline import Pipeline, SourceInfo
from parsers import forms, lines

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
    frames, taken = pipeline._reader.take(data, lines.split(data, 0))
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
