"""The Explore page: questions in SQL, answers as table, chart and files, nothing as markup."""

from __future__ import annotations

import io
import json
import threading
from datetime import datetime

import altair as alt
import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

from dashboard import explore_view
from dashboard.charts import answer
from dashboard.question_job import AT_ONCE, QuestionJob
from data import export
from data.question import select
from data.store import Store
from tests.pages import HOSTILE, first_line, shown, write_hostile
from tests.server import DEADLINE_S
from tests.test_sql_check import ENDLESS
from tests.waiting import until


def answered(test: AppTest) -> AppTest:
    """The page once the answer is there."""

    def there() -> bool:
        test.run()
        assert not test.exception
        return not first_line(test).startswith("Asking")

    if first_line(test).startswith("Asking"):
        until(there, DEADLINE_S, "the answer")
    return test


def asked(store: Store, query: str, **choices: str) -> AppTest:
    return answered(shown("explore", store, {"q": query, **choices}))


def test_an_empty_store_answers_too(empty: Store) -> None:
    test = answered(shown("explore", empty))
    assert first_line(test).startswith("No rows, in ")
    assert not test.error
    assert "runs" in test.selectbox(key="view").options


def test_the_answer_is_sized_in_a_sentence() -> None:
    assert explore_view.headline(5, 100, 9, 0.02) == "5 rows of 9 columns, in under 0.1 s."
    assert explore_view.headline(1, 100, 1, 2.34) == "1 row of 1 column, in 2.3 s."
    assert explore_view.headline(0, 100, 3, 75.0) == "No rows, in 1 min 15 s."


@pytest.mark.parametrize("title", explore_view.EXAMPLES)
def test_every_example_has_an_answer(either_demo: Store, title: str) -> None:
    with either_demo.cursor() as con:
        frame = select(con, explore_view.EXAMPLES[title], 1_000, 30.0)
    choice = answer.suggested(frame)
    assert frame.width >= 3
    assert frame.height > 0
    if choice is not None and frame.height:
        assert answer.figure(frame, choice) is not None


def test_a_question_in_the_address_is_answered_as_table_and_chart(small: Store) -> None:
    query = "SELECT ts, running_reqs, kind FROM samples WHERE running_reqs IS NOT NULL ORDER BY ts"
    test = asked(small, query, rows="100", colour="kind", kind="line")
    assert first_line(test).startswith("The first 100 rows of 3 columns, in ")
    assert len(test.dataframe[0].value) == 100
    assert test.selectbox(key="x").value == "ts"
    assert test.selectbox(key="colour").value == "kind"
    assert "running\\_reqs by ts" in " ".join(element.value for element in test.markdown)


def test_documented_columns_have_their_unit_and_meaning(small: Store) -> None:
    test = asked(small, "SELECT started_at, model, 1 AS other FROM runs")
    titles = json.loads(test.dataframe[0].proto.columns)
    assert titles["started_at"]["label"] == "started_at, UTC"
    assert titles["model"]["help"].startswith("Of the view runs: ")
    assert "other" not in titles


def test_an_example_is_one_click_away(small: Store) -> None:
    test = answered(shown("explore", small))
    test.button(key="example_4").click().run()
    test = answered(test)
    assert test.text_area[0].value == explore_view.EXAMPLES["Overrides"]
    assert "argument" in test.dataframe[0].value.columns


def test_what_is_refused_says_why(small: Store) -> None:
    test = asked(small, "SELECT * FROM '/etc/passwd'")
    assert first_line(test) == "This question has no answer."
    assert "no documented view" in test.error[0].value
    test = asked(small, "DROP TABLE events")
    assert test.error[0].value == "exactly one SELECT is allowed"


def test_cancel_ends_a_question_without_an_end(small: Store) -> None:
    test = answered(shown("explore", small, {"q": ENDLESS}))
    assert test.error[0].value == "stopped after 3 s; ask for less"  # nobody here asked for it
    assert explore_view.LINKED in [said.value for said in test.caption]
    test.button[-1].click().run()  # Run
    assert first_line(test) == "Asking the store …"
    assert test.text[0].value.endswith("of 30 s at most")
    test.button(key="cancel").click().run()
    test = answered(test)
    assert test.error[0].value == "stopped, as you asked"


def test_more_questions_than_places_wait(small: Store) -> None:
    jobs = [QuestionJob(small, ENDLESS, 10, 60.0) for _ in range(AT_ONCE)]
    waiting = QuestionJob(small, "SELECT 1 AS n", 10, 60.0)
    assert not waiting.wait(0.3)
    gone = QuestionJob(small, "SELECT 1 AS n", 10, 60.0)
    gone.cancel()
    assert gone.wait(30)
    assert gone.error == "stopped, as you asked"
    for job in jobs:
        job.cancel()
    assert all(job.wait(30) for job in [*jobs, waiting])
    assert waiting.frame is not None
    assert waiting.frame["n"].to_list() == [1]
    assert "question" not in {thread.name for thread in threading.enumerate()}


def test_hostile_text_is_text_on_the_page_and_in_files(empty: Store) -> None:
    write_hostile(empty)
    test = asked(empty, "SELECT label, title, evidence FROM events JOIN runs USING (run_id)")
    assert set(test.dataframe[0].value["label"]) == set(HOSTILE)
    test = asked(empty, 'SELECT count(*) AS "<b>|*n*", \'x\' AS "=1+1" FROM events')
    assert not test.error
    with empty.cursor() as con:
        frame = select(con, "SELECT evidence FROM events", 100, 30.0)
    read = pl.read_csv(io.BytesIO(export.render(frame, "csv")))["evidence"]
    assert not read.str.contains(r"^[=+\-@]").any()
    assert "<script>" not in export.render(frame, "md").decode()


@pytest.mark.parametrize("kind", answer.KINDS)
def test_no_chart_has_more_than_2000_marks(kind: str) -> None:
    frame = pl.DataFrame({"x": range(9_999), "y": [float(n % 7) for n in range(9_999)]})
    figure = answer.figure(frame, answer.Choice("x", "y", None, kind))
    assert figure is not None
    assert figure.table.height <= answer.MARKS
    assert "every 5th row" in figure.title


def test_columns_of_every_kind_can_be_drawn() -> None:
    frame = pl.DataFrame(
        {
            "a.b[0]'": [datetime(2026, 3, 1), datetime(2026, 3, 2), None],
            "text": ["<b>", "=1", None],
            "flag": [True, False, None],
            "whole": pl.Series([1, 2, 3], dtype=pl.Int128),
            "part": [0.5, float("nan"), float("inf")],
            "list": [[1.0], [2.0], []],
        }
    )
    assert answer.x_columns(frame) == ["a.b[0]'", "text", "flag", "whole", "part"]
    assert answer.y_columns(frame) == ["whole", "part"]
    assert answer.suggested(frame) == answer.Choice("a.b[0]'", "whole", "text", "points")
    for x in answer.x_columns(frame):
        for kind in answer.KINDS:
            figure = answer.figure(frame, answer.Choice(x, "whole", "flag", kind))
            assert figure is not None
            assert figure.table.columns == list(dict.fromkeys([x, "whole", "flag"]))
            alt.Chart.from_dict(figure.spec)  # a SchemaValidationError where Vega-Lite has none
    assert answer.figure(frame.tail(1), answer.Choice("text", "part", None, "points")) is None


def test_an_answer_too_wide_for_a_browser_is_cut_and_its_long_numbers_are_text() -> None:
    frame = pl.DataFrame(
        {"n": pl.Series([2**70] * 50, dtype=pl.Int128), "text": ["x" * 10**6] * 50}
    )
    table = explore_view.for_table(frame)
    assert 0 < table.height < 25
    assert table["n"][0] == str(2**70)
