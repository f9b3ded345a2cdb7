"""Every rule finds what it is for, stays silent next to it, and nothing is found in health."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from data.findings.model import SEVERITIES, Case, Finding
from data.findings.rules import RULES, findings
from data.run_data import RunData
from parsers import records
from parsers.records import CHOICES
from tests import simulator
from tests.frames import at, decode
from tests.simulator import Load, Server

WITH_BONUS, STRICT = CHOICES["accept_def"][1], CHOICES["accept_def"][0]


def case(rows: Iterable[dict[str, Any]] = (), **more: Any) -> Case:
    """A run of these samples."""
    base = more.pop("base", None)
    args = more.pop("args", None)
    given: dict[str, Any] = {} if args is None else {"args": json.dumps(args)}
    made = simulator.run(records.frame(rows, records.SAMPLES), **given, **more)
    return Case(made, base)


def held(n: int, begin: int = 1, **values: Any) -> list[dict[str, Any]]:
    """Steady windows, one a second."""
    return [decode(i, **{"request_steps": 40.0, **values}) for i in range(begin, begin + n)]


def prefill(second: float, **values: Any) -> dict[str, Any]:
    """A prefill line."""
    return decode(
        second, kind="prefill", window="mixed", gen_tok_s=None, new_seqs=1, running_reqs=0, **values
    )


def event(kind: str, evidence: str = "line", second: float = 50, **values: Any) -> dict[str, Any]:
    """An event."""
    return {"kind": kind, "severity": "warning", "title": kind, "evidence": evidence,
            "ts": at(second), "line_no": 7, **values}  # fmt: skip


RESET = "Max running requests is reset to 48 for speculative decoding."
MAMBA = "max_running_requests is capped to 40 by the mamba state cache (…)"
SPEC = {"spec_algorithm": "EAGLE3", "spec_draft_tokens": 4}


def capped(queue: int, running: int = 48) -> Case:
    return case(
        held(20, running_reqs=running, queued_reqs=queue, kv_usage=0.4), max_running_requests=48
    )


def full(usage: float) -> Case:
    return case(held(20, running_reqs=20, queued_reqs=5, kv_usage=usage), max_running_requests=48)


def after_retraction(rate: float) -> Case:
    rows = held(50, queued_reqs=3) + held(50, 51, queued_reqs=3, gen_tok_s=rate)
    return case(rows, events=[event("retraction", second=50.5)])


def drafted(lengths: Sequence[float], **more: Any) -> Case:
    rows = [
        row
        for i, length in enumerate(lengths)
        for row in held(10, 1 + 10 * i, accept_len=length, **more)
    ]
    return case(rows, **SPEC)


def against_base(rate: float) -> Case:
    plain = simulator.run(
        records.frame(held(20, gen_tok_s=63.6, graph_on=True), records.SAMPLES), run_id="base"
    )
    return case(held(20, gen_tok_s=rate, accept_len=1.65, graph_on=True), base=plain, **SPEC)


def positions(*rates: float) -> Case:
    return case(held(20, accept_len=1 + sum(rates), accept_per_position=list(rates)), **SPEC)


def graphs(on_to: int, off_from: int | None, **more: Any) -> Case:
    rows = held(20, running_reqs=on_to, graph_on=True)
    if off_from:
        rows += held(20, 21, running_reqs=off_from, graph_on=False)
    return case(rows, **more)


def beside_prefill(rate: float) -> Case:
    return case(
        held(20, running_reqs=8) + held(20, 21, running_reqs=8, window="mixed", gen_tok_s=rate)
    )


def contexts(rate: float, last: int) -> Case:
    return case(held(20, kv_tokens=500) + held(20, 21, kv_tokens=last, gen_tok_s=rate))


def slowing(last_context: int) -> Case:
    rates = ((100.0, 500), (85.0, 500), (70.0, last_context))
    return case(
        row
        for i, (rate, context) in enumerate(rates)
        for row in held(40, 1 + 40 * i, kv_tokens=context, gen_tok_s=rate)
    )


def prompts(cached: int, **more: Any) -> Case:
    return case([prefill(i, new_tokens=400, cached_tokens=cached) for i in range(1, 121)], **more)


def loads(first: float, second: float) -> Case:
    rows = [
        decode(i, dp_rank=rank, running_reqs=running, byte_offset=2 * i + rank)
        for i in range(1, 20)
        for rank, running in ((0, first), (1, second))
    ]
    return case(rows, dp=2)


def access(status: int, bad: int, good: int = 100) -> Case:
    path = "/v1/chat/completions"
    return case(
        held(5),
        access=[
            {"minute": at(0), "method": "POST", "path": path, "status": s, "n": n}
            for s, n in ((200, good), (status, bad))
        ],
    )


def answered(n: int, rows: Sequence[dict[str, Any]] = ()) -> Case:
    line = {"minute": at(0), "method": "POST", "path": "/generate", "status": 200, "n": n}
    return case(rows, access=[line])


def point(card: dict[str, Any] | None = None, **values: Any) -> Case:
    row = {
        "bench_id": "b", "concurrency": 64.0, "num_prompts": 640, "completed": 640, "failed": 0,
        "dataset": "sharegpt", **values,
    }  # fmt: skip
    return case(held(5), bench=[row], **(card or {}))


TRIED: dict[str, tuple[Callable[[], Case], Callable[[], Case]]] = {
    "crashed": (
        lambda: case(end_state="crashed", events=[
            event("fault", severity="fault", title="Scheduler hit an exception", incident_id="i")]),
        lambda: case(end_state="stopped", events=[event("traceback", severity="info")]),
    ),
    "ended_unsaid": (
        lambda: case(held(5), end_state="lost", ready_at=at(0)),
        lambda: case([*held(5), decode(9, running_reqs=0)], end_state="lost", ready_at=at(0)),
    ),
    "imbalance": (lambda: loads(30, 10), lambda: loads(22, 20)),
    "ranks_missing": (
        lambda: case(held(30, dp_rank=0), dp=4), lambda: case(held(30, dp_rank=0), dp=1)
    ),
    "stats_off": (lambda: case(events=[event("stats_off")]), lambda: case()),
    "no_periodic_lines": (lambda: answered(40), lambda: answered(40, held(5))),
    "errors_to_clients": (lambda: access(500, 5), lambda: access(500, 0)),
    "refused_by_server": (lambda: access(400, 20), lambda: access(404, 1)),
    "stalled": (
        lambda: case(events=[event("stall", second=s) for s in (90, 150)], ready_at=at(10)),
        lambda: case(events=[event("stall", second=s) for s in (1, 5)], ready_at=at(10)),
    ),
    "queue_at_cap": (lambda: capped(12), lambda: capped(12, running=47)),
    "cap_lowered_by_speculation": (
        lambda: case(held(5), events=[event("override", RESET)], max_running_requests=48, **SPEC),
        lambda: case(held(5), max_running_requests=48, **SPEC),
    ),
    "cap_lowered_by_state_cache": (
        lambda: case(events=[event("override", MAMBA)]), lambda: case(events=[event("override")])
    ),
    "queue_for_memory": (lambda: full(0.97), lambda: full(0.6)),
    "retractions": (
        lambda: case(events=[event("retraction")]), lambda: case(events=[event("stop")])
    ),
    "slower_since_retraction": (lambda: after_retraction(40.0), lambda: after_retraction(95.0)),
    "pool_below_context": (
        lambda: case(max_total_tokens=9_000, context_len=131_072),
        lambda: case(max_total_tokens=900_000, context_len=131_072),
    ),
    "below_break_even": (lambda: against_base(50.0), lambda: against_base(80.0)),
    "rate_at_floor": (
        lambda: drafted([1.0, 1.0], accept_rate_raw=0.25, accept_def=WITH_BONUS),
        lambda: drafted([1.65, 1.65], accept_rate_raw=0.41, accept_def=WITH_BONUS),
    ),
    "nothing_accepted": (
        lambda: drafted([1.0, 1.0], accept_rate_raw=0.0, accept_def=STRICT),
        lambda: drafted([1.2, 1.0], accept_rate_raw=0.03, accept_def=STRICT),
    ),
    "rate_counts_bonus": (
        lambda: drafted([1.65], accept_rate_raw=0.41, accept_def=WITH_BONUS),
        lambda: drafted([1.65], accept_rate_raw=0.22, accept_def=STRICT),
    ),
    "collapsed": (lambda: drafted([2.4, 2.4, 1.0]), lambda: drafted([2.4, 1.0, 2.4])),
    "drifts_down": (
        lambda: drafted([2.6, 2.6, 2.3, 2.3, 2.0, 2.0]),
        lambda: drafted([2.6, 2.0, 2.3, 2.6, 2.0, 2.3]),
    ),
    "late_positions_useless": (
        lambda: positions(0.6, 0.3, 0.01, 0.0), lambda: positions(0.6, 0.3, 0.1)
    ),
    "simulated": (
        lambda: case(args={"speculative_config": {"rejection_sample_method": "synthetic"}}),
        lambda: case(args={"speculative_config": {"method": "mtp"}}),
    ),
    "graph_off": (
        lambda: case(held(20, graph_on=False)),
        lambda: case(held(20, graph_on=False), args={"device": "cpu"}),
    ),
    "graph_off_when_large": (lambda: graphs(32, 40), lambda: graphs(32, None)),
    "slowed_by_prefill": (lambda: beside_prefill(40.0), lambda: beside_prefill(90.0)),
    "slower_with_context": (lambda: contexts(60.0, 9_000), lambda: contexts(95.0, 9_000)),
    "slower_over_time": (lambda: slowing(500), lambda: slowing(5_000)),
    "prefix_cache_useless": (lambda: prompts(0), lambda: prompts(100)),
    "overlap_off": (
        lambda: case(events=[event("override", "Overlap scheduler is disabled because of …")]),
        lambda: case(events=[event("override", "Cuda graph is disabled because of …")]),
    ),
    "above_cap": (
        lambda: point({"max_running_requests": 48}), lambda: point({"max_running_requests": 64})
    ),
    "failed_requests": (lambda: point(failed=12, completed=628), lambda: point()),
    "random_prompts": (lambda: point(SPEC, dataset="random-ids"), lambda: point(dataset="random")),
    "tokens_differ": (
        lambda: point(token_difference=-9_000.0, allowed_tokens=2_000.0),
        lambda: point(token_difference=1_500.0, allowed_tokens=2_000.0),
    ),
    "odd_numbers": (
        lambda: point(extra='{"impossible": ["mean TPOT is negative"]}'), lambda: point(extra="{}")
    ),
    "mostly_ramp": (lambda: point(num_prompts=80), lambda: point()),
}  # fmt: skip
BY_NAME = {rule.__name__: rule for rule in RULES}


def test_every_rule_is_tried() -> None:
    assert set(TRIED) == set(BY_NAME)
    assert len(RULES) >= 20


@pytest.mark.parametrize("name", TRIED)
def test_a_rule_finds_what_it_is_for(name: str) -> None:
    found = list(BY_NAME[name](TRIED[name][0]()))
    assert len(found) == 1
    told = found[0]
    assert told.severity in SEVERITIES
    assert told.sentence.endswith(".")
    assert told.sentence[0].isupper() or told.sentence[0].isdigit() or "_" in told.sentence
    assert told.consequence.endswith(".")
    assert told.to_try
    json.dumps(told.numbers)


@pytest.mark.parametrize("name", TRIED)
def test_a_rule_is_silent_where_it_does_not_apply(name: str) -> None:
    assert list(BY_NAME[name](TRIED[name][1]())) == []


@pytest.mark.parametrize("name", TRIED)
def test_a_rule_is_silent_without_data(name: str) -> None:
    assert list(BY_NAME[name](case())) == []
    assert list(BY_NAME[name](case(engine="vllm", end_state="running"))) == []


def names(found: Sequence[Finding]) -> set[str]:
    """The rules that found something."""
    return {finding.rule for finding in found}


def test_nothing_is_found_in_200_healthy_starts() -> None:
    for seed in range(200):
        accept = (0.6, 0.35, 0.2) if seed % 2 else ()
        server = Server(accept=accept, step_cost=1.4 if accept else 1.0)
        made, _ = simulator.start(server, [1, 8, 32], 30, seed, max_running_requests=256)
        assert findings(made) == [], seed


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_found_in_healthy_logs(seed: int, engine: str) -> None:
    accept = (0.6, 0.35, 0.2) if seed % 2 else ()
    server = Server(engine, accept=accept, step_cost=1.4 if accept else 1.0, ranks=1 + seed // 2)
    served = simulator.serve(server, [Load(2, 8), Load(16, 80), Load(48, 200)], seed)
    (made,) = simulator.from_text(served.lines)
    assert findings(made) == []


def planted(server: Server, loads: Sequence[Load], seed: int = 1) -> RunData:
    """The log of a server with something wrong, read by the real parser."""
    (made,) = simulator.from_text(simulator.serve(server, loads, seed).lines)
    return made


def test_a_planted_cap_is_found() -> None:
    made = planted(Server(cap=8), [Load(4, 40), Load(32, 160)])
    found = findings(made)
    assert names(found) == {"queue_at_cap"}
    assert found[0].numbers["cap"] == 8
    assert found[0].cost_tok_s is not None
    assert found[0].cost_tok_s > 0


def test_a_planted_cap_is_found_in_vllms_log() -> None:
    made = planted(Server("vllm", cap=8), [Load(32, 160)])
    assert names(findings(made)) == {"queue_at_cap"}


def test_planted_eager_decode_is_found() -> None:
    assert names(findings(planted(Server(graph=False), [Load(8, 60)]))) == {"graph_off"}


def test_a_planted_useless_draft_is_found() -> None:
    made = planted(Server(accept=(0.0, 0.0, 0.0), step_cost=1.6), [Load(8, 60)])
    assert names(findings(made)) == {"nothing_accepted"}


@pytest.mark.parametrize(
    ("rule", "server", "loads"),
    [
        ("imbalance", Server(ranks=2, shares=(0.8, 0.2)), [Load(40, 240)]),
        ("graph_off_when_large", Server(graph_up_to=16), [Load(8, 60), Load(24, 120)]),
        (
            "acceptance_collapsed",
            Server(accept=(0.7, 0.5, 0.3), step_cost=1.5, accepts_for_s=40.0),
            [Load(8, 160)],
        ),
        (
            "slowed_by_prefill",
            Server(prefill_ms_per_token=1.0),
            [Load(8, 16, output=900), Load(8, 260, output=50)],
        ),
        ("slower_over_time", Server(slower_a_minute=0.5), [Load(4, 200, output=300, idle_s=0)]),
        ("queue_at_cap", Server(cap=16, ranks=2), [Load(8, 40), Load(64, 300)]),
    ],
)
def test_planted_problems_are_found_and_nothing_else(
    rule: str, server: Server, loads: list[Load]
) -> None:
    assert names(findings(planted(server, loads))) == {rule}


def test_a_planted_cold_prefix_cache_is_found() -> None:
    made = planted(Server(cached=0.0), [Load(8, 1600, output=20)])
    assert names(findings(made)) == {"prefix_cache_useless"}


def test_a_draft_that_costs_more_than_it_yields_is_found() -> None:
    loads = [Load(1, 8, output=1500)]
    base = planted(Server(), loads, 2)
    slow = planted(Server(accept=(0.4, 0.2, 0.05), step_cost=2.2), loads, 3)
    found = findings(slow, base)
    assert names(found) == {"below_break_even"}
    assert found[0].numbers["break_even"] == pytest.approx(2.2, rel=0.1)


def test_findings_come_by_cost() -> None:
    rows = held(20, running_reqs=4) + held(20, 21, running_reqs=48, queued_reqs=30, gen_tok_s=900.0)
    rows += held(40, 41, running_reqs=48, window="mixed", gen_tok_s=300.0)
    made = case(
        rows, max_running_requests=48, events=[event("override", RESET)], **SPEC
    ).run  # fmt: skip
    costs = [finding.cost_tok_s for finding in findings(made)]
    known = [cost for cost in costs if cost is not None]
    assert len(known) >= 2
    assert known == sorted(known, reverse=True)
    assert costs[: len(known)] == known


@pytest.mark.parametrize(
    ("engine", "args", "flag"),
    [
        ("sglang", {"cuda_graph_max_bs": 32}, "--cuda-graph-max-bs"),
        ("sglang", {"cuda_graph_max_bs_decode": 32}, "--cuda-graph-max-bs-decode"),
        ("vllm", {}, "cudagraph_capture_sizes"),
    ],
)
def test_flags_have_the_name_of_the_engine_and_its_release(
    engine: str, args: dict[str, Any], flag: str
) -> None:
    (found,) = BY_NAME["graph_off_when_large"](graphs(32, 40, engine=engine, args=args))
    assert flag in found.to_try.replace(",", " ").split()[0] or flag in found.to_try
    assert ("decode" in found.to_try) == ("decode" in flag)


def test_a_server_that_never_served_lost_no_request() -> None:
    fault = event("fault", severity="fault", title="OSError: in use", incident_id="i")
    early = case(end_state="crashed", events=[fault])
    late = case(held(5), end_state="crashed", events=[fault], ready_at=at(0))
    told = [
        next(found for found in findings(made.run, made.base) if found.rule == "crashed")
        for made in (early, late)
    ]
    assert told[0].sentence == "The server failed before it was ready: OSError: in use."
    assert told[1].sentence == "The server crashed: OSError: in use."
