"""The Compare page: its first line, its address, what it says where nothing can be compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from data import queries
from data.store import Store
from ingest.importer import import_logs
from tests import capped, hostile
from tests.pages import first_line, run_of, shown


def compared(store: Store, base: str, *others: str) -> AppTest:
    return shown("compare", store, {"base": base, "with": list(others)})


def test_an_empty_store_says_what_to_do(empty: Store) -> None:
    test = shown("compare", empty)
    assert first_line(test) == "Two runs are needed for a comparison."
    assert "servescope import" in test.info[0].value


def test_the_verdict_is_the_command_s(small: Store) -> None:
    base, other = run_of(small, "sglang-0.5.23-base"), run_of(small, "sglang-0.5.23-ngram")
    test = compared(small, base, other)
    assert first_line(test).startswith(
        "sglang-0.5.23-ngram/server.log is faster: 1.87 times sglang-0.5.23-base/server.log "
        "at equal running counts (1) (within-run 95 % interval"
    )
    assert "lowered by speculation" in test.warning[0].value
    facts, numbers, settings, overrides = (table.value for table in test.dataframe)
    assert facts["c0"].to_list()[:2] == ["engine", "model"]
    assert numbers["ratio"].max() == pytest.approx(2.07, abs=0.05)
    assert "max_running_requests" in settings["c1"].to_list()
    assert overrides["evidence"].str.contains("reset to 48").any()
    assert any("A speculative step costs" in text.value for text in test.text)


def test_the_address_names_the_runs_and_restores_them(small: Store) -> None:
    base, other = run_of(small, "vllm-0.32.0-base"), run_of(small, "vllm-0.32.0-ngram")
    test = compared(small, base, other)
    assert test.selectbox(key="compare_base").value == base
    third = run_of(small, "sglang-0.5.23-base")
    test.multiselect(key="compare_with").set_value([other, third]).run()
    assert not test.exception
    assert test.query_params["base"] == base
    assert test.query_params["with"] == [other, third]
    again = compared(small, base, other, third)
    assert first_line(again) == first_line(test)


def test_what_is_shown_unasked_can_be_compared(small: Store) -> None:
    test = shown("compare", small)
    assert test.selectbox(key="compare_base").value == run_of(small, "sglang-0.5.23-base")
    newest = run_of(small, "sglang-0.5.23-retract-sigkill")  # never ran as many as the one before
    assert test.multiselect(key="compare_with").value == [newest]
    assert " times " in first_line(test)


def test_what_is_not_there_is_left_out_of_the_choice(small: Store) -> None:
    test = compared(small, "no such run", "nor this")
    assert not test.error
    assert test.selectbox(key="compare_base").value != "no such run"
    test.multiselect(key="compare_with").set_value([]).run()
    assert first_line(test) == "Choose what to compare with the baseline."


def test_all_settings_and_every_axis_can_be_shown(small: Store) -> None:
    test = compared(
        small, run_of(small, "sglang-0.5.23-base"), run_of(small, "sglang-0.5.23-ngram")
    )
    few = len(test.dataframe[2].value)
    test.toggle(key="all").set_value(True).run()
    assert len(test.dataframe[2].value) > 10 * few
    for since in ("first request", "clock"):
        test.segmented_control(key="since").set_value(since).run()
        assert not test.exception


def test_starts_of_one_configuration_are_held_against_each_other(
    empty: Store, tmp_path: Path
) -> None:
    for name, day in (("a", "2026-05-04"), ("b", "2026-05-05")):
        (tmp_path / name).mkdir()
        log = tmp_path / name / "server.log"
        log.write_text("\n".join(capped.base()).replace("2026-05-04", day) + "\n")
        import_logs(empty, [str(log)])
    test = shown("compare", empty)
    assert "start 2" in first_line(test)
    assert any("starts of one configuration" in caption.value for caption in test.caption)


def test_names_appear_as_they_are(empty: Store, tmp_path: Path) -> None:
    hostile.fill(empty, tmp_path / "logs")
    with empty.cursor() as con:
        runs = dict(queries.runs_named(con).select("label", "run_id").iter_rows())
    base, *others = (runs[name] for name in hostile.NAMES.values())
    test = compared(empty, base, *others)
    assert hostile.NAMES["html"] in first_line(test)
    # One name turns the direction of text: no sentence with it may run backwards.
    verdicts = " ".join([first_line(test), *(text.value for text in test.text)])
    assert "\u202e" not in verdicts
    assert "gnp.exe" in verdicts
    said = " ".join(str(element.value) for element in [*test.caption, *test.warning])
    assert "[link](" not in said  # escaped, so that Markdown shows the brackets
    assert "<img" not in said.replace("\\<img", "")
    assert not test.error


def test_a_damaged_store_is_one_clear_line(empty: Store) -> None:
    with empty.cursor() as con:
        con.execute("DROP VIEW runs")
    assert shown("compare", empty).error[0].value.startswith("The store could not be read:")
