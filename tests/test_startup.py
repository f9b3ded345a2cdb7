"""Where the time of a start went: stages add up to the whole, each up to the line that ended it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest

from dashboard.charts.startup import startup_figure
from data import queries, startup
from data.store import Store
from ingest.importer import import_logs
from parsers import records
from tests.postgres import OpenStore

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
START = datetime(2026, 5, 4, 9, 0, 0)


def events(*rows: tuple[float, str, float | None]) -> pl.DataFrame:
    """Milestones: seconds after the start, title, seconds that the line names."""
    return records.frame(
        [
            {"ts": START + timedelta(seconds=at), "kind": "milestone", "title": title,
             "duration_s": lasted, "byte_offset": nth}
            for nth, (at, title, lasted) in enumerate(rows)
        ],
        records.EVENTS,
    )  # fmt: skip


def card(ready: float | None) -> dict[str, Any]:
    at = None if ready is None else START + timedelta(seconds=ready)
    return {"started_at": START, "ready_at": at}


def stages(found: pl.DataFrame) -> list[tuple[str, float]]:
    return [
        (stage, round(seconds, 2)) for stage, seconds in found.select("stage", "seconds").rows()
    ]


def test_stages_of_a_sglang_start() -> None:
    found = startup.waterfall(card(300), events(
        (12, "Connecting ranks", None), (20, "Ranks connected", None),
        (21, "Loading weights", None), (181, "Weights loaded", None),
        (183, "KV cache allocated", None), (184, "Memory pool ready", None),
        (190, "Capturing graphs", None), (285, "Graphs captured", None),
    ))  # fmt: skip
    assert stages(found) == [
        ("before connecting ranks", 12), ("connecting ranks", 8), ("before weights", 1),
        ("weights", 160), ("KV cache", 3), ("before graph capture", 6), ("graph capture", 95),
        ("until the ready line", 15),
    ]  # fmt: skip


def test_a_line_that_says_how_long_is_believed() -> None:
    found = startup.waterfall(card(90), events(
        (60, "Weights read", 45.5), (80, "Graphs captured", 100.0),
    ))  # fmt: skip
    assert stages(found) == [
        ("before weights", 14.5), ("weights", 45.5), ("graph capture", 20),
        ("until the ready line", 10),
    ]  # fmt: skip


def test_a_start_without_its_ends_has_no_stages() -> None:
    assert startup.waterfall(card(None), events((5, "Weights loaded", None))).is_empty()
    assert startup_figure(startup.waterfall(card(None), events()), "1") is None


def test_a_stage_is_slow_against_the_median_of_other_starts() -> None:
    usual = [
        startup.waterfall(card(60 + more), events((50 + more, "Weights loaded", None)))
        for more in (-10, 0, 10)
    ]
    slow = startup.waterfall(card(140), events((125, "Weights loaded", None)))
    assert startup.slow(slow, usual) == [
        "weights took 125 s, 2.5 times the median of 50 s over 3 other starts of this model"
    ]
    assert startup.slow(usual[2], usual) == []
    assert startup.slow(slow, usual[:1]) == []
    assert startup.slow(slow, []) == []


@pytest.fixture(scope="module")
def store(open_module_store: OpenStore) -> Iterator[Store]:
    with open_module_store() as opened:
        import_logs(opened, [str(path) for path in sorted(SAMPLES.glob("*/server.log"))])
        yield opened


def test_stages_of_real_starts_add_up(store: Store) -> None:
    with store.cursor() as con:
        for run in queries.runs_table(con).iter_rows(named=True):
            found = startup.waterfall(run, queries.events(con, run["run_id"]))
            assert found["seconds"].sum() == pytest.approx(run["ready_after_s"])
            others = startup.earlier(con, run)
            assert len(others) == {"sglang": 2, "vllm": 1}[run["engine"]]
            assert all(other["seconds"].sum() > 0 for other in others)
            assert found["start_s"].to_list()[1:] == found["end_s"].to_list()[:-1]
            figure = startup_figure(found, "3")
            assert figure is not None
            alt.LayerChart.from_dict(figure.spec)  # holds it against the schema
            assert "Start-up of" in figure.alt
            assert {row["slot"] for row in next(iter(figure.spec["datasets"].values()))} == {"3"}
