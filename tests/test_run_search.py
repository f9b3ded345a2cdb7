"""The search of the Runs page: words, keys, numbers, what is left out, what is not understood."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard import run_search
from dashboard.run_search import SORTS, ordered, search

RUNS = pl.DataFrame(
    {
        "run_id": ["aa11", "bb22", "cc33"],
        "label": ["nightly base", None, "spec [try] 2"],
        "engine": ["sglang", "vllm", "sglang"],
        "engine_version": ["0.5.10", "0.14.0", None],
        "model": ["org/moe-547b", "org/Tiny-Llama", "org/moe-547b"],
        "source_id": ["/logs/a.log", "/logs/b.log", "/logs/c.log"],
        "spec_algorithm": [None, None, "EAGLE3"],
        "tags": [["h100", "keep"], None, []],
        "note": [None, "slow disk", None],
        "end_state": ["stopped", None, "crashed"],
        "state": ["stopped", "running", "crashed"],
        "hardware": [None, "H100", None],
        "tp": [8, None, 8],
        "dp": [1, None, 2],
        "max_running_requests": [2048, None, 48],
        "steady_tok_s": [900.0, None, 412.5],
        "decode_tok_s_at_1": [63.6, 82.5, 62.9],
        "accept_len": [None, None, 1.65],
        "n_faults": [0, 0, 2],
        "n_retractions": [0, 0, 5],
        "duration_s": [60.0, 10.0, 600.0],
        "archived": [False, False, True],
        "baseline": [True, False, False],
        "started_at": [None, None, None],
        "first_ts": [None, None, None],
    },
    schema_overrides={"started_at": pl.Datetime("us"), "first_ts": pl.Datetime("us")},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["aa11", "bb22", "cc33"]),
        ("MOE", ["aa11", "cc33"]),
        ("moe nightly", ["aa11"]),
        ("engine:vllm", ["bb22"]),
        ("engine:0.5.10", ["aa11"]),
        ("state:running", ["bb22"]),
        ("spec:none", ["aa11", "bb22"]),
        ("spec:eagle", ["cc33"]),
        ("tag:keep", ["aa11"]),
        ("keep", ["aa11"]),
        ("faults:>0", ["cc33"]),
        ("tp:8 -label:spec", ["aa11"]),
        ("cap:48", ["cc33"]),
        ("accept:1.65", ["cc33"]),
        ("steady:>=412.5", ["aa11", "cc33"]),
        ("is:baseline", ["aa11"]),
        ("-is:archived", ["aa11", "bb22"]),
        ('"nightly base"', ["aa11"]),
        ('note:"slow disk"', ["bb22"]),
        ("[try]", ["cc33"]),
        ("bb2", ["bb22"]),
        ("nothing:here", []),
    ],
)
def test_a_search_finds(text: str, expected: list[str]) -> None:
    found, complaints = search(RUNS, text)
    assert found["run_id"].to_list() == expected
    assert complaints == []


@pytest.mark.parametrize("text", ["faults:many", "is:nice"])
def test_a_term_that_means_nothing_is_told_and_left_out(text: str) -> None:
    found, complaints = search(RUNS, f"{text} moe")
    assert found["run_id"].to_list() == ["aa11", "cc33"]
    assert text in complaints[0]


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_no_text_breaks_it(text: str) -> None:
    search(RUNS, text)


@pytest.mark.parametrize("by", SORTS)
def test_every_order_keeps_every_run(by: str) -> None:
    assert sorted(ordered(RUNS, by)["run_id"]) == ["aa11", "bb22", "cc33"]


def test_what_is_not_known_comes_last() -> None:
    assert ordered(RUNS, "steady tok/s")["run_id"].to_list() == ["aa11", "cc33", "bb22"]
    assert ordered(RUNS, "label")["run_id"].to_list() == ["aa11", "cc33", "bb22"]


def test_every_key_is_documented() -> None:
    told = (Path(__file__).parents[1] / "docs" / "compare.md").read_text()
    for key in (*run_search._TEXTS, *run_search._NUMBERS, "is"):
        assert f"`{key}:`" in told
    assert all(f"is:{flag}" in told for flag in run_search._FLAGS)
