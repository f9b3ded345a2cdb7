"""What a speculative step costs and yields, and when nothing is said."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from data import speculation
from data.compare import compare, grouped
from data.run_data import RunData
from data.speculation import Economics
from parsers import records
from tests import simulator
from tests.frames import decode
from tests.simulator import Load, Server

PLAIN = Server()
EAGLE = Server(accept=(0.40, 0.20, 0.05), step_cost=1.67)


def calm(rate: float, running: int = 1, n: int = 20, **values: Any) -> pl.DataFrame:
    """Steady windows whose rates hardly differ."""
    rows = [
        decode(
            i, running_reqs=running, gen_tok_s=rate * (1 + 0.001 * (-1) ** i), graph_on=True,
            kv_tokens=500 * running, request_steps=40.0 * running,
        ) | values
        for i in range(1, n + 1)
    ]  # fmt: skip
    return records.frame(rows, records.SAMPLES)


def base(rate: float = 63.6, **values: Any) -> RunData:
    """A run without speculation."""
    return simulator.run(calm(rate, **values), run_id="base")


def spec(rate: float = 62.9, length: float | None = 1.65, **values: Any) -> RunData:
    """A run with four draft tokens."""
    made = calm(rate, accept_len=length, **values)
    return simulator.run(made, run_id="spec", spec_algorithm="EAGLE3", spec_draft_tokens=4)


def one(ours: RunData, theirs: RunData) -> Economics:
    """The comparison at the only common running count."""
    found = speculation.economics([ours], [theirs])
    assert not isinstance(found, str), found
    (row,) = found
    return row


def test_the_sentence_of_a_draft_that_does_not_pay() -> None:
    row = one(spec(), base())
    assert row.sentence == (
        "A speculative step costs 1.67 plain steps and yields 1.65 tokens: "
        "no gain at one stream (0.99 times the base)."
    )
    assert row.cost == pytest.approx(1.668, abs=0.001)
    assert row.worthwhile_len == pytest.approx(2.17, abs=0.005)
    assert row.step_ms == pytest.approx(1000 * 1.65 / 62.9)


def test_the_sentence_of_a_draft_that_pays() -> None:
    row = one(spec(127.2, 2.4, running=8), base(63.6, running=8))
    assert row.sentence == (
        "A speculative step costs 1.20 plain steps and yields 2.40 tokens: "
        "2.00 times the base at 8 running requests."
    )


def test_simulated_costs_are_found() -> None:
    loads = [Load(1, 8, output=1500), Load(8, 80, output=600)]
    quick, slow = (
        simulator.serve(server, loads, seed) for seed, server in enumerate((PLAIN, EAGLE))
    )
    (plain,), (drafted,) = (simulator.from_text(served.lines) for served in (quick, slow))
    found = speculation.economics([drafted], [plain])
    assert not isinstance(found, str), found
    costs = {row.running: row.cost for row in found}
    for running in (1, 8):
        assert costs[running] == pytest.approx(1.67 * slow.effect / quick.effect, rel=0.02)


def test_simulated_costs_are_found_in_vllms_logs() -> None:
    loads = [Load(1, 2, output=9000)]
    plain, drafting = (
        Server("vllm"), Server("vllm", accept=(0.40, 0.20, 0.05), step_cost=1.67),
    )  # fmt: skip
    quick, slow = (simulator.serve(server, loads, 7) for server in (plain, drafting))
    (theirs,), (ours,) = (simulator.from_text(served.lines) for served in (quick, slow))
    row = one(ours, theirs)
    assert row.cost == pytest.approx(1.67 * slow.effect / quick.effect, rel=0.02)


def test_cost_and_acceptance_are_resampled_together() -> None:
    """Where length and rate rise together, the step's cost is sure although both vary much."""
    lengths = [1.2, 2.8] * 20
    rows = [
        decode(i, accept_len=a, gen_tok_s=60 * a, graph_on=True, request_steps=40.0,
               interval_s=40 / 60, kv_tokens=500)
        for i, a in enumerate(lengths, 1)
    ]  # fmt: skip
    drafted = simulator.run(
        records.frame(rows, records.SAMPLES), run_id="spec", spec_draft_tokens=4
    )
    row = one(drafted, base(100.0))
    assert row.speedup_interval is not None
    assert row.cost_interval is not None
    width = row.cost_interval.high / row.cost_interval.low
    assert width < 1.02 < row.speedup_interval.high / row.speedup_interval.low


def test_missing_acceptance_stays_missing() -> None:
    row = one(spec(length=None), base())
    assert (row.accept_len, row.cost, row.step_ms) == (None, None, None)


def test_steps_without_a_draft_give_no_step_time() -> None:
    values: dict[str, Any] = {
        "engine": "vllm", "kind": "stats", "kv_tokens": None, "request_steps": 10.0,
        "accepted_tokens": 20, "accept_len": 3.0, "interval_s": 10.0,
    }  # fmt: skip
    made = simulator.run(calm(60.0, **values), run_id="spec", engine="vllm", spec_draft_tokens=4)
    plain = simulator.run(
        calm(50.0, **values | {"accept_len": None, "request_steps": None, "accepted_tokens": None}),
        engine="vllm", run_id="base",
    )  # fmt: skip
    row = one(made, plain)
    assert row.step_ms is None
    assert row.sentence.startswith("Not every step drafts, so the cost of a step cannot be told:")


def test_contexts_of_other_length_are_refused_in_words() -> None:
    row = one(spec(kv_tokens=900), base(kv_tokens=500))
    assert row.sentence == (
        "Not compared at one stream: 900 KV tokens a request with speculation and 500 without: "
        "contexts of different length."
    )
    assert one(spec(kv_tokens=600), base(kv_tokens=500)).refused == ""


def test_another_graph_state_is_refused_in_words() -> None:
    row = one(spec(graph_on=False), base())
    assert row.refused == "graphs are off with speculation and on without"


def test_a_base_differs_in_speculation_only() -> None:
    def with_args(made: RunData, args: str) -> RunData:
        return simulator.replace_card(made, made.events, {"args": args})

    ours = with_args(spec(), '{"page_size": 1, "speculative_num_steps": 3}')
    same = with_args(base(), '{"page_size": 1, "speculative_num_steps": null}')
    other = with_args(base(), '{"page_size": 64, "speculative_num_steps": null}')
    assert not isinstance(speculation.economics([ours], [same]), str)
    refused = speculation.economics([ours], [other])
    assert refused == "no comparable base run: page_size 1 against 64"


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ({"engine": "vllm"}, "engine sglang against vllm"),
        ({"model": "org/other"}, "model org/model against org/other"),
        ({"tp": 8}, "tp 1 against 8"),
        ({"spec_draft_tokens": 2}, "speculates too"),
    ],
)
def test_what_is_no_base_is_said(card: dict[str, Any], words: str) -> None:
    plain = base()
    refused = speculation.economics([spec()], [simulator.replace_card(plain, plain.events, card)])
    assert isinstance(refused, str)
    assert words in refused


def test_no_measurable_difference_is_said() -> None:
    wide = [
        decode(i, gen_tok_s=100.0 * (0.6 if i % 2 else 1.4), accept_len=1.6, graph_on=True,
               request_steps=40.0, kv_tokens=500)
        for i in range(1, 30)
    ]  # fmt: skip
    drafted = simulator.run(records.frame(wide, records.SAMPLES), run_id="s", spec_draft_tokens=4)
    assert "no measurable difference at one stream" in one(drafted, base(100.0)).sentence


def test_yields_of_each_position() -> None:
    rows = calm(60.0, accept_len=1.9, accept_per_position=[0.5, 0.3, 0.1])
    assert speculation.position_yields(rows) == pytest.approx((1.5, 1.8, 1.9))
    assert speculation.position_yields(calm(60.0)) == ()


def test_the_best_k_needs_runs_of_several() -> None:
    assert speculation.best_k([(3, 1.2)]) is None
    assert speculation.best_k([(3, 1.2), (3, 1.3)]) is None
    assert speculation.best_k([(3, 1.2), (5, 1.1)]) == 3


def test_proposed_tokens_leave_out_sglangs_first() -> None:
    assert speculation.proposed(spec()) == 3
    assert speculation.proposed(base()) is None


def test_the_fastest_draft_length_of_those_tried_is_named() -> None:
    plain, _ = simulator.start(Server(), [1], 20, 1, config_hash="0")
    short, _ = simulator.start(
        Server(accept=(0.8,), step_cost=1.2), [1], 20, 2, config_hash="1", spec_draft_tokens=2
    )
    long, _ = simulator.start(
        Server(accept=(0.8, 0.1, 0.1), step_cost=1.9), [1], 20, 3, config_hash="3",
        spec_draft_tokens=4,
    )  # fmt: skip
    made = compare(grouped([("base", plain), ("one", short), ("three", long)]))
    (note,) = made.notes
    assert note.startswith("of the draft lengths tried, 1 is fastest at one stream (1: 1.")
    alone = compare(grouped([("base", plain), ("one", short)]))
    assert alone.notes == ()
