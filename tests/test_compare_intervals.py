"""Ratios at equal running counts, and whether their intervals hold what they promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from data import intervals, matching
from data.compare import Group, compare
from data.intervals import OVER_STARTS, WITHIN_RUN
from data.matching import Match
from data.run_data import RunData
from parsers import records
from tests import simulator
from tests.frames import decode
from tests.simulator import Server

PLAIN, SLOWER = Server(), Server(step_ms=11.5)


def starts(server: Server, n: int, seed: int, counts: tuple[int, ...] = (1, 8)) -> list[RunData]:
    """So many starts of one configuration."""
    return [simulator.start(server, counts, 24, seed + i)[0] for i in range(n)]


def matched(base: list[RunData], other: list[RunData]) -> Match:
    """A comparison that must be possible."""
    found = matching.match(base, other)
    assert isinstance(found, Match), found
    return found


@pytest.mark.parametrize(("freedom", "point"), [(1, 12.706), (2, 4.303), (7, 2.365), (30, 2.042)])
def test_quantiles_of_student(freedom: int, point: float) -> None:
    assert intervals.t_quantile(freedom) == pytest.approx(point, abs=0.001)


def test_over_starts_the_interval_holds_the_truth_of_the_configurations() -> None:
    truth = SLOWER.tok_s(1) / PLAIN.tok_s(1)
    held = [
        interval is not None and interval.kind == OVER_STARTS and interval.holds(truth)
        for i in range(200)
        if (
            interval := matched(
                starts(PLAIN, 2, 100 * i, (1,)), starts(SLOWER, 2, 100 * i + 50, (1,))
            ).interval
        )
    ]
    assert len(held) == 200
    assert 0.90 <= sum(held) / 200 <= 0.98


def test_within_a_run_the_interval_holds_the_truth_of_these_starts() -> None:
    held = 0
    for i in range(200):
        base, slow = simulator.start(PLAIN, [1], 40, 2 * i)
        other, slower = simulator.start(SLOWER, [1], 40, 2 * i + 1)
        interval = matched([base], [other]).interval
        assert interval is not None
        assert interval.kind == WITHIN_RUN
        held += interval.holds(SLOWER.tok_s(1) / slower / (PLAIN.tok_s(1) / slow))
    assert 0.90 <= held / 200 <= 0.98


def test_rates_are_combined_with_weights_that_both_share() -> None:
    """The same server, once mostly at 1 and once mostly at 32, is not faster than itself."""
    calm = Server(noise=0.0)
    low, _ = simulator.start(calm, [1] * 9 + [32], 10, 1)
    high, _ = simulator.start(calm, [1] + [32] * 9, 10, 1)
    assert matched([low], [high]).ratio == pytest.approx(1.0, abs=1e-6)


def run(*running: int, graph: bool | None = True, rate: float = 100.0, **card: Any) -> RunData:
    """Steady windows at these counts, one second each."""
    rows = [
        decode(i, running_reqs=n, gen_tok_s=rate, graph_on=graph) for i, n in enumerate(running, 1)
    ]
    return simulator.run(records.frame(rows, records.SAMPLES), **card)


def test_only_exact_running_counts_match() -> None:
    found = matched([run(*[1] * 9, *[4] * 9)], [run(*[4] * 9, *[5] * 9)])
    assert [cell.running for cell in found.cells] == [4]
    assert isinstance(matching.match([run(1, 2)], [run(3)]), str)


def test_graph_states_are_never_pooled() -> None:
    refused = matching.match([run(*[4] * 9)], [run(*[4] * 9, graph=False)])
    assert isinstance(refused, str)
    assert "graph state" in refused


def test_captured_sizes_are_never_pooled() -> None:
    def sized(*sizes: int) -> RunData:
        return run(*[3] * 9, *[8] * 9, args=f'{{"cuda_graph_bs": {list(sizes)}}}')

    found = matched([sized(1, 2, 4, 8)], [sized(1, 2, 3, 8)])
    assert [(cell.running, cell.capture) for cell in found.cells] == [(8, 8)]
    assert found.notes == ("left out, since graph state or captured size differ: running 3",)


def test_an_engine_that_prints_no_graph_state_is_compared_with_the_usual_one() -> None:
    found = matched([run(*[4] * 9, graph=None)], [run(*[4] * 9)])
    assert [cell.running for cell in found.cells] == [4]


def test_mixed_windows_are_in_no_ratio() -> None:
    rows = [decode(i, window="mixed") for i in range(1, 20)]
    mixed = simulator.run(records.frame(rows, records.SAMPLES))
    refused = matching.match([run(*[1] * 9)], [mixed])
    assert isinstance(refused, str)
    assert "no steady window" in refused


def test_other_rank_counts_are_refused() -> None:
    refused = matching.match([run(1)], [run(1, dp=8)])
    assert isinstance(refused, str)
    assert "8 ranks against 1" in refused


def test_few_windows_give_a_ratio_and_no_interval() -> None:
    found = matched([run(1, 1, 1)], [run(1, 1, 1, rate=80.0)])
    assert found.ratio == pytest.approx(0.8)
    assert found.difference_tok_s == pytest.approx(-20.0)
    assert found.interval is None
    assert "fewer than 8" in found.interval_note


def test_one_start_a_side_names_no_winner_below_five_percent() -> None:
    def verdict(rate: float) -> str:
        random = np.random.default_rng(1)
        sides = []
        for label, level in (("base", 100.0), ("other", rate)):
            rows = [
                decode(i, gen_tok_s=level * math.exp(0.001 * random.standard_normal()))
                for i in range(1, 40)
            ]
            made = simulator.run(records.frame(rows, records.SAMPLES), run_id=label)
            sides.append(Group(label, (made,)))
        return compare(sides).pairs[0].verdict

    assert "names no winner below 5%" in verdict(103.0)
    assert verdict(110.0).startswith("other is faster: 1.10 times base")
    assert verdict(90.0).startswith("other is slower: 0.90 times base")
    assert verdict(100.0).startswith("No measurable difference")


def test_several_starts_may_name_a_winner_below_five_percent() -> None:
    def starts_at(*rates: float) -> tuple[RunData, ...]:
        return tuple(run(*[1] * 9, rate=rate) for rate in rates)

    sides = [Group("a", starts_at(100, 100.2, 99.8)), Group("b", starts_at(103, 103.2, 102.9))]
    verdict = compare(sides).pairs[0].verdict
    assert verdict.startswith("b is faster: 1.03 times a")
    assert OVER_STARTS in verdict
