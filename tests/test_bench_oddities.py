"""What is said about a doubtful point, and that a sound one is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from parsers.bench import oddities
from parsers.bench.points import Point

SOUND: Point = {
    "tool": "vllm bench serve", "completed": 100, "failed": 0, "num_prompts": 100,
    "concurrency": 8.0, "duration_s": 50.0, "dataset": "sharegpt", "output_tokens": 20000,
    "output_tok_s": 400.0, "peak_output_tok_s": 520.0, "ttft_ms_mean": 150.0,
    "ttft_ms_median": 120.0, "tpot_ms_mean": 18.0, "tpot_ms_median": 17.5, "itl_ms_median": 17.0,
    "e2e_ms_mean": 3700.0, "e2e_ms_median": 3600.0, "accept_len": 1.8,
}  # fmt: skip


def said(changes: dict[str, Any], extra: dict[str, Any] | None = None) -> list[str]:
    point = {**SOUND, **changes, "extra": dict(extra or {})}
    oddities.mark([point])
    held: list[str] = point["extra"].get("oddities", [])
    return held


def test_only_numbers_that_cannot_be_are_called_impossible() -> None:
    point = {**SOUND, "failed": 3, "ttft_ms_median": 3601.5, "extra": {}}
    oddities.mark([point])
    assert len(point["extra"]["oddities"]) == 2
    assert [line[:15] for line in point["extra"]["impossible"]] == ["The median TTFT"]


def test_a_sound_point_is_left_alone() -> None:
    retokenized = {"total_output_tokens_retokenized": 19990, "max_concurrent_requests": 8}
    assert said({}, retokenized) == []


@pytest.mark.parametrize(
    ("changes", "extra", "words"),
    [
        ({"failed": 25, "completed": 75}, {}, "25 of 100 requests failed (25%)"),
        ({"failed": 100, "completed": 0}, {}, "No request of 100 succeeded"),
        ({"failed": None, "completed": 0}, {}, "No request was completed"),
        ({"completed": 61, "failed": None}, {}, "61 of 100 prompts were completed"),
        ({"peak_output_tok_s": 310.0}, {}, "The peak (310 tok/s) is below the mean (400 tok/s)"),
        ({"tpot_ms_median": -0.0}, {}, "The median TPOT is negative (-0.00 ms)"),
        ({"tpot_ms_mean": -3.5}, {}, "The mean TPOT is negative (-3.50 ms)"),
        ({"ttft_ms_median": 3601.5}, {}, "The median TTFT (3,601.50 ms) is above the median E2E"),
        ({"itl_ms_median": 0.02}, {}, "near zero: speculation sends several tokens at once. Use"),
        ({"itl_ms_median": 0.02, "accept_len": None}, {}, "near zero: the stream sends several"),
        ({}, {"Peak concurrent requests": 11}, "The peak of 11 concurrent requests is above the"),
        ({}, {"total_output_tokens_retokenized": 9000}, "Tokenized again the answers have 9,000"),
        ({"dataset": "random-ids"}, {}, "Acceptance on random prompts (1.80)"),
        ({"e2e_ms_mean": 3.7, "ttft_ms_mean": 0.15, "ttft_ms_median": 0.12, "e2e_ms_median": 3.6},
         {}, "An E2E latency of 3.7 ms cannot fill 50 s with 100 requests: it looks like seconds"),
        ({"tpot_ms_median": 0.018, "itl_ms_median": 0.018, "tpot_ms_mean": 0.018}, {},
         "A TPOT of 0.018 ms is too short: it looks like seconds."),
    ],
)  # fmt: skip
def test_a_doubtful_point_is_explained(
    changes: dict[str, Any], extra: dict[str, Any], words: str
) -> None:
    found = said(changes, extra)
    assert len(found) == 1, found
    assert words in found[0]
