"""What a page redraws, and when: only its own run's changes, and long spans less often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from dashboard import figure_block, live_state
from dashboard import picture as room
from dashboard.context import Context
from dashboard.picture import picture
from data import bench
from data.fold import fold
from data.store import Store
from ingest.supervisor import Supervisor
from parsers import records
from tests.frames import at, decode, events, facts, samples

HOURS = 3600


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    with Store.open(tmp_path / "store.duckdb") as store:
        for run_id in ("r1", "r2"):
            run = {"seq": 1, "run_id": run_id, "source_id": "s", "started_at": at(0)}
            store.append(facts(run), None)
        yield Context(store, Supervisor(store, []))
    st.cache_resource.clear()
    room._drawn.clear()
    room._changes.clear()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the room, to be moved by the test."""
    now = [1000.0]
    monkeypatch.setattr("dashboard.picture.monotonic", lambda: now[0])
    return now


def throughput(shown: room.Picture) -> list[float]:
    return [row["gen_tok_s"] for row in shown.figures[0].spec["datasets"]["rows"]]


def test_a_run_without_samples_has_its_empty_charts(context: Context) -> None:
    shown = picture(context, "r1", "15 min")
    assert shown.tiles is None
    assert [figure.key for figure in shown.figures] == [
        "gen_tok_s", "running_reqs", "queued_reqs", "kv_usage",
    ]  # fmt: skip


def test_a_crash_is_known_by_the_first_event_of_its_last_incident(context: Context) -> None:
    rows = [(1, "r1-1", "first"), (2, "r1-2", "cause"), (3, "r1-2", "effect")]
    for second, incident, title in rows:
        event = {
            "run_id": "r1", "byte_offset": second, "ts": at(second), "severity": "fault",
            "title": title, "detail": "why", "incident_id": incident,
        }  # fmt: skip
        context.store.append(events(event), None)
    card = picture(context, "r1", "15 min").card
    assert card["fault"] == {"title": "cause", "detail": "why"}


def test_another_runs_lines_redraw_nothing(context: Context) -> None:
    context.store.append(samples([decode(1), decode(2)]), None)
    before = picture(context, "r1", "15 min")
    context.store.append(samples([decode(3, run_id="r2")]), None)
    after = picture(context, "r1", "15 min")
    assert after.figures is before.figures
    assert after.tiles is before.tiles


def test_its_own_lines_are_drawn(context: Context, clock: list[float]) -> None:
    context.store.append(samples([decode(1), decode(2)]), None)
    assert set(throughput(picture(context, "r1", "15 min"))) == {100.0}
    context.store.append(samples([decode(3, gen_tok_s=700.0), decode(4, gen_tok_s=700.0)]), None)
    clock[0] += 1
    shown = picture(context, "r1", "15 min")
    assert throughput(shown)[-1] == 700.0
    assert shown.tiles is not None
    assert shown.tiles.gen_tok_s == 700.0


def test_folding_the_store_hides_no_later_line(context: Context, clock: list[float]) -> None:
    context.store.append(samples([decode(1)]), None)
    picture(context, "r1", "15 min")
    context.store.append(samples([decode(2)]), None)
    picture(context, "r1", "15 min")
    with context.store.cursor() as con:
        fold(con)
    context.store.append(samples([decode(3, gen_tok_s=700.0)]), None)
    clock[0] += 1
    shown = picture(context, "r1", "15 min")
    assert shown.tiles is not None
    assert shown.tiles.gen_tok_s == 700.0
    assert throughput(shown)[-1] > 100.0


def test_a_long_span_is_drawn_less_often_than_its_tiles(
    context: Context, clock: list[float]
) -> None:
    context.store.append(samples([decode(1), decode(50 * HOURS)]), None)
    before = picture(context, "r1", "whole run")
    context.store.append(samples([decode(50 * HOURS + 1, gen_tok_s=700.0)]), None)
    clock[0] += 9
    shown = picture(context, "r1", "whole run")
    assert shown.figures is before.figures
    assert shown.tiles is not None
    assert shown.tiles.gen_tok_s == 700.0
    clock[0] += 1
    assert picture(context, "r1", "whole run").figures is not before.figures


def test_a_series_never_has_more_than_300_points(context: Context) -> None:
    context.store.append(samples([decode(second) for second in range(1, 2001)]), None)
    for window in room.WINDOWS:
        for figure in picture(context, "r1", window).figures:
            assert len(figure.spec["datasets"]["rows"]) <= 300


def test_the_browser_gets_the_rows_of_a_chart(context: Context) -> None:
    context.store.append(samples([decode(1), decode(2, gen_tok_s=101.5), decode(60)]), None)
    for figure in picture(context, "r1", "15 min").figures:
        framed = figure_block._framed(figure.spec)["datasets"]
        assert {name: rows.to_dicts() for name, rows in framed.items()} == figure.spec["datasets"]
        assert framed.keys() == {"ends", "rows", "marks", "caps", "bands", "at"}


def test_benchmark_points_are_seen_as_soon_as_they_are_joined(
    context: Context, clock: list[float]
) -> None:
    context.store.append(samples([decode(second) for second in range(1, 101)]), None)
    assert picture(context, "r1", "15 min").bench is None
    result = {"seq": 1, "bench_id": "b1", "tool": "sglang", "concurrency": 4}
    window = {"bench_id": "b1", "run_id": "r1", "started_at": at(10), "ended_at": at(50)}
    with context.store.cursor() as con:
        for table, schema, row in (
            ("bench_results", records.BENCH_RESULTS | {"seq": records.RUN_FACTS["seq"]}, result),
            ("bench_windows", records.BENCH_WINDOWS, window | {"at": at(200)}),
        ):
            bench.insert(con, table, records.frame([row], schema))
    context.store.append(samples([decode(101)]), None)
    clock[0] += 60
    told = picture(context, "r1", "15 min").bench
    assert told is not None
    assert told.startswith("Benchmark points in grey")


def test_a_new_run_can_be_chosen_at_once(context: Context) -> None:
    assert live_state.choices(context).keys() == {"r1", "r2"}
    context.store.append(samples([decode(1)]), None)
    assert live_state.choices(context).keys() == {"r1", "r2"}
    run = {"seq": 1, "run_id": "r3", "source_id": "s", "started_at": at(9), "label": "third"}
    context.store.append(facts(run), None)
    assert live_state.choices(context)["r3"].startswith("third")
    context.store.append(facts(run | {"seq": 2, "label": "renamed"}), None)
    assert live_state.choices(context)["r3"].startswith("renamed")
