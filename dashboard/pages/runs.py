"""The Runs page: every start of every server, one row each."""

from __future__ import annotations

import hashlib

import polars as pl
import streamlit as st

from dashboard import run_table, sentences, words
from dashboard.context import current
from dashboard.guard import guarded
from dashboard.pages import live
from data import export, queries


@guarded
def page() -> None:
    """The table, its download, and the card of the selected run."""
    with current().store.cursor() as con:
        runs = queries.runs_table(con)
        exported = queries.exported(con, "runs", [])
    if runs.is_empty():
        st.subheader("No runs yet.", anchor=False)
        st.info(
            "A run appears with the first line of a server's start. Follow a log with "
            "`servescope up /path/to/server.log`, or bring in past ones with "
            "`servescope import /path/to/logs`."
        )
        return
    st.subheader(run_table.summary(runs), anchor=False)
    selected = _table(runs)
    st.download_button(
        "Download as CSV", export.render(exported, "csv"), "servescope-runs.csv", "text/csv",
        icon=":material/download:", on_click="ignore", key="runs_csv",
    )  # fmt: skip
    if selected is None:
        st.caption("Select a row to see its arguments and to open it in Live.")
    else:
        _card(runs.row(selected, named=True))


def _table(runs: pl.DataFrame) -> int | None:
    """The table; the position of the selected row, if any.

    Streamlit remembers a selection by position. The key changes with the rows, so that a new
    run on top never moves the selection to another one.
    """
    shown = run_table.shown(runs)
    rows = hashlib.sha256("".join(runs["run_id"]).encode()).hexdigest()[:12]
    event = st.dataframe(
        shown, key=f"runs_{rows}", hide_index=True, placeholder=words.MISSING,
        column_order=[name for name in shown.columns if shown[name].count()],
        column_config=run_table.columns(), on_select="rerun", selection_mode="single-row",
        alt=run_table.summary(runs),
    )  # fmt: skip
    positions = event["selection"]["rows"]
    return positions[0] if positions else None


def _card(card: dict[str, object]) -> None:
    st.markdown(f"**{words.plain(sentences.run_name(card))}**")
    st.page_link(
        st.Page(live.page, title="Live", url_path="live", default=True),
        label="Open in Live",
        icon=":material/monitoring:",
        query_params={"run": str(card["run_id"]), "window": "whole run"},
    )
    arguments = run_table.arguments(card)
    st.dataframe(
        arguments, hide_index=True, placeholder=words.MISSING, key="arguments", height=320,
        alt=f"{arguments.height} arguments of the run",
    )  # fmt: skip
