"""Every form of line of every release, field by field, alone and in numbers."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from ingest.pipeline import Pipeline
from parsers import forms
from tests import formats_doc
from tests.formats_corpus import Entry, become, entries
from tests.logs import SOURCE, one

ENTRIES = list(entries())
IDS = [f"{e.engine}-{e.kind}-{i}" for i, e in enumerate(ENTRIES)]


@pytest.mark.parametrize("entry", ENTRIES, ids=IDS)
def test_a_line_of_the_corpus_becomes_what_it_says(entry: Entry) -> None:
    assert become(entry.line) == entry.expect


@pytest.mark.parametrize("fewest", [1, forms.FEWEST])
@pytest.mark.parametrize("kind", ["decode", "prefill", "stats", "spec"])
def test_a_learnt_form_reads_what_the_line_alone_gives(
    kind: str, fewest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second one on, lines of a form are read all at once, many of them by their bytes."""
    monkeypatch.setattr(forms, "FEWEST", fewest)
    for entry in ENTRIES:
        # V0 counts since the start: a second line like the first says that nothing happened.
        if entry.kind == kind and "Speculative metrics" not in entry.line:
            assert become(entry.line, times=3).get("samples") == entry.expect.get("samples")


def test_no_line_of_the_corpus_is_unknown_or_damaged() -> None:
    pipeline = Pipeline(SOURCE, "file")
    text = "".join(f"{entry.line}\n" for entry in ENTRIES)
    log = one([pipeline.feed(text.encode()), pipeline.finish()]).ingest_log
    assert log.select("kind", "shape").rows() == []


def test_no_text_of_a_request_is_kept() -> None:
    quoted = [e for e in ENTRIES if "quinoa" in e.line]
    assert len(quoted) >= 4
    for entry in quoted:
        pipeline = Pipeline(SOURCE, "file")
        batch = one([pipeline.feed(entry.line.encode() + b"\n"), pipeline.finish()])
        for name in type(batch).__dataclass_fields__:
            assert "quinoa" not in getattr(batch, name).write_json()


def test_the_corpus_covers_both_engines() -> None:
    kinds = Counter((entry.engine, entry.kind) for entry in ENTRIES)
    assert kinds["sglang", "decode"] > 100
    assert kinds["sglang", "prefill"] > 60
    assert kinds["vllm", "stats"] > 60
    assert kinds["vllm", "spec"] > 25
    assert {kind for _, kind in kinds} >= {"startup", "config", "server_args", "request", "fault"}
    assert json.dumps([entry.expect for entry in ENTRIES])


def test_the_page_of_formats_is_the_generated_one() -> None:
    assert formats_doc.PAGE.read_text("utf-8") == formats_doc.text(), (
        "run: python -m tests.formats_doc"
    )
