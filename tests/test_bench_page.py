"""The Bench page: nothing is stored before it was shown; a watched folder is a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard import context
from data import bench
from data.store import Store
from ingest.bench_desk import BenchDesk
from ingest.bench_watch import BenchWatch
from ingest.imports import import_paths
from ingest.supervisor import Supervisor
from tests.pages import visit
from tests.server import DEADLINE_S, browser, served
from tests.waiting import until

CORPUS = Path(__file__).parent / "corpus" / "bench"
RUN = Path(__file__).parents[1] / "data" / "samples" / "vllm-0.32.0-base"

# How far the texts of each chart reach beyond its right end, in pixels.
BEYOND = """() => [...document.querySelectorAll("[data-testid=stVegaLiteChart]")].map((chart) => {
  const right = (element) => element.getBoundingClientRect().right;
  return Math.max(...[...chart.querySelectorAll("svg text")].map(right)) - right(chart);
})"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.duckdb") as opened:
        yield opened
    st.cache_resource.clear()


def shown(store: Store, watch: BenchWatch | None = None) -> AppTest:
    desk = BenchDesk(store, watch)
    context.enter(context.Context(store, Supervisor(store, []), desk))
    test = visit("bench").run()
    assert not test.exception
    return test


def drop(test: AppTest, *names: str) -> AppTest:
    files = [(name, (CORPUS / name).read_bytes(), "text/plain") for name in names]
    test.file_uploader[0].set_value(files).run()
    assert not test.exception
    return test


def stored(store: Store) -> int:
    with store.cursor() as con:
        return bench.points(con).height


def texts(test: AppTest) -> str:
    said = [*test.markdown, *test.caption, *test.text, *test.error, *test.warning]
    return "\n".join(str(element.value) for element in said).replace("\\", "")


def test_an_empty_page_says_how_to_begin(store: Store) -> None:
    test = shown(store)
    assert test.subheader[0].value == "No benchmark results yet."
    assert "servescope import" in test.info[0].value


def test_a_dropped_file_is_shown_then_saved(store: Store) -> None:
    test = drop(shown(store), "vllm-inside-server-log.txt", "sweep.tsv")
    said = texts(test)
    assert "vllm-inside-server-log.txt: vllm bench serve, text, 1 point" in said
    assert "sweep.tsv: table made by hand, 2 points" in said
    assert "2 of 32 requests failed (6%)" in said
    assert stored(store) == 0
    test.text_input(key="bench_label").set_value("mine").run()
    test.button(key="bench_save").click().run()
    assert not test.exception
    assert stored(store) == 3
    assert test.success[0].value == "3 points saved."
    assert "3 benchmark points of 1 set-up" in test.subheader[0].value.replace("\\", "")
    test = drop(test, "sweep.tsv")
    assert "2 points, 2 of them stored already" in texts(test)
    assert "Nothing here is new." in texts(test)


def test_a_damaged_file_is_one_line_and_a_column_is_named_once(
    store: Store, tmp_path: Path
) -> None:
    test = shown(store)
    table = b"| Setup | speed |\n|---|---|\n| a | 12.5 |\n"
    cut = (CORPUS / "inference-perf.json").read_bytes()[:300]
    files = [("t.md", table, "text/plain"), ("cut.json", cut, "text/plain")]
    test.file_uploader[0].set_value(files).run()
    assert "cut.json: is cut off at line 1" in texts(test)
    assert "t.md: table made by hand, no points" in texts(test)
    test.selectbox(key="meaning_t.md_speed").select("output_tok_s").run()
    test.button(key="set_t.md_speed").click().run()
    assert "t.md: table made by hand, 1 point" in texts(test)
    with store.cursor() as con:
        assert bench.maps(con) == {"speed": ("output_tok_s", None)}
    assert stored(store) == 0


def test_points_of_real_servers_are_drawn_with_their_join(store: Store) -> None:
    import_paths(store, [str(RUN)])
    test = shown(store)
    assert "3 benchmark points of 1 set-up" in test.subheader[0].value.replace("\\", "")
    table = test.dataframe[0].value
    assert table["concurrency"].to_list() == [1.0, 4.0, 64.0]
    assert table["running"].notna().all()
    assert "Select a row" in texts(test)


def test_a_damaged_store_is_one_clear_line(store: Store) -> None:
    with store.cursor() as con:
        con.execute("DROP VIEW bench_points")
    assert shown(store).error[0].value.startswith("The store could not be read:")


def test_a_watched_folder_brings_results_in(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    with BenchWatch(store, [str(folder)], every_s=0.02) as watch:
        half = (CORPUS / "sglang-serving.jsonl").read_bytes().split(b"\n")[0] + b"\n"
        (folder / "a.jsonl").write_bytes(half)
        until(lambda: stored(store) == 1, DEADLINE_S, "the first result is stored")
        (folder / "a.jsonl").write_bytes((CORPUS / "sglang-serving.jsonl").read_bytes())
        until(lambda: stored(store) == 2, DEADLINE_S, "the grown file adds one")
        (folder / "other.json").write_text("{}")
        (folder / "cut.json").write_bytes((CORPUS / "inference-perf.json").read_bytes()[:200])
        until(lambda: "cut.json" in watch.lines()[0], DEADLINE_S, "the damaged file is told")
        assert "is cut off at line 1" in watch.lines()[0]
        test = shown(store, watch)
        assert str(folder) in texts(test)
    assert stored(store) == 2


def test_a_folder_that_is_not_there_is_told(store: Store, tmp_path: Path) -> None:
    watch = BenchWatch(store, [str(tmp_path / "nowhere")])
    watch.look()
    assert watch.lines() == [f"{tmp_path / 'nowhere'}: cannot be read (No such file or directory)"]


@pytest.mark.timeout(600)
def test_the_page_opens_at_its_own_address(tmp_path: Path) -> None:
    place = str(tmp_path / "s.duckdb")
    with Store.open(place) as opened:
        import_paths(opened, [str(RUN)])
    with served("up", "--store", place) as url, browser() as chromium:
        page = chromium.new_page()
        page.goto(f"{url}/bench")  # the very first page that anybody asks for
        page.get_by_text("3 benchmark points of 1 set-up").wait_for(timeout=90_000)
        page.get_by_test_id("stVegaLiteChart").nth(3).wait_for(timeout=90_000)
        page.locator("[data-testid=stVegaLiteChart] svg").nth(3).wait_for(timeout=90_000)
        beyond = page.evaluate(BEYOND)
        assert len(beyond) == 4
        assert max(beyond) <= 0  # no label is cut at the right end of its axis
        page.close()


def point_of(store: Store, concurrency: int) -> dict[str, Any]:
    with store.cursor() as con:
        points = bench.points(con)
    return points.filter(points["concurrency"] == concurrency).row(0, named=True)


def two_runs(store: Store) -> str:
    """A run with its benchmark, and another run: its id."""
    import_paths(store, [str(RUN)])
    log = RUN.parent / "sglang-0.5.23-base" / "server.log"
    return import_paths(store, [str(log)]).run_ids[0]


def test_a_point_is_given_to_a_run_by_hand(store: Store) -> None:
    other = two_runs(store)
    before = point_of(store, 4)
    assert before["run_id"] not in (None, other)
    assert BenchDesk(store).join_to(before["bench_id"], other) == 1
    assert point_of(store, 4)["run_id"] == other


def test_the_page_asks_which_run_served_a_point(store: Store) -> None:
    other = two_runs(store)

    def one_point() -> None:
        from dashboard.context import current
        from dashboard.pages.bench import _run_of
        from data import bench as points

        with current().store.cursor() as con:
            row = points.points(con).sort("concurrency").row(0, named=True)
        _run_of(row)

    context.enter(context.Context(store, Supervisor(store, []), BenchDesk(store)))
    test = AppTest.from_function(one_point, default_timeout=60).run()
    assert not test.exception
    (asked,) = test.selectbox
    assert asked.value == point_of(store, 1)["run_id"] != other
    asked.set_value(other).run()
    assert point_of(store, 1)["run_id"] == other
