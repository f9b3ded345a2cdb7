"""The Runs page: every start of every server, one row each; found, sorted, named, compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import streamlit as st

from dashboard import links, notes_form, run_search, run_shapes, run_table, selection, words
from dashboard.context import current
from dashboard.guard import guarded
from data import bench, export, queries
from data.moment import utc_now
from data.run_names import run_names


@guarded
def page() -> None:
    """The search, the table, and what can be done with the selected runs."""
    with current().store.cursor() as con:
        now = utc_now()
        every = run_table.with_states(queries.runs_table(con), now)
        every = every.join(bench.counts(con), on="run_id", how="left")
    if every.is_empty():
        st.subheader("No runs yet.", anchor=False)
        st.info(
            "A run appears with the first line of a server's start. Follow a log with "
            "`servescope up /path/to/server.log`, or bring in past ones with "
            "`servescope import /path/to/logs`."
        )
        return
    head = st.container(key="head")
    runs = _found(every)
    head.subheader(words.plain(run_table.summary(runs, every)), anchor=False)
    if runs.is_empty():
        st.info("No run fits. Take a word out of the search, or show the archived ones too.")
        return
    shown = run_table.shown(run_shapes.with_shapes(current(), runs), run_names(every))
    same = run_table.alike(shown)
    if same:
        st.caption(words.plain(run_table.in_common(same)))
    selected = selection.table(
        shown.drop(same), runs["run_id"].to_list(), "selected", run_table.columns(),
        run_table.summary(runs, runs), several=True,
    )  # fmt: skip
    _actions([runs.row(at, named=True) for at in selected])
    st.download_button(
        "Download as CSV", _csv(runs, every), "servescope-runs.csv", "text/csv",
        icon=":material/download:", on_click="ignore", key="runs_csv",
    )  # fmt: skip


def _found(every: pl.DataFrame) -> pl.DataFrame:
    """The runs that the search means, sorted. Both stand in the address."""
    left, middle, right = st.columns([5, 2, 2], vertical_alignment="bottom")
    text = left.text_input(
        "Search", key="q", bind="query-params", type="search", help=run_search.HELP,
        placeholder="words, or engine:vllm tag:nightly faults:>0",
    )  # fmt: skip
    by = middle.selectbox("Sort by", list(run_search.SORTS), key="sort", bind="query-params")
    put_away = right.toggle(
        "Archived too", key="archived", bind="query-params",
        disabled=not every["archived"].any(), help="Runs that were archived.",
    )  # fmt: skip
    found, complaints = run_search.search(every, text or "")
    for complaint in complaints:
        st.caption(words.plain(complaint))
    if not put_away and "is:archived" not in (text or ""):
        found = found.filter(~pl.col("archived"))
    return run_search.ordered(found, by or next(iter(run_search.SORTS)))


def _actions(selected: Sequence[dict[str, Any]]) -> None:
    """What can be done with the selected runs; the place stays where nothing is selected."""
    with st.container(horizontal=True, vertical_alignment="center", key="runs_actions"):
        if not selected:
            st.caption(
                "Select a row to open, name or archive it, several to compare them. "
                f"{selection.KEYS}"
            )
            return
        if len(selected) == 1:
            run_id = str(selected[0]["run_id"])
            links.to_run(run_id)
            links.to_live(run_id)
            notes_form.buttons(selected[0])
        else:
            base = run_table.baseline_of(selected)
            others = [str(card["run_id"]) for card in selected if card["run_id"] != base["run_id"]]
            links.to_compare(str(base["run_id"]), others, "Compare these")
            notes_form.archive_button(selected)
    if len(selected) == 1:
        notes_form.form(selected[0])


def _csv(runs: pl.DataFrame, every: pl.DataFrame) -> bytes:
    """The runs that are shown, as `servescope export runs` writes them."""
    chosen = [] if runs.height == every.height else runs["run_id"].to_list()
    with current().store.cursor() as con:
        return export.render(queries.exported(con, "runs", chosen), "csv")
