"""Down-sampled curves: tokens over seconds, summed over ranks, gaps stay gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from data import queries, run_curves
from data.store import Store
from parsers import records
from tests.frames import Frames, at, decode, facts, samples
from tests.postgres import OpenStore


@pytest.fixture
def store(open_store: OpenStore) -> Iterator[Store]:
    with open_store() as opened:
        yield opened


def curve(store: Store, start: float, end: float, points: int = 300) -> pl.DataFrame:
    with store.cursor() as con:
        return run_curves.series(con, "r1", at(start), at(end), points)


def tiles_of(con: duckdb.DuckDBPyConnection, run_id: str) -> run_curves.LiveTiles | None:
    card = queries.run_card(con, run_id)
    assert card is not None
    return run_curves.live_tiles(run_curves.latest_samples(con, card), card)


def test_tokens_are_spread_over_the_window_and_none_is_lost(store: Store) -> None:
    rows = [decode(t, gen_tok_s=10.0 * t, interval_s=2.5) for t in (2.5, 5.0, 7.5, 10.0)]
    store.append(samples(rows), None)
    got = curve(store, 0, 10, points=5)
    assert got["ts"].to_list() == [at(t) for t in (0, 2, 4, 6, 8)]
    assert got["gen_tok_s"].to_list() == pytest.approx(
        [25, (12.5 + 1.5 * 50) / 2, (50 + 75) / 2, (1.5 * 75 + 50) / 2, 100]
    )
    assert got["gen_tok_s"].sum() * 2 == pytest.approx(2.5 * (25 + 50 + 75 + 100))


def test_gap_stays_a_gap(store: Store) -> None:
    store.append(samples([decode(t) for t in (1, 2, 3, 20, 21)]), None)
    got = curve(store, 0, 21)
    rates = got.drop_nulls("gen_tok_s")
    assert rates["ts"].to_list() == [at(t) for t in (0, 1, 2, 19, 20)]
    assert rates["bucket"].to_list() == [0, 1, 2, 19, 20]
    # A gauge stands for three windows, at least three seconds.
    gauges = got.drop_nulls("running_reqs")
    assert gauges["bucket"].to_list() == [0, 1, 2, 3, 4, 5, 19, 20]


@pytest.mark.parametrize("window", ["after_idle", "startup"])
def test_window_after_waiting_adds_no_throughput_but_keeps_the_queue(
    store: Store, window: str
) -> None:
    idle = decode(60, interval_s=58.0, window=window, queued_reqs=3, gen_tok_s=1.0)
    store.append(samples([decode(1), decode(2), idle, decode(61)]), None)
    got = curve(store, 0, 61)
    assert got["ts"].to_list() == [at(t) for t in (0, 1, 2, 3, 4, 59, 60)]
    assert got["gen_tok_s"].to_list() == [100, 100, None, None, None, None, 100]
    assert got["queued_reqs"].to_list() == [0, 0, 0, 0, 0, 3, 0]


def test_data_parallel_ranks_add_up_and_twins_do_not(store: Store) -> None:
    rows = [
        decode(10, interval_s=10.0, dp_rank=dp, tp_rank=2 * dp + tp, pp_rank=pp,
               running_reqs=3 + dp, queued_reqs=dp, kv_usage=0.1 + 0.5 * dp)
        for dp in (0, 1) for tp in (0, 1) for pp in (0, 1)
    ]  # fmt: skip
    store.append(samples(rows), None)
    got = curve(store, 0, 10, points=2).to_dicts()
    assert [row["gen_tok_s"] for row in got] == pytest.approx([200, 200])
    last = got[-1]
    assert (last["running_reqs"], last["queued_reqs"], last["kv_usage"]) == (7, 1, 0.6)
    assert (last["gen_tok_s_min"], last["gen_tok_s_max"]) == (200.0, 200.0)


def test_acceptance_is_weighted_by_request_steps(store: Store) -> None:
    store.append(
        samples(
            [
                decode(1, accept_len=3.0, request_steps=10.0),
                decode(2, accept_len=1.0, request_steps=90.0),
                decode(3, accept_len=None, request_steps=500.0),
            ]
        ),
        None,
    )
    assert curve(store, 0, 3, points=1)["accept_len"].to_list() == pytest.approx([1.2])


def test_last_bucket_is_as_long_as_its_data(store: Store) -> None:
    store.append(samples([decode(t) for t in (1, 2, 3, 4)]), None)
    assert curve(store, 0, 9, points=3)["gen_tok_s"].to_list() == pytest.approx([100, 100])


def test_late_interval_draws_its_window(store: Store) -> None:
    store.append(samples([decode(4, interval_s=None)]), None)
    assert curve(store, 0, 4)["gen_tok_s"].to_list() == [None]
    late = {"run_id": "r1", "file_id": "f", "byte_offset": 4000, "interval_s": 4.0}
    store.append(Frames(intervals=records.frame([late], records.INTERVALS)), None)
    assert curve(store, 0, 4)["gen_tok_s"].to_list() == pytest.approx([100] * 4)


def test_prefill_tokens_and_prompt_rate_become_prompt_throughput(store: Store) -> None:
    prefill: dict[str, Any] = {"kind": "prefill", "gen_tok_s": None, "interval_s": None}
    store.append(samples([decode(2, interval_s=2.0), decode(1, new_tokens=50, **prefill)]), None)
    assert curve(store, 0, 2, points=1)["prompt_tok_s"].to_list() == pytest.approx([25])


def test_never_more_points_than_asked_and_narrow_buckets_are_full(store: Store) -> None:
    store.append(samples([decode(10 * t, interval_s=10.0) for t in range(1, 101)]), None)
    got = curve(store, 0, 1000, points=300)
    assert got.height == 300
    assert got["gen_tok_s"].to_list() == pytest.approx([100.0] * 300)
    # Nothing is known of the time before the first stamp.
    assert got["running_reqs"].null_count() == 2


def test_gauges_stand_at_their_stamps_and_peaks_survive(store: Store) -> None:
    usages = {1.0: 0.2, 12.0: 0.98, 15.0: 0.5, 19.0: 0.4}
    rows = [
        decode(t, kv_usage=usage, running_reqs=int(t), interval_s=5.0)
        for t, usage in usages.items()
    ]
    store.append(samples(rows), None)
    got = curve(store, 0, 20, points=2).to_dicts()
    assert [row["kv_usage"] for row in got] == [0.2, 0.98]
    assert [row["kv_at"] for row in got] == [at(1), at(12)]
    assert [row["running_reqs"] for row in got] == [1, 19]
    assert [row["gauges_at"] for row in got] == [at(1), at(19)]


def test_a_gauge_is_not_drawn_before_its_stamp(store: Store) -> None:
    rows = [
        decode(t, kind="stats", engine_index=engine, interval_s=10.0, running_reqs=running)
        for t, running in ((10, 4), (20, 0)) for engine in (0, 1)
    ]  # fmt: skip
    store.append(samples(rows), None)
    got = curve(store, 0, 20, points=4)
    assert got["gen_tok_s"].to_list() == pytest.approx([200] * 4)
    assert got["running_reqs"].to_list() == [None, 8, 8, 0]
    assert got["gauges_at"].to_list()[1:] == [at(10), at(10), at(20)]


def test_overlapping_windows_are_drawn_once_and_within_their_band(store: Store) -> None:
    rows = [
        decode(t, byte_offset=n, gen_tok_s=rate, interval_s=1.6)
        for n, (t, rate) in enumerate([(2, 100.0), (3, 200.0), (3, 300.0), (4, 50.0)])
    ]
    store.append(samples(rows), None)
    got = curve(store, 0, 4)
    assert got["gen_tok_s"].to_list() == pytest.approx([100, 100, 250, 50])
    assert got["gen_tok_s_min"].to_list() == pytest.approx([100, 100, 200, 50])
    assert got["gen_tok_s_max"].to_list() == pytest.approx([100, 100, 300, 50])


def test_a_bucket_filled_by_half_is_no_drop(store: Store) -> None:
    rows = [decode(t, dp_rank=rank, interval_s=1.0) for t in (1, 2, 3, 4, 5) for rank in (0, 1)]
    store.append(samples([*rows, decode(6, dp_rank=0)]), None)
    got = curve(store, 0, 8, points=2)
    assert got["gen_tok_s"].to_list() == pytest.approx([200, 200])
    assert got["gen_tok_s_min"].to_list() == got["gen_tok_s_max"].to_list()


def test_curves_of_many_samples_are_those_of_few(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[dict[str, Any]] = []
    for rank in (0, 1):
        for i in range(400):
            if 150 <= i < 190 + 30 * rank:  # idle for a while
                continue
            waited = i in (190, 220)
            rows.append(
                decode(
                    0.5 * i, dp_rank=rank, gen_tok_s=50.0 + i % 7, interval_s=0.5,
                    running_reqs=i % 5, queued_reqs=i % 3, kv_usage=(i % 11) / 20,
                    accept_len=1 + (i % 4) / 4, request_steps=float(i % 9),
                    window="after_idle" if waited else "mixed",
                )
            )  # fmt: skip
        rows += [
            decode(
                3.0 * i + 0.25, dp_rank=rank, kind="prefill", gen_tok_s=None, interval_s=1.5,
                new_tokens=100 * i, running_reqs=i % 4,
            )
            for i in range(1, 60)
        ]  # fmt: skip
    store.append(samples(sorted(rows, key=lambda row: row["ts"])), None)
    for points in (7, 40, 150):
        few = curve(store, 0, 199.5, points)
        with monkeypatch.context() as patch:
            patch.setattr(run_curves, "MANY_SAMPLES", 0)
            many = curve(store, 0, 199.5, points)
        assert_frame_equal(many, few)


def test_tiles_sum_ranks_and_leave_idle_ones_out_of_throughput(store: Store) -> None:
    store.append(
        samples(
            [decode(t, dp_rank=0, running_reqs=2, kv_usage=0.2) for t in range(1, 31)]
            + [decode(t, dp_rank=1, running_reqs=0, kv_usage=0.9) for t in range(1, 11)]
        ),
        None,
    )
    store.append(facts({"seq": 1, "run_id": "r1", "dp": 4, "max_running_requests": 16}), None)
    with store.cursor() as con:
        tiles = tiles_of(con, "r1")
    assert tiles == run_curves.LiveTiles(
        last_ts=at(30), gen_tok_s=100.0, running_reqs=2, running_cap=64, queued_reqs=0,
        kv_usage=0.9, accept_len=None, draft_accept_rate=None, idle_after_s=3.0,
        ranks_seen=2, ranks_idle=1, ranks_expected=4,
    )  # fmt: skip


def test_tiles_show_no_rate_that_averages_over_waiting(store: Store) -> None:
    waited = decode(60, interval_s=58.0, window="after_idle", gen_tok_s=1.0)
    store.append(samples([decode(1), decode(2), waited]), None)
    store.append(facts({"seq": 1, "run_id": "r1"}), None)
    with store.cursor() as con:
        tiles = tiles_of(con, "r1")
        assert tiles is not None
        assert tiles.gen_tok_s is None
        store.append(samples([decode(61, gen_tok_s=250.0)]), None)
        tiles = tiles_of(con, "r1")
    assert tiles is not None
    assert tiles.gen_tok_s == 250.0


def test_tiles_weigh_acceptance_by_the_steps_of_each_rank(store: Store) -> None:
    spec = [
        decode(1, dp_rank=0, accept_len=2.0, draft_accept_rate=0.5, request_steps=30.0),
        decode(1, dp_rank=1, accept_len=1.0, draft_accept_rate=0.0, request_steps=10.0),
    ]
    store.append(samples(spec), None)
    store.append(facts({"seq": 1, "run_id": "r1", "dp": 2}), None)
    with store.cursor() as con:
        tiles = tiles_of(con, "r1")
    assert tiles is not None
    assert (tiles.accept_len, tiles.draft_accept_rate) == (1.75, 0.375)
