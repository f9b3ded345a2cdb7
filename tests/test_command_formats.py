"""Every command that prints data prints it as JSON too, and nothing else on standard output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import ROOT, run

LOG = ROOT / "data" / "samples" / "sglang-0.5.23-ngram" / "server.log"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("formats") / "s.duckdb"
    done = run("import", LOG.parent, "--label", "ngram", "--store", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["runs"],
        ["show", "ngram"],
        ["bench"],
        ["status"],
        ["findings", "ngram"],
        ["compare", "ngram", LOG],
        ["export", "runs"],
        ["export", "samples", "ngram"],
        ["export", "events"],
        ["export", "bench_results"],
        ["sql", "SELECT count(*) AS n FROM samples"],
    ],
    ids=lambda words: " ".join(map(str, words[:2])),
)
def test_answers_of_the_store_as_json(store: Path, words: list[str | Path]) -> None:
    done = run(*words, "--format", "json", "--store", store)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_answers_about_a_file_as_json() -> None:
    report = json.loads(run("doctor", LOG, "--format", "json").stdout)
    assert report
    lines = run("parse", LOG, "--format", "jsonl").stdout.splitlines()
    assert {json.loads(line)["record"] for line in lines} >= {"run", "sample", "event"}


def test_short_form_of_status(store: Path) -> None:
    short, long = (
        run("status", *form, "--store", store) for form in (["--json"], ["--format", "json"])
    )
    assert short.stdout == long.stdout


@pytest.mark.parametrize("command", ["show", "findings", "bench", "export runs", "compare"])
def test_a_run_that_is_not_there_prints_nothing_and_fails(store: Path, command: str) -> None:
    done = run(*command.split(), "nosuch", "--format", "json", "--store", store)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("servescope: ")
    assert done.stderr.count("\n") == 1
