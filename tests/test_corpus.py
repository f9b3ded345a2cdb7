"""The pipeline against the corpus: every printed field of every sample, whatever the wrapping.

Beside each log stands NAME.expected.json with its samples in file order: the columns of the
contract as a reader of the line would fill them in. A printed column that is not listed there
must be missing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingest.pipeline import Pipeline, SourceInfo
from tests.check_samples import same_value

CORPUS = Path(__file__).parent / "corpus"
LOGS = sorted(CORPUS.rglob("*.log"))
YEAR = 2026  # of the corpus's stamps without a year, as the file's time would tell

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


def parse(blocks: list[bytes]) -> list[dict[str, Any]]:
    """The samples of a file that arrives in these blocks."""
    pipeline = Pipeline(SourceInfo(source_id="corpus", year_hint=YEAR), file_id="file")
    frames = [pipeline.feed(block).samples for block in blocks]
    frames.append(pipeline.finish().samples)
    samples: list[dict[str, Any]] = pl.concat(frames).sort("byte_offset").to_dicts()
    return samples


def differences(want: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """Columns in which a sample differs from what its line says."""
    columns = {**dict.fromkeys(PRINTED), **want}
    extra = columns.pop("extra", {})
    found = {**got, "ts": str(got["ts"])[:23]}
    kept = json.loads(got["extra"] or "{}")
    lines = [
        f"{name}: expected {value!r}, got {found[name]!r}"
        for name, value in columns.items()
        if not _same(found[name], value)
    ]
    return lines + [
        f"extra {label!r}: expected {value!r}, got {kept.get(label)!r}"
        for label, value in extra.items()
        if not same_value(kept.get(label), value)
    ]


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, str):
        # Stamps: str() of a time shows six digits behind the second, or none.
        return bool(found == expected)
    return same_value(found, expected)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: str(log.relative_to(CORPUS).with_suffix("")))
def test_every_sample_of_the_corpus(log: Path) -> None:
    expected = json.loads(log.with_suffix(".expected.json").read_text(encoding="utf-8"))["samples"]
    got = parse([log.read_bytes()])
    places = [(sample["line_no"], sample["kind"]) for sample in got]
    assert places == [(want["line_no"], want["kind"]) for want in expected]
    wrong = {
        want["line_no"]: lines
        for want, sample in zip(expected, got, strict=True)
        if (lines := differences(want, sample))
    }
    assert not wrong


@pytest.mark.parametrize("log", LOGS, ids=lambda log: str(log.relative_to(CORPUS).with_suffix("")))
def test_line_by_line_gives_the_same_samples(log: Path) -> None:
    data = log.read_bytes()
    whole, apart = parse([data]), parse(data.splitlines(keepends=True))
    # A window that ends in the second of the last line is closed later when lines come singly.
    late = {"interval_s"}
    assert [{k: v for k, v in row.items() if k not in late} for row in apart] == [
        {k: v for k, v in row.items() if k not in late} for row in whole
    ]


def test_the_corpus_is_complete() -> None:
    expected = {path.name for path in CORPUS.rglob("*.expected.json")}
    assert {log.with_suffix(".expected.json").name for log in LOGS} == expected
    assert len(LOGS) >= 30
