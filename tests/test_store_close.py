"""A store is closed under nobody: who reads is waited for, who reads for long is ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

import duckdb
import pytest

from data import readers
from data.errors import StoreError
from data.store import Store
from tests.frames import at, decode, samples
from tests.postgres import OpenStore

_LONG = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range % 7 = b.range % 5"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "_PATIENCE_S", 0.2)


def started(read: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=read)
    thread.start()
    return thread


def until_refused(store: Store) -> None:
    while True:
        store.cursor().close()


def test_whoever_reads_is_waited_for(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "_PATIENCE_S", 60.0)  # a busy machine may take its time
    found: list[object] = []
    begun, go_on = threading.Event(), threading.Event()
    store = open_store()
    store.append(samples([decode(second) for second in (1, 2, 3)]), None)

    def read() -> None:
        with store.cursor() as con:
            begun.set()
            assert go_on.wait(30)
            found.append(con.execute("SELECT max(ts) FROM samples").fetchall())

    def close() -> None:
        store.close()
        found.append("closed")

    reader = started(read)
    assert begun.wait(30)
    closer = started(close)
    with pytest.raises(StoreError, match="is closed"):
        until_refused(store)
    go_on.set()
    reader.join(30)
    closer.join(30)
    assert found == [[(at(3),)], "closed"]


def test_a_question_without_end_is_ended(open_store: OpenStore) -> None:
    said: list[str] = []
    begun = threading.Event()

    def read(store: Store) -> None:
        with store.cursor() as con:
            begun.set()
            try:
                con.execute(_LONG)
            except (duckdb.Error, RuntimeError) as error:
                said.append(str(error))

    with open_store() as store:
        reader = started(lambda: read(store))
        assert begun.wait(30)
    reader.join(30)
    assert len(said) == 1
    assert "nterrupt" in said[0]


def test_what_the_closing_thread_holds_or_a_dead_one_left_is_not_waited_for(
    open_store: OpenStore,
) -> None:
    left: list[object] = []
    with open_store() as store:
        started(lambda: left.append(store.cursor())).join(30)
        left.append(store.cursor())
    assert len(left) == 2
