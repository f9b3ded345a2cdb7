"""An address opened in a new session shows what the session that left it showed."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import address, bench_view
from data import bench, incidents, queries
from data.store import Store
from tests.pages import log_lines, shown
from tests.test_explore_page import answered


def again(page: str, store: Store, test: AppTest) -> AppTest:
    """The page in a new session, by the address that this one has now."""
    return shown(page, store, dict(test.query_params))


def test_selected_runs(demo: Store) -> None:
    with demo.cursor() as con:
        newest, _, other = queries.runs_named(con)["run_id"].to_list()[:3]
    test = again("runs", demo, shown("runs", demo, {"selected": [other, newest]}))
    (link,) = test.get("page_link")
    assert link.proto.query_string == f"base={other}&with={newest}"
    assert sorted(test.query_params["selected"]) == sorted([newest, other])
    # Found by their ids, wherever they stand.
    test.selectbox(key="sort").select("oldest first").run()
    (link,) = test.get("page_link")
    assert link.proto.query_string == f"base={other}&with={newest}"


def test_a_run_that_is_gone_is_not_selected(demo: Store) -> None:
    test = shown("runs", demo, {"selected": "no such run"})
    assert "selected" not in test.query_params
    assert not test.get("page_link")


def test_more_rows_than_an_address_can_name(demo: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with demo.cursor() as con:
        run_ids = queries.runs_named(con)["run_id"].to_list()
    monkeypatch.setattr(address, "LONGEST", 40)
    test = shown("runs", demo, {"selected": run_ids})
    assert "selected" not in test.query_params
    assert any("more rows than an address can name" in said.value for said in test.caption)
    assert [link.proto.label for link in test.get("page_link")] == ["Compare these"]


def test_the_set_ups_and_the_point_of_bench(demo: Store) -> None:
    test = shown("bench", demo)
    usual = test.multiselect(key="bench_sets").value
    assert "set" not in test.query_params
    test.multiselect(key="bench_sets").set_value(usual[1:2]).run()
    assert test.query_params["set"] == usual[1]
    with demo.cursor() as con:
        points = bench_view.with_sets(bench.points(con), queries.runs_table(con))
    point = points.filter(set=usual[1]).row(-1, named=True)
    test.query_params["point"] = point["bench_id"]
    other = again("bench", demo, test)
    assert other.multiselect(key="bench_sets").value == usual[1:2]
    assert bench_view.join_sentence(point) in [said.value for said in other.text]
    assert other.query_params["point"] == point["bench_id"]


def test_the_incident_that_is_read(demo: Store) -> None:
    with demo.cursor() as con:
        incident_id = incidents.incidents(con)["incident_id"][-1]
    test = again("incidents", demo, shown("incidents", demo, {"incident": incident_id}))
    assert len(test.code) == 1
    assert test.query_params["incident"] == incident_id


def test_a_question_with_its_chart(demo: Store) -> None:
    test = shown("explore", demo)
    assert "q" not in test.query_params
    query = "SELECT kind, line_no, count(*) AS n FROM events GROUP BY ALL"
    test.text_area(key="q").set_value(query)
    test = answered(test.button[-1].click().run())
    assert test.query_params["q"] == query
    chosen = {"x": "line_no", "view": "events"}  # that these stand there is the browser's part
    other = answered(shown("explore", demo, {**test.query_params, **chosen}))
    assert other.text_area(key="q").value == query
    assert other.selectbox(key="x").value == "line_no"
    assert other.selectbox(key="view").value == "events"


def test_a_question_too_long_for_an_address_says_so(demo: Store) -> None:
    test = shown("explore", demo, {"q": "SELECT 1 AS one"})
    text = "%" * (address.LONGEST // 3)  # each is three characters of an address
    long = f"SELECT '{text}' AS text"
    test.text_area(key="q").set_value(long)
    test = answered(test.button[-1].click().run())
    assert test.dataframe[0].value["text"][0] == text
    assert "q" not in test.query_params
    assert any("too long for an address" in said.value for said in test.caption)


def test_the_filter_of_the_log(demo: Store) -> None:
    with demo.cursor() as con:
        card = queries.runs_table(con).row(0, named=True)
    at = card["last_ts"].isoformat()
    address = {"run": card["run_id"], "at": at}
    lines = len(log_lines(shown("live", demo, address)))
    other = shown("live", demo, {**address, "log_filter": "GET"})
    assert other.text_input(key="log_filter").value == "GET"
    assert 0 < len(log_lines(other)) < lines


def test_an_address_with_empty_values_is_one_without_them(demo: Store) -> None:
    with demo.cursor() as con:
        newest, other = queries.runs_named(con)["run_id"].to_list()[:2]
    assert not shown("live", demo, {"run": newest, "window": ""}).error
    assert not shown("compare", demo, {"base": newest, "with": other, "since": ""}).error
    query = {"q": "SELECT kind, line_no FROM events", "rows": "", "x": "", "y": "", "kind": ""}
    test = answered(shown("explore", demo, query))
    assert not test.error
    assert len(test.dataframe[0].value) > 0
