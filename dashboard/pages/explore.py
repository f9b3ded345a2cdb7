"""The Explore page: any question in SQL, its answer as a table, a chart and a file."""

from __future__ import annotations

from typing import Final

import polars as pl
import streamlit as st

from dashboard import address, explore_view, figure_block, files, words
from dashboard.charts import answer
from dashboard.context import current
from dashboard.files import File
from dashboard.guard import guarded
from dashboard.question_job import QuestionJob
from data import export

_JOB: Final = "question_job"
_LINKED: Final = "question_linked"  # nobody here has asked for it: it came with the address
_AT_ONCE_S: Final = 0.5  # an answer that comes so soon is shown without a sign of waiting
_FILES: Final = {
    "csv": ("CSV", "text/csv"),
    "parquet": ("Parquet", "application/vnd.apache.parquet"),
    "json": ("JSON", "application/json"),
    "md": ("Markdown", "text/markdown"),
}


@guarded
def page() -> None:
    """The question, its answer, and the views that can be asked."""
    head = st.container(key="head")
    query, limit = _question()
    job: QuestionJob | None = st.session_state.get(_JOB)
    if job is None or (job.query, job.limit) != (query, limit):
        job = _ask(query, limit)
    if not job.wait(_AT_ONCE_S):
        head.subheader("Asking the store …", anchor=False)
        st.fragment(_wait, run_every="0.5s")()
    elif job.frame is None:
        head.subheader("This question has no answer.", anchor=False)
        st.error(words.plain(job.error or ""), icon=":material/error:")
        if job.is_of_the_store:
            st.caption(current().store.advice(job.cause))
        elif job.timed_out and job.timeout_s < explore_view.TIMEOUT_S:
            st.caption(explore_view.LINKED)
    else:
        line = explore_view.headline(job.frame.height, limit, job.frame.width, job.seconds)
        head.subheader(words.plain(line), anchor=False)
        _answer(job.frame.head(limit), query)
    _views()


def _ask(query: str, limit: int) -> QuestionJob:
    """Ask, in place of what is being asked."""
    earlier: QuestionJob | None = st.session_state.get(_JOB)
    if earlier is not None:
        earlier.cancel()
    linked = st.session_state.get(_LINKED) == query
    seconds = explore_view.LINKED_S if linked else explore_view.TIMEOUT_S
    job = QuestionJob(current().store, query, limit, seconds)
    st.session_state[_JOB] = job
    return job


def _question() -> tuple[str, int]:
    """The question and how many rows of its answer; both stand in the address."""
    if "q" not in st.session_state:
        st.session_state["q"] = st.query_params.get("q", explore_view.FIRST)
        st.session_state[_LINKED] = st.query_params.get("q")
    with st.container(horizontal=True, gap="xsmall", key="examples"):
        for number, (title, query) in enumerate(explore_view.EXAMPLES.items()):
            st.button(
                title, key=f"example_{number}", type="tertiary", icon=":material/lightbulb:",
                on_click=_take, args=(query,),
            )  # fmt: skip
    with st.form("question", border=False):
        st.text_area(
            "One SELECT over the views below", height=170, key="q",
            help="Run it with the button or Ctrl+Enter.",
        )  # fmt: skip
        with st.container(horizontal=True, vertical_alignment="bottom"):
            limit = st.segmented_control(
                "Rows at most", list(explore_view.LIMITS), default=explore_view.LIMITS[1],
                required=True, key="rows", bind="query-params",
                format_func=lambda count: f"{count:,}",
            )  # fmt: skip
            if st.form_submit_button("Run", icon=":material/play_arrow:", type="primary"):
                st.session_state.pop(_JOB, None)
                st.session_state.pop(_LINKED, None)
    query = str(st.session_state["q"] or "")
    if not address.keep(q=[] if query == explore_view.FIRST else [query]):
        st.caption("This question is too long for an address: a link to this page is without it.")
    return query, int(limit or explore_view.LIMITS[1])  # `rows=` of an address is none of them


def _take(query: str) -> None:
    st.session_state["q"] = query


def _wait() -> None:
    """How long it has taken, and the way out; looked at anew twice a second."""
    job: QuestionJob = st.session_state[_JOB]
    if not job.running:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"{job.seconds:.0f} s of {job.timeout_s:.0f} s at most")
        st.button("Cancel", icon=":material/stop:", key="cancel", on_click=job.cancel)


def _files(frame: pl.DataFrame) -> list[File]:
    return [
        File(label, f"servescope-answer.{form}", mime, export.render(frame, form))
        for form, (label, mime) in _FILES.items()
    ]


def _answer(frame: pl.DataFrame, query: str) -> None:
    table = explore_view.for_table(frame)
    st.dataframe(
        table, key="answer_rows", hide_index=True, placeholder=words.MISSING,
        alt=f"{words.counted(table.height, 'row')}: {', '.join(table.columns)}",
        column_config=explore_view.answer_titles(table.columns, query),
    )  # fmt: skip
    if table.height < frame.height:
        st.caption(f"The table shows the first {table.height:,} rows; the files have all.")
    files.menu(
        "Download the answer", "answer_rows", lambda: _files(frame),
        help="All rows as CSV, Parquet, JSON or Markdown",
    )  # fmt: skip
    _chart(frame)


def _chart(frame: pl.DataFrame) -> None:
    """The chart of the chosen columns; the choice stands in the address."""
    first = answer.suggested(frame)
    if first is None:
        return
    x_names, y_names = answer.x_columns(frame), answer.y_columns(frame)
    colours = ["none", *answer.colour_columns(frame)]
    places = st.columns(4, vertical_alignment="bottom")
    x = places[0].selectbox("x", x_names, x_names.index(first.x), key="x", bind="query-params")
    y = places[1].selectbox("y", y_names, y_names.index(first.y), key="y", bind="query-params")
    colour = places[2].selectbox(
        "Colour", colours, colours.index(first.colour or "none"), key="colour", bind="query-params"
    )
    kind = places[3].segmented_control(
        "Drawn as", answer.KINDS, default=first.kind, required=True, key="kind", bind="query-params"
    )
    by = None if colour in (None, "none") else colour
    choice = answer.Choice(x or first.x, y or first.y, by, kind or first.kind)
    figure = answer.figure(frame, choice)
    if figure is None:
        st.caption("No row has both values.")
        return
    st.markdown(f"**{words.plain(figure.title)}**")
    figure_block.show(figure)


def _views() -> None:
    views = explore_view.views()
    with st.expander("Views and their columns", key="views", icon=":material/schema:"):
        name = st.selectbox("View", list(views), key="view", bind="query-params")
        view = views[name]
        st.text(view.row)
        st.dataframe(
            explore_view.columns_of(view), key=f"columns_{name}", hide_index=True,
            placeholder=words.MISSING, column_config=explore_view.column_titles(),
            alt=f"{len(view.columns)} columns of {name}",
        )  # fmt: skip
