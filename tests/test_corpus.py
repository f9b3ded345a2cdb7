"""The pipeline against the corpus: every printed field of every sample, whatever the wrapping.

Beside each log stands NAME.expected.json with its samples in file order: the columns of the
contract as a reader of the line would fill them in. A printed column that is not listed there
must be missing.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.pipeline import Pipeline, SourceInfo
from tests.check_samples import same_value

CORPUS = Path(__file__).parent / "corpus"
LOGS = sorted(CORPUS.rglob("*.log"))
# The time of the files, from which stamps without a year get theirs; a few have their own.
FILE_TIME = "2026-12-20T12:00:00"

# Columns that a line prints as they are; the others are derived and only checked where listed.
PRINTED = {
    "dp_rank",
    "tp_rank",
    "pp_rank",
    "ep_rank",
    "engine_index",
    "running_reqs",
    "queued_reqs",
    "kv_tokens",
    "kv_usage",
    "gen_tok_s",
    "prompt_tok_s",
    "accept_rate_raw",
    "accept_per_position",
    "new_seqs",
    "new_tokens",
    "cached_tokens",
    "graph_on",
    "retracted_reqs",
    "preemptions",
}


def expected(log: Path) -> dict[str, Any]:
    """What stands beside a log."""
    found: dict[str, Any] = json.loads(log.with_suffix(".expected.json").read_text("utf-8"))
    return found


def parse(blocks: list[bytes], file_time: str) -> list[dict[str, Any]]:
    """The samples of a file that arrives in these blocks, with a restart before each of them."""
    source = SourceInfo("corpus", clock_hint=datetime.fromisoformat(file_time))
    state, frames = None, []
    for block in blocks:
        pipeline = Pipeline.resume(source, "file", state)
        frames.append(pipeline.feed(block).samples)
        state = pipeline.state
    frames.append(Pipeline.resume(source, "file", state).finish().samples)
    samples: list[dict[str, Any]] = pl.concat(frames).sort("byte_offset").to_dicts()
    return samples


def differences(want: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """Columns in which a sample differs from what its line says."""
    columns = {**dict.fromkeys(PRINTED), **want}
    extra = columns.pop("extra", {})
    if "ts" in columns:
        columns["ts"] = datetime.fromisoformat(columns["ts"])
    kept = json.loads(got["extra"] or "{}")
    lines = [
        f"{name}: expected {value!r}, got {got[name]!r}"
        for name, value in columns.items()
        if got[name] != value and not same_value(got[name], value)
    ]
    return lines + [
        f"extra {label!r}: expected {value!r}, got {kept.get(label)!r}"
        for label, value in extra.items()
        if not same_value(kept.get(label), value)
    ]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: str(log.relative_to(CORPUS).with_suffix("")))
def test_every_sample_of_the_corpus(log: Path) -> None:
    answers = expected(log)
    got = parse([log.read_bytes()], answers.get("clock_hint", FILE_TIME))
    places = [(sample["line_no"], sample["kind"]) for sample in got]
    assert places == [(want["line_no"], want["kind"]) for want in answers["samples"]]
    assert len({sample["byte_offset"] for sample in got}) == len(got)
    wrong = {
        want["line_no"]: lines
        for want, sample in zip(answers["samples"], got, strict=True)
        if (lines := differences(want, sample))
    }
    assert wrong == {}


@pytest.mark.parametrize("log", LOGS, ids=lambda log: str(log.relative_to(CORPUS).with_suffix("")))
def test_a_restart_after_every_line_gives_the_same_samples(log: Path) -> None:
    data, file_time = log.read_bytes(), expected(log).get("clock_hint", FILE_TIME)
    whole, apart = parse([data], file_time), parse(re.findall(rb"[^\n]*\n", data), file_time)
    # A second that is still open when its line comes alone gets its length afterwards.
    for row in [*whole, *apart]:
        del row["interval_s"]
    assert apart == whole


def test_every_log_of_the_corpus_has_its_answers() -> None:
    answers = {path.with_suffix("").with_suffix("") for path in CORPUS.rglob("*.expected.json")}
    assert {log.with_suffix("") for log in LOGS} == answers
    assert len(LOGS) >= 30
