"""Runs kept in memory: read once, anew after a change, and never more than a bound of samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard import context, run_cache
from data import notes, queries
from data.run_data import RunData
from data.store import Store
from ingest.importer import import_logs
from ingest.supervisor import Supervisor
from tests.pages import SAMPLES


def test_runs_are_read_once_and_the_longest_unused_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cache, "_kept", {})
    with Store.open(tmp_path / "store.duckdb") as store:
        import_logs(store, [str(path) for path in sorted(SAMPLES.glob("*/server.log"))])
        here = context.Context(store, Supervisor(store, []))
        with store.cursor() as con:
            first, second, third = queries.runs_named(con)["run_id"].to_list()[:3]

        def get(run_id: str) -> RunData:
            return run_cache.loaded(here, run_id, run_cache.changes_of(here, run_id))

        one = get(first)
        assert get(first) is one
        notes.describe(store, first, "named", [], "")
        assert get(first) is not one
        assert get(first).name == "named"
        one = get(first)
        two = get(second)
        both = one.samples.height + two.samples.height
        monkeypatch.setattr(run_cache, "_MOST_SAMPLES", both)
        assert get(first) is one
        get(third)
        assert get(first) is one
        assert get(second) is not two
