"""The bundled logs of real servers: counts, first and last sample, run card, runs and faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.check_samples import ASPECTS, differences, parse_in_process

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"
EXPECTED = [
    json.loads(line)
    for line in Path(__file__).with_name("samples.expected.jsonl").read_text().splitlines()
]


def test_every_bundled_log_has_its_answers() -> None:
    bundled = {str(log.relative_to(SAMPLES)) for log in SAMPLES.rglob("*.log")}
    assert {want["file"] for want in EXPECTED} == bundled


@pytest.mark.parametrize("want", EXPECTED, ids=lambda want: str(want["file"]))
def test_bundled_log(want: dict[str, Any]) -> None:
    log = SAMPLES / want["file"]
    got = parse_in_process(log)
    assert list(differences(want, got, log.read_text(), list(ASPECTS))) == []


@pytest.mark.parametrize(
    ("aspect", "wrong"),
    [
        ("counts", {"n_spec": 12}),
        ("samples", {"last": {"line": 301, "kind": "stats", "ts": "14:58:42", "fields": {}}}),
        ("samples", {"first_spec": {"line": 110, "kind": "spec", "ts": None,
                                    "fields": {"Per-position acceptance rate": [0.226]}}}),
        ("card", {"run_card": {"version": "0.32"}}),
        ("faults", {"n_faults": 1}),
        ("runs", {"n_runs": 2}),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_noticed(aspect: str, wrong: dict[str, Any]) -> None:
    want = next(want for want in EXPECTED if want["file"] == "vllm-0.32.0-ngram/server.log")
    log = SAMPLES / want["file"]
    lines = list(differences({**want, **wrong}, parse_in_process(log), log.read_text(), [aspect]))
    assert [line.split(":")[0] for line in lines] == [aspect]
