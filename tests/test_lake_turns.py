"""Those who add to tables of a lake and those who delete from them leave each other their turn."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import duckdb
import pytest

from data import lake_session, patience
from data.lake_store import LakeStore
from data.retention import compact
from data.store import Store
from tests.frames import decode, samples
from tests.postgres import Postgres
from tests.test_lake import FIRST, count, mine
from tests.waiting import until


@pytest.fixture(scope="module")
def two(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Store, Store]]:
    """Two processes' stores in one lake, which tell soon what they wait for."""
    location = postgres.lake(tmp_path_factory.mktemp("lake"))
    with pytest.MonkeyPatch.context() as hasty:
        hasty.setattr(patience, "LONG_S", 0.2)
        hasty.setattr(patience, "LOOK_S", 0.02)
        with Store.open(location) as one, Store.open(location) as other:
            yield one, other


def test_what_is_deleted_is_so_while_others_append(two: tuple[Store, Store]) -> None:
    """To DuckLake an insert that was committed meanwhile is a conflict with any delete."""
    one, other = two
    one.append(samples(decode(second, run_id="rolled") for second in range(600)), None)
    over = threading.Event()

    def follow() -> int:
        seq = 0
        while not over.is_set():
            seq += 1
            step = replace(mine("busy", FIRST), seq=seq, after=seq - 1, byte_offset=seq)
            other.append(samples([decode(seq, run_id="busy")]), step)
        return seq

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        try:
            until(lambda: count(one, "busy") > 0, 60)
            assert compact(one, 1.0).lines >= 1
        finally:
            over.set()
        appended = following.result()
    assert count(one, "busy") >= 1
    with one.cursor() as con:
        rows = con.execute("SELECT n_decode FROM run_summary WHERE run_id = 'busy'").fetchall()
    assert rows == [(appended,)]


def test_who_waits_has_its_turn_between_deletions_and_is_told_for_whom(
    two: tuple[Store, Store], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = two
    begun, seen = threading.Event(), list[int]()
    told = rf"process {os.getpid()} on \S+ .*has been deleting what is rolled up for 0.2 s"

    def delete(con: duckdb.DuckDBPyConnection) -> bool:
        begun.set()
        seen.append(count(one, "turn"))
        until(lambda: re.search(told, caplog.text) is not None, 60)
        return False

    def delete_often() -> None:
        for _ in range(3):
            one.transact(delete, deletes=True)

    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(delete_often)
        assert begun.wait(60)
        other.append(samples([decode(1, run_id="turn")]), mine("turn", FIRST))
        deleting.result()
    assert seen == [0, 1, 1]
    assert other.overdue is None


def test_who_stands_still_in_its_turn_gives_it_up(
    two: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_session, "ADDING_S", 1)
    one, other = two
    assert isinstance(other, LakeStore)
    turns, begun, over = other._turns, threading.Event(), threading.Event()

    def stand_still() -> None:
        with turns._in_line():
            begun.set()
            assert over.wait(60)

    with ThreadPoolExecutor(1) as pool:
        standing = pool.submit(stand_still)
        try:
            assert begun.wait(60)
            one.transact(lambda con: False, deletes=True)
        finally:
            over.set()
        standing.result()
