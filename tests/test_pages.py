"""Every page on every kind of store: empty, small, being written, damaged."""

from __future__ import annotations

import re
from pathlib import Path

from streamlit.testing.v1 import AppTest

from dashboard import context, picture
from dashboard.app import FRAME
from data import queries
from data.store import Store
from ingest.config import SourceSpec
from ingest.supervisor import Supervisor
from tests.following import following
from tests.pages import SAMPLES, first_line, log_lines, shown
from tests.server import DEADLINE_S
from tests.waiting import until

LOG = SAMPLES / "sglang-0.5.23-ngram" / "server.log"


def test_an_empty_store_says_what_to_do(empty: Store) -> None:
    assert "servescope up" in shown("live", empty).info[0].value
    runs = shown("runs", empty)
    assert first_line(runs) == "No runs yet."
    assert "servescope import" in runs.info[0].value


def test_a_source_without_lines_is_named(empty: Store, tmp_path: Path) -> None:
    supervisor = Supervisor(empty, [SourceSpec(str(tmp_path / "server.log"))])
    test = shown("live", empty, supervisor=supervisor)
    assert "No server start has been seen yet" in test.info[0].value
    assert str(tmp_path / "server.log") in test.text[0].value


def test_live_shows_the_newest_run_of_a_small_store(small: Store) -> None:
    test = shown("live", small)
    assert re.match(r"The log ends at (2026-11-29 )?15:24:44 after", first_line(test))
    assert [tile.label for tile in test.metric] == [
        "Generation, tok/s", "Running, requests", "Queue, requests", "Accept length, tok",
        "KV use",
    ]  # fmt: skip
    assert test.metric[0].value == "ended"
    assert test.metric[1].value == "3 of 1,300"
    assert not test.error


def test_live_shows_the_chosen_run_and_its_acceptance(small: Store) -> None:
    with small.cursor() as con:
        runs = queries.runs_table(con)
    vllm = runs.filter(engine="vllm").drop_nulls("spec_algorithm").row(0, named=True)
    test = shown("live", small)
    test.selectbox[0].select(vllm["run_id"]).run()
    line = first_line(test)
    assert re.fullmatch(r"Server stopped at (2026-11-29 )?14:58:51 after 12 min 28 s\.", line)
    assert test.query_params["run"] == vllm["run_id"]
    assert test.metric[3].value not in ("–", "")
    assert test.metric[3].delta.startswith("strict rate")


def test_every_run_and_window_can_be_shown(small: Store) -> None:
    test = shown("live", small)
    with small.cursor() as con:
        run_ids = queries.runs_named(con)["run_id"].to_list()
    assert len(run_ids) == 5
    for run_id in run_ids:
        for window in picture.WINDOWS:
            test.session_state["choice"] = run_id
            test.session_state["window"] = window
            test.run()
            assert not test.exception
            assert not test.error
            assert len(test.metric) == 5


def test_runs_has_one_row_a_start(small: Store) -> None:
    test = shown("runs", small)
    table = test.dataframe[0].value
    assert first_line(test) == "5 runs: 1 lost, 4 stopped."
    assert len(table) == 5
    assert {"sglang", "vllm 0.32.0"} <= set(table["engine"])
    assert set(table["speculation"]) == {"none", "NGRAM, 6 draft tokens", "ngram, 4 draft tokens"}
    assert table["cap"].max() == 4096


def test_a_store_being_written_is_followed(empty: Store, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    content = LOG.read_bytes()
    middle = content.index(b"Prefill batch")
    log.write_bytes(content[: content.rindex(b"\n", 0, middle) + 1])
    with following(empty, log) as supervisor:
        until(lambda: supervisor.status()[0].run_id is not None, DEADLINE_S, "the run is seen")
        until(lambda: empty.revision > 0, DEADLINE_S, "the start is stored")
        test = shown("live", empty, supervisor=supervisor)
        line = r"Starting since (2026-11-29 )?15:00:12; not ready yet\."
        assert re.fullmatch(line, first_line(test))
        before = empty.revision
        with log.open("ab") as file:
            file.write(content[log.stat().st_size :])
        until(lambda: empty.revision > before, DEADLINE_S, "the rest is stored")
        until(lambda: _stopped(test), DEADLINE_S, "the page shows the end")
        assert len(log_lines(test)) > 10


def _stopped(test: AppTest) -> bool:
    test.run()
    assert not test.exception
    return first_line(test).startswith("Server stopped at")


def test_a_damaged_store_is_one_clear_line(empty: Store) -> None:
    with empty.cursor() as con:
        con.execute("DROP VIEW runs")
    for page in ("live", "runs"):
        test = shown(page, empty)
        assert test.error[0].value.startswith("The store could not be read:")
        assert "import the logs again" in test.error[0].value


def test_the_frame_opens_on_live(small: Store) -> None:
    context.enter(context.Context(small, Supervisor(small, [])))
    test = AppTest.from_file(FRAME, default_timeout=60).run()
    assert not test.exception
    assert first_line(test).startswith("The log ends")
