"""Throughput out of the lines: tokens over seconds, and words where it cannot be measured."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import speculation
from data import windows as w
from data.run_data import RunData
from data.windows import Floats
from parsers import records
from tests import logs, simulator
from tests.frames import decode
from tests.simulator import Load, Server

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"


def rows(*samples: dict[str, Any]) -> pl.DataFrame:
    """The windows of hand-made samples."""
    return w.windows(w.counted(records.frame(samples, records.SAMPLES)))


@pytest.mark.parametrize("accept", [(), (0.6, 0.3, 0.1)], ids=["plain", "speculative"])
@pytest.mark.parametrize("seed", range(3))
def test_steady_numbers_are_those_of_the_simulated_start(
    accept: tuple[float, ...], seed: int
) -> None:
    server = Server(accept=accept, step_cost=1.5 if accept else 1.0)
    served = simulator.serve(server, [Load(1, 6, output=900), Load(8, 40), Load(24, 72)], seed)
    (run,) = simulator.from_text(served.lines)
    at_one = w.decode_tok_s_at_1(run.windows)
    assert at_one.value == pytest.approx(server.tok_s(1) / served.effect, rel=0.02)
    for running in (8, 24):
        held = run.steady.filter(pl.col("running_reqs") == running)
        assert held.height > 8
        assert w.rate(held) == pytest.approx(server.tok_s(running) / served.effect, rel=0.02)
    if accept:
        assert w.accept_len(run.steady) == pytest.approx(server.accept_len, rel=0.02)


@pytest.mark.parametrize("accept", [(), (0.6, 0.3, 0.1)], ids=["plain", "speculative"])
def test_steady_numbers_of_vllm_are_those_of_the_simulated_start(accept: tuple[float, ...]) -> None:
    server = Server("vllm", accept=accept, step_cost=1.5 if accept else 1.0)
    loads = [Load(1, 2, output=9000, idle_s=33), Load(8, 16, output=9000, idle_s=47)]
    served = simulator.serve(server, loads, 2)
    (run,) = simulator.from_text(served.lines)
    for running in (1, 8):
        held = run.steady.filter(pl.col("running_reqs") == running)
        assert held.height > 8
        assert w.rate(held) == pytest.approx(server.tok_s(running) / served.effect, rel=0.02)
    assert w.decode_tok_s_at_1(run.windows).value is not None
    if accept:
        assert w.accept_len(run.steady) == pytest.approx(server.accept_len, rel=0.02)
        assert speculation.position_yields(run.steady) == pytest.approx((1.6, 1.9, 2.0), abs=0.02)


def test_a_single_stream_includes_its_prefills() -> None:
    server = Server(prefill_ms_per_token=1.0, cached=0.0)
    served = simulator.serve(server, [Load(1, 20, prompt=300, output=400)], 5)
    (run,) = simulator.from_text(served.lines)
    per_request = served.effect * (0.3 + 399 * server.step_s(1))
    stream = w.single_stream_tok_s(run.windows)
    assert stream.value == pytest.approx(400 / per_request, rel=0.02)
    at_one = w.decode_tok_s_at_1(run.windows)
    assert at_one.value is not None
    assert stream.value is not None
    assert stream.value < 0.98 * at_one.value


def test_a_rate_is_tokens_over_seconds_not_a_mean_of_rates() -> None:
    found = rows(decode(0), decode(9, gen_tok_s=10.0, interval_s=9.0), decode(10, gen_tok_s=1000.0))
    assert w.rate(w.steady(found).tail(2)) == pytest.approx(109.0)


def test_one_running_request_means_one_over_all_ranks() -> None:
    def rank(seconds: float, number: int, running: int) -> dict[str, Any]:
        offset = int(seconds * 1000) + number
        return decode(seconds, dp_rank=number, running_reqs=running, byte_offset=offset)

    both = [rank(t, number, 1) for t in (1, 2, 3) for number in (0, 1)]
    assert w.decode_tok_s_at_1(rows(*both)).value is None
    later = [rank(t, 0, 1) for t in (1, 2, 3)] + [rank(t, 1, 1) for t in (6, 7)]
    assert w.decode_tok_s_at_1(rows(*later)).windows == 5


def test_what_prints_the_same_batch_counts_once() -> None:
    ranks = [
        decode(t, tp_rank=tp, pp_rank=pp, byte_offset=t * 10 + tp + 2 * pp)
        for t in (1, 2)
        for tp in (0, 1)
        for pp in (0, 1)
    ]
    assert rows(*ranks).height == 2
    assert rows(*(decode(t, dp_rank=dp) for t in (1, 2) for dp in (0, 1))).height == 4


@pytest.mark.parametrize("number", ["decode_tok_s_at_1", "single_stream_tok_s", "peak_log_tok_s"])
def test_what_no_window_shows_is_said_in_words(number: str) -> None:
    found = getattr(w, number)(rows(decode(1, window="startup"), decode(2, window="startup")))
    assert found.value is None
    assert found.why.startswith("not measurable from this log")


def test_vllm_requests_shorter_than_its_interval_are_not_measurable() -> None:
    lines = [logs.stats(f"05-04 09:00:{10 * i:02}", 80.0, i % 2, prompt=12.0) for i in range(1, 6)]
    (run,) = simulator.from_text(lines)
    assert w.decode_tok_s_at_1(run.windows).value is None
    assert w.single_stream_tok_s(run.windows).value is None
    assert w.peak_log_tok_s(run.windows).value == pytest.approx(80.0)


def test_the_peak_is_the_most_in_any_ten_seconds_over_ranks() -> None:
    slow = [decode(t, gen_tok_s=50.0, dp_rank=0) for t in range(1, 41)]
    fast = [decode(t, gen_tok_s=300.0, dp_rank=1, byte_offset=t * 1000 + 1) for t in range(15, 20)]
    # 5 s of 350 tok/s; the other 5 s of the ten have rank 0 only
    assert w.peak_log_tok_s(rows(*slow, *fast)).value == pytest.approx(200.0)


def test_a_longer_window_counts_as_it_is() -> None:
    found = rows(*(decode(t, interval_s=30.0, gen_tok_s=g) for t, g in ((30, 90.0), (60, 70.0))))
    assert w.peak_log_tok_s(found).value == pytest.approx(90.0)


def test_whole_second_stamps_do_not_raise_the_peak() -> None:
    # 0.4 s windows at 100 tok/s, stamped with whole seconds: never more than 1000 in 10 s
    samples = [decode(math.floor(0.4 * i), interval_s=0.4, byte_offset=i) for i in range(1, 200)]
    assert w.peak_log_tok_s(rows(*samples)).value == pytest.approx(100.0, rel=0.005)


def test_a_window_after_idleness_is_left_out_of_the_peak() -> None:
    found = rows(decode(1), decode(2), decode(60, gen_tok_s=900.0, window="after_idle"))
    assert (w.peak_log_tok_s(found).value or 0) <= 20.0


def test_windows_without_a_stamp_have_a_rate_and_no_peak() -> None:
    found = rows(*(decode(t, ts=None, byte_offset=t) for t in (1, 2, 3)))
    assert w.rate(w.steady(found)) == pytest.approx(100.0)
    assert w.peak_log_tok_s(found).value is None


def test_acceptance_is_weighted_by_steps() -> None:
    found = rows(
        decode(1, accept_len=2.0, request_steps=30.0), decode(2, accept_len=1.0, request_steps=10.0)
    )
    assert w.accept_len(found) == pytest.approx(1.75)


def test_a_spec_line_belongs_to_the_stats_line_above() -> None:
    def stats(seconds: float, running: int) -> dict[str, Any]:
        return decode(seconds, engine="vllm", kind="stats", engine_index=0, running_reqs=running)

    def spec(seconds: float, length: float) -> dict[str, Any]:
        return decode(
            seconds, engine="vllm", kind="spec", engine_index=0, running_reqs=None, gen_tok_s=None,
            accept_len=length, request_steps=10.0, byte_offset=int(seconds * 1000) + 5,
        )  # fmt: skip

    found = rows(stats(10, 4), spec(10, 2.5), stats(20, 4), stats(30, 4), spec(30, 1.5))
    assert found["accept_len"].to_list() == [2.5, None, 1.5]
    assert found["running_reqs"].to_list() == [4, 4, 4]


@pytest.fixture(scope="module")
def run() -> RunData:
    """A log of two ranks."""
    served = simulator.serve(Server(ranks=2), [Load(8, 40)], 1)
    return simulator.from_text(served.lines)[0]


def test_ranks_are_those_of_the_arguments(run: RunData) -> None:
    assert run.ranks == 2
    assert w.ranks_seen(run.counted) == 2


@pytest.mark.parametrize("name", ["sglang-0.5.23-base", "sglang-0.5.23-ngram"])
def test_real_single_streams_agree_with_their_client(name: str) -> None:
    folder = SAMPLES / name
    (run,) = simulator.from_text((folder / "server.log").read_text().splitlines())
    client = json.loads((folder / "bench" / "c1.jsonl").read_text())
    stream = w.single_stream_tok_s(run.windows)
    assert stream.value == pytest.approx(client["output_throughput"], rel=0.02)


def _one_by_one(stamp: Floats, length: Floats, latest: Floats) -> list[float]:
    before, found = -np.inf, []
    for at, long, last in zip(stamp, length, latest, strict=True):
        before = min(max(before + long, at), last)
        found.append(float(before))
    return found


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.2, 0.9, 1.0, 1.1, 7.3]))),
    st.sampled_from([0, 1, 3, w._GUESSES]),
    st.booleans(),
)
def test_ends_guessed_at_once_are_those_found_one_by_one(
    steps: list[tuple[int, float]], guesses: int, whole: bool
) -> None:
    stamp = np.cumsum([0.1 * step for step, _ in steps], dtype=np.float64)
    stamp = np.floor(stamp) if whole else stamp
    length = np.array([long for _, long in steps])
    latest = np.where(stamp % 1 == 0, stamp + 0.999999, stamp)
    assert w._ends(stamp, length, latest, guesses).tolist() == _one_by_one(stamp, length, latest)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 40), st.integers(1, 5), st.integers(0, 2)),
        min_size=1, max_size=60,
    )
)  # fmt: skip
def test_a_window_is_alone_where_no_window_of_another_rank_overlaps(
    drawn: list[tuple[int, int, int, int]],
) -> None:
    found = rows(*(
        decode(second, dp_rank=rank, interval_s=float(long), running_reqs=running)
        for rank, second, long, running in drawn
    ))  # fmt: skip
    spans = [
        (row["lane"], row["ts"] - timedelta(seconds=row["interval_s"]), row["ts"], row)
        for row in found.iter_rows(named=True)
    ]
    lonely = [
        row for lane, start, end, row in spans
        if not any(
            lane != other and row_of["running_reqs"] > 0 and begun < end and ended > start
            for other, begun, ended, row_of in spans
        )
    ]  # fmt: skip
    key = ["lane", "ts", "interval_s", "running_reqs"]
    kept = w._alone(found, found).select(key).sort(key)
    assert kept.rows() == sorted(tuple(row[name] for name in key) for row in lonely)
