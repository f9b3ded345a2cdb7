"""The Runs page and the page of one run, on an empty store, real logs, many runs, harmful names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
from streamlit.testing.v1 import AppTest

from dashboard import bench_view, incident_view, run_table
from data import notes, queries
from data.names import tame
from data.store import Store
from ingest.imports import import_paths
from parsers import records
from tests import hostile, pages
from tests.frames import Frames, at
from tests.pages import SAMPLES, first_line, run_of


def shown(page: str, store: Store, *, selected: Sequence[str] = (), **address: str) -> AppTest:
    return pages.shown(page, store, {**address, "selected": list(selected)})


def labels(test: AppTest) -> list[str]:
    return list(test.dataframe[0].value["name"])


def test_a_search_is_kept_in_the_address(demo: Store) -> None:
    test = shown("runs", demo)
    test.text_input(key="q").set_value("engine:vllm spec:ngram").run()
    assert first_line(test) == "1 of 5 runs: 1 stopped."
    assert labels(test) == ["vllm-0.32.0-ngram/server.log"]
    seen_first = [name for name in test.dataframe[0].value.columns if name != "marks"][:4]
    assert seen_first == ["run", "name", "state", "started"]  # starts of one server look alike
    again = shown("runs", demo, q="engine:vllm", sort="oldest first")
    assert labels(again) == ["vllm-0.32.0-base/server.log", "vllm-0.32.0-ngram/server.log"]
    said = [caption.value.replace("\\", "") for caption in again.caption]
    assert "All: Engine vllm 0.32.0, Model tiny-llama, Parallel TP 1 × DP 1." in said
    assert "model" not in again.dataframe[0].value


def test_a_search_that_fits_nothing_says_so(demo: Store) -> None:
    test = shown("runs", demo, q="no-such-word")
    assert first_line(test) == "None of 5 runs."
    assert "Take a word out" in test.info[0].value
    assert "is no number" in shown("runs", demo, q="cap:x").caption[0].value.replace("\\", "")


def test_one_selected_run_can_be_named(empty: Store) -> None:
    import_paths(empty, [str(SAMPLES / "vllm-0.32.0-base"), str(SAMPLES / "vllm-0.32.0-ngram")])
    run_id = run_of(empty, "vllm-0.32.0-ngram")
    test = shown("runs", empty, selected=[run_id])
    test.text_input(key=f"label_{run_id}").set_value("mine")
    test.text_input(key=f"tags_{run_id}").set_value("a, b")
    test.text_area(key=f"note_{run_id}").set_value("why")
    next(button for button in test.button if button.label == "Save").click().run()
    assert not test.exception
    with empty.cursor() as con:
        assert notes.note_of(con, run_id) == notes.Note("mine", ("a", "b"), "why")
    assert "mine" in labels(test)
    test.button(key="set_baseline").click().run()
    test.button(key="set_archived").click().run()
    assert labels(test) == ["vllm-0.32.0-base/server.log"]
    assert first_line(test) == "1 of 2 runs: 1 stopped."
    assert "mine" in labels(shown("runs", empty, archived="true"))


def test_several_selected_runs_can_be_compared(demo: Store) -> None:
    base, other = run_of(demo, "sglang-0.5.23-base"), run_of(demo, "sglang-0.5.23-ngram")
    test = shown("runs", demo, selected=[other, base])
    (link,) = test.get("page_link")
    assert link.proto.label == "Compare these"
    # The run that started first is the baseline, until one is marked.
    assert link.proto.query_string == f"base={base}&with={other}"
    test.button(key="set_archived").click().run()
    assert first_line(test).startswith("3 of 5 runs")
    notes.archive(demo, [base, other], archived=False)


def many(store: Store, count: int) -> None:
    runs = [
        {"seq": 1, "run_id": f"run{number:04}", "source_id": f"/logs/{number}", "engine": "sglang",
         "label": f"try {number}", "model": "org/m", "started_at": at(number),
         "end_state": "stopped"}
        for number in range(count)
    ]  # fmt: skip
    store.append(Frames(run_facts=records.frame(runs, records.RUN_FACTS)), None)


def test_five_hundred_runs_are_one_table(empty: Store) -> None:
    many(empty, 500)
    test = shown("runs", empty)
    assert first_line(test) == "500 runs: 500 stopped."
    assert len(test.dataframe[0].value) == 500
    assert labels(test)[0] == "try 499"
    found = shown("runs", empty, q='"try 499"')
    assert labels(found) == ["try 499"]


def test_no_run_and_a_wrong_one_say_where_to_go(empty: Store) -> None:
    assert first_line(shown("run", empty)) == "No run is chosen."
    assert first_line(shown("run", empty, run="nope")) == "No such run."


def test_every_demo_run_has_its_page(demo: Store) -> None:
    with demo.cursor() as con:
        run_ids = queries.runs_named(con)["run_id"].to_list()
    for run_id in run_ids:
        test = shown("run", demo, run=run_id)
        assert not test.error
        assert run_id in test.text[0].value
        assert len(test.metric) == 6


def test_a_run_tells_its_overrides_and_findings(demo: Store) -> None:
    test = shown("run", demo, run=run_of(demo, "sglang-0.5.23-ngram"))
    assert first_line(test) == (
        "SGLang with tiny-llama, NGRAM with 6 draft tokens; stopped in order after 6 min 31 s, "
        "no faults."
    )
    warned = [warning.value.replace("\\", "") for warning in test.warning]
    changed = next(text for text in warned if text.startswith("Overridden by the server:"))
    assert "- max_running_requests lowered to 48 by speculative decoding (given" in changed
    assert "- Cuda graph disabled (disable_cuda_graph: given default, in effect true)" in changed
    assert any("is reset to 48" in code.value for code in test.code)
    assert any("lowered by speculation" in text for text in warned)
    tables = [table.value for table in test.dataframe]
    settings = next(table for table in tables if "changed" in table.columns)
    assert "No fault and no warning but for the overrides above." in [t.value for t in test.text]
    changed = settings[settings["changed"].notna()]["name"].to_list()
    assert "max_running_requests" in changed
    bench = next(table for table in tables if "concurrency" in table.columns)
    assert bench["concurrency"].to_list() == [1.0]
    assert settings["about"].to_list()[0] == "speculation"
    few = len(settings)
    test.toggle(key="run_all").set_value(True).run()
    every = next(t.value for t in test.dataframe if "changed" in t.value.columns)
    assert len(every) > 3 * few


def test_a_run_tells_its_incidents_and_its_baseline(empty: Store) -> None:
    names = ("sglang-0.5.23-base", "sglang-0.5.23-retract-sigkill")
    import_paths(empty, [str(SAMPLES / name) for name in names])
    base, run_id = (run_of(empty, name) for name in names)
    notes.use_as_baseline(empty, base)
    test = shown("run", empty, run=run_id)
    incidents = next(t.value for t in test.dataframe if "severity" in t.value.columns)
    assert incidents["class"].to_list() == ["retraction"]
    refused = [
        {"run_id": run_id, "source_id": "s", "file_id": "f", "byte_offset": 90_000, "line_no": 200,
         "ts": at(0), "kind": "server_error", "severity": "warning",
         "title": "HTTP 503 from /generate", "count": 7}
    ]  # fmt: skip
    empty.append(Frames(events=records.frame(refused, records.EVENTS)), None)
    test = shown("run", empty, run=run_id)
    incidents = next(t.value for t in test.dataframe if "severity" in t.value.columns)
    assert dict(zip(incidents["class"], incidents["count"], strict=True)) == {
        "retraction": 1, "server_error": 7,
    }  # fmt: skip
    test.button(key="set_baseline").click().run()
    with empty.cursor() as con:
        assert queries.baseline_runs(con) == [run_id]


def test_harmful_names_are_text(empty: Store, tmp_path: Path) -> None:
    hostile.fill(empty, tmp_path / "logs")
    test = shown("runs", empty)
    assert sorted(labels(test)) == sorted(map(tame, hostile.NAMES.values()))
    with empty.cursor() as con:
        run_ids = queries.runs_named(con)["run_id"].to_list()
    for run_id in run_ids:
        notes.describe(empty, run_id, "", ["<b>t</b>", "**x**"], "<script>alert(1)</script>")
        page = shown("run", empty, run=run_id)
        said = [*page.subheader, *page.warning, *page.markdown, *page.caption]
        for element in said:
            assert "<script" not in element.value.replace("\\<", "")
            assert "[link](" not in element.value


def test_every_number_of_a_table_is_defined() -> None:
    for columns in (run_table.columns(), bench_view.columns(), incident_view.columns()):
        for name, column in columns.items():
            if column["type_config"]["type"] == "number":
                assert column.get("help"), name


def test_a_log_that_says_nothing_for_long_is_told_from_a_running_one() -> None:
    now = datetime(2026, 3, 1, 12)
    runs = pl.DataFrame(
        {
            "end_state": [None, None, None, "stopped"],
            "last_ts": [now - timedelta(seconds=599), now - timedelta(seconds=601), None, now],
        },
        schema={"end_state": pl.String, "last_ts": pl.Datetime("us")},
    )
    states = run_table.with_states(runs, now)
    assert states["state"].to_list() == ["running", "silent", "running", "stopped"]
    assert run_table.summary(states, states) == "4 runs: 2 running, 1 silent, 1 stopped."
