"""What the user says of a run: rows are only added, the latest stands, also after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from data import notes, queries
from data.notes import Note
from data.store import Store
from ingest.importer import import_logs
from tests.postgres import OpenStore

SAMPLES = Path(__file__).parents[1] / "data" / "samples"


@pytest.fixture
def store(open_store: OpenStore) -> Iterator[Store]:
    with open_store() as opened:
        logs = [
            str(SAMPLES / name / "server.log") for name in ("vllm-0.32.0-base", "vllm-0.32.0-ngram")
        ]
        import_logs(opened, logs, label="from the source")
        yield opened


def ids(store: Store) -> list[str]:
    with store.cursor() as con:
        return queries.runs_named(con)["run_id"].to_list()


def card(store: Store, run_id: str) -> dict[str, object]:
    with store.cursor() as con:
        found = queries.run_card(con, run_id)
    assert found is not None
    return found


def rows(store: Store) -> int:
    with store.cursor() as con:
        (count,) = con.execute("SELECT count(*) FROM run_notes").fetchone() or (0,)
    return int(count)


def test_label_tags_and_note_are_kept(store: Store) -> None:
    run_id, other = ids(store)
    notes.describe(store, run_id, " nightly ", ["a", "", "b ", "a"], "two\nlines")
    found = card(store, run_id)
    assert (found["label"], found["tags"], found["note"]) == ("nightly", ["a", "b"], "two\nlines")
    assert card(store, other)["label"] == "from the source"
    notes.describe(store, run_id, "", [], "")
    found = card(store, run_id)
    assert (found["label"], found["tags"], found["note"]) == ("from the source", [], None)
    assert rows(store) == 2


def test_what_says_nothing_new_is_not_stored(store: Store) -> None:
    run_id, _ = ids(store)
    notes.describe(store, run_id, "x", ["a"], "")
    revision = store.revision
    notes.describe(store, run_id, "x", ["a"], " ")
    notes.archive(store, [run_id], archived=False)
    assert rows(store) == 1
    assert store.revision == revision


def test_archiving_keeps_all_else(store: Store) -> None:
    run_id, other = ids(store)
    notes.describe(store, run_id, "x", ["a"], "note")
    notes.archive(store, [run_id, other], archived=True)
    found = card(store, run_id)
    assert (found["archived"], found["label"], found["tags"]) == (True, "x", ["a"])
    assert card(store, other)["archived"]
    notes.archive(store, [run_id], archived=False)
    assert not card(store, run_id)["archived"]


def test_a_model_has_one_baseline(store: Store) -> None:
    first, second = ids(store)
    notes.use_as_baseline(store, first)
    with store.cursor() as con:
        assert queries.compared_with(con, second) == first
        assert queries.compared_with(con, first) is None
    notes.use_as_baseline(store, second)
    with store.cursor() as con:
        assert queries.baseline_runs(con) == [second]
    notes.use_as_baseline(store, second, baseline=False)
    with store.cursor() as con:
        assert queries.baseline_runs(con) == []


def test_notes_outlive_a_restart(open_store: OpenStore) -> None:
    with open_store() as opened:
        import_logs(opened, [str(SAMPLES / "vllm-0.32.0-base" / "server.log")])
        (run_id,) = ids(opened)
        notes.describe(opened, run_id, "kept", ["t"], "n")
        notes.use_as_baseline(opened, run_id)
    with open_store() as opened, opened.cursor() as con:
        assert notes.note_of(con, run_id) == Note("kept", ("t",), "n", False, True)
