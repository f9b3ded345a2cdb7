"""A run of too many samples is analysed in pieces: every total and every weighted figure stays."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from data import long_run, run_data
from data.store import Store
from parsers import records
from tests.frames import Frames, at, facts, samples
from tests.postgres import OpenStore
from tests.test_retention import busy, figures


@pytest.fixture
def store(open_store: OpenStore) -> Iterator[Store]:
    with open_store() as opened:
        yield opened


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are too many at once, also for one question."""
    monkeypatch.setattr(long_run, "MOST", 10)
    monkeypatch.setattr(long_run, "_AT_ONCE", 200)


def test_logs_of_real_servers_give_the_same_figures(
    small: Store, request: pytest.FixtureRequest
) -> None:
    store = small
    with store.cursor() as con:
        run_ids = [run_id for (run_id,) in con.execute("SELECT run_id FROM runs").fetchall()]
        whole = {run_id: run_data.load(con, run_id).samples.height for run_id in run_ids}
    before = {run_id: figures(store, run_id) for run_id in run_ids}
    request.getfixturevalue("few")
    for run_id in run_ids:
        assert figures(store, run_id) == pytest.approx(before[run_id], rel=1e-9)
    with store.cursor() as con:
        found = {run_id: run_data.load(con, run_id).samples.height for run_id in run_ids}
    assert 3 * sum(found.values()) < sum(whole.values()) == 434


def test_a_run_that_goes_on_has_its_last_lines_too(
    store: Store, request: pytest.FixtureRequest
) -> None:
    rows = busy(400)
    late = [
        {"run_id": "r1", "file_id": "f", "byte_offset": 1000 * second, "interval_s": 1.5}
        for second in (100, 400)
    ]
    store.append(facts({"seq": 1, "run_id": "r1", "dp": 2}), None)
    store.append(samples([row | {"ts": None, "byte_offset": 1} for row in rows[:1]]), None)
    both = Frames(
        samples=records.frame(rows, records.SAMPLES),
        intervals=records.frame(late, records.INTERVALS),
    )
    store.append(both, None)
    before = figures(store, "r1")
    request.getfixturevalue("few")
    with store.cursor() as con:
        seconds = long_run.piece_s(con, "r1")
        assert seconds == 60
        spans = list(long_run._spans(con, "r1", seconds))
        run = run_data.load(con, "r1")
    assert figures(store, "r1") == pytest.approx(before, rel=1e-9)
    assert run.samples["ts"].max() == at(400)
    assert run.samples["ts"].null_count() == 1
    assert [until for _, until in spans[:-1]] == [start for start, _ in spans[1:]]
    assert spans[-1][1] - spans[0][0] == timedelta(seconds=420)
    assert run.samples.height < len(rows) / 2
