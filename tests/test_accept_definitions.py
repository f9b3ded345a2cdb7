"""What acceptance means, by release: the printed rate kept its name while its formula changed."""

from __future__ import annotations

from typing import Any

import pytest

from parsers.speculation import ASSUMED, LIFETIME, STRICT, VLLM, WITH_BONUS
from tests.logs import decode, prefill, read, text

SHAPE = ["accept_len", "accept_rate_raw", "draft_accept_rate", "accept_def", "request_steps"]
FOUR = (
    "[2026-05-04 10:00:00] server_args={'model_path': 'm', 'speculative_num_draft_tokens': 4, "
    "'decode_log_interval': 40}"
)


def accepted(*lines: str, kind: str = "decode") -> list[dict[str, Any]]:
    """The acceptance columns of the samples of one kind."""
    samples = read(text(lines)).samples
    return samples.filter(samples["kind"] == kind).select(SHAPE).rows(named=True)


def rated(time: str, length: float, rate: float, running: int = 2) -> str:
    """A decode line with a length and a rate."""
    line = decode(time, running, accept=length)
    return line.replace("accept rate: 0.10", f"accept rate: {rate:.2f}")


def old_prefill(time: str) -> str:
    """A prefill line of 0.5.10: with its graph, before #pending-token."""
    return prefill(time).replace("#pending-token: 0, ", "")


def test_the_rate_of_0_5_11_on_is_strict() -> None:
    (row,) = accepted(FOUR, prefill("10:00:01"), rated("10:00:02", 3.2, 0.73))
    assert row == {
        "accept_len": 3.2, "accept_rate_raw": 0.73, "draft_accept_rate": round(2.2 / 3, 6),
        "accept_def": STRICT, "request_steps": 80.0,
    }  # fmt: skip


def test_the_rate_of_0_5_9_counts_the_bonus_token_and_the_strict_one_is_computed() -> None:
    (row,) = accepted(FOUR, old_prefill("10:00:01"), rated("10:00:02", 1.65, 0.41))
    assert (row["accept_def"], row["accept_rate_raw"]) == (WITH_BONUS, 0.41)
    assert row["draft_accept_rate"] == pytest.approx(0.65 / 3, abs=1e-6)


def test_its_floor_means_that_nothing_was_accepted() -> None:
    (row,) = accepted(FOUR, old_prefill("10:00:01"), rated("10:00:02", 1.0, 0.25))
    assert (row["accept_len"], row["draft_accept_rate"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("length", "rate", "formula"), [(3.2, 0.80, WITH_BONUS), (3.2, 0.73, STRICT)]
)
def test_without_prefill_lines_the_numbers_tell(length: float, rate: float, formula: str) -> None:
    (row,) = accepted(FOUR, rated("10:00:02", length, rate))
    assert row["accept_def"] == formula


def test_an_unknown_release_is_marked() -> None:
    (row,) = accepted(rated("10:00:02", 3.2, 0.73))
    assert row["accept_def"] == ASSUMED
    assert row["draft_accept_rate"] is None


def test_no_rate_has_no_formula() -> None:
    (row,) = accepted(FOUR, decode("10:00:02", accept=2.5).replace("accept rate: 0.10, ", ""))
    assert row["accept_def"] is None
    assert row["draft_accept_rate"] == 0.5


V0 = (
    "INFO 05-04 10:00:{:02} metrics.py:367] Speculative metrics: Draft acceptance rate: {}, System "
    "efficiency: 0.600, Number of speculative tokens: 3, Number of accepted tokens: {}, Number of "
    "draft tokens: {}, Number of emitted tokens: {}."
)


def test_v0_counts_since_the_start_become_those_of_the_interval() -> None:
    """Accepted tokens count beyond a rejection, so the strict rate comes from the length."""
    lines = [V0.format(0, "0.600", 180, 300, 190), V0.format(5, "0.550", 330, 600, 430)]
    first, second = accepted(*lines, kind="spec")
    assert first["accept_len"] == pytest.approx(1.9)
    assert second["accept_len"] == pytest.approx(2.4)
    assert second["draft_accept_rate"] == pytest.approx(1.4 / 3, abs=1e-6)
    assert second["request_steps"] == 100.0
    assert {first["accept_def"], second["accept_def"]} == {LIFETIME}
    assert second["accept_rate_raw"] == 0.55


def test_v0_before_any_draft_has_no_acceptance() -> None:
    (row,) = accepted(V0.format(0, "nan", 0, 0, 0), kind="spec")
    assert list(row.values()) == [None] * 5


V1 = (
    "(APIServer pid=1) INFO 05-04 10:00:10 [metrics.py:101] SpecDecoding metrics: Draft acceptance "
    "rate: 60.0%, Mean acceptance length: {}, Accepted: 900 tokens, Drafted: 1500 tokens, "
    "Per-position acceptance rate: 0.820, 0.590, 0.390"
)


@pytest.mark.parametrize("printed", ["1.80", "2.80"])  # 0.8.5 leaves the bonus token out
def test_v1_length_holds_the_bonus_token(printed: str) -> None:
    (row,) = accepted(V1.format(printed), kind="spec")
    assert row.pop("accept_def") == VLLM
    assert row == pytest.approx(
        {"accept_len": 2.8, "accept_rate_raw": 0.6, "draft_accept_rate": 0.6, "request_steps": 500}
    )


def test_a_spec_line_belongs_to_the_engine_line_before_it() -> None:
    head = "(APIServer pid=1) INFO 05-04 10:00:10 [loggers.py:1] "
    stats = (
        "Engine {:03}: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 9.0 "
        "tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit "
        "rate: 0.0%"
    )
    transfer = head + "KV Transfer metrics: Num successful transfers=2"
    lines = [head + stats.format(1), V1.format("2.80"), transfer, head + stats.format(0)]
    samples = read(text([*lines, V1.format("2.80")])).samples
    assert samples.select("kind", "engine_index").rows() == [
        ("stats", 1), ("spec", 1), ("metrics", 1), ("stats", 0), ("spec", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "scope"), [("0.7.3", "interval"), ("0.8.2", "last_1000_requests")]
)
def test_a_prefix_hit_rate_is_over_what_its_release_says(version: str, scope: str) -> None:
    lines = [
        f"INFO 05-04 10:00:00 api_server.py:900] vLLM API server version {version}",
        "INFO 05-04 10:00:10 loggers.py:70] Avg prompt throughput: 1.0 tokens/s, Avg generation "
        "throughput: 9.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, "
        "Prefix cache hit rate: 40.0%",
        "INFO 05-04 10:00:11 metrics.py:361] Prefix cache hit rate: GPU: 60.00%, CPU: 0.00%",
    ]
    samples = read(text(lines)).samples
    assert samples["hit_rate_scope"].to_list() == [scope, "lifetime"]
