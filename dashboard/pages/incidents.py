"""The Incidents page: what went wrong, when, and what only looked like it."""

from __future__ import annotations

import polars as pl
import streamlit as st

from dashboard import address, figure_block, incident_view, links, selection, sentences, words
from dashboard.charts.incidents import lanes
from dashboard.context import Context, current
from dashboard.guard import guarded
from data import export, incidents, queries
from data.run_names import run_names


@guarded
def page() -> None:
    """The sentence, the lanes, the list, and what was judged harmless."""
    context = current()
    found, harmless, names = _found(context, str(context.store.path), context.store.revision)
    if not names:
        st.subheader("No runs yet, so no incidents.", anchor=False)
        st.info(
            "Follow a log with `servescope up /path/to/server.log`, or bring in past ones with "
            "`servescope import /path/to/logs`. Every fault and warning in them shows here."
        )
        return
    head = st.container()
    runs, severities, classes = _filters(found, names)
    of_runs = found.filter(pl.col("run_id").is_in(runs)) if runs else found
    line = incident_view.headline(of_runs, len(runs) or len(names))
    head.subheader(words.plain(line), anchor=False, help=sentences.ZONE)
    chosen = of_runs.filter(
        pl.lit(not severities) | pl.col("severity").is_in(severities),
        pl.lit(not classes) | pl.col("lane").is_in(classes),
    )
    if chosen.height:
        _drawn(chosen)
        _list(chosen)
    elif of_runs.height:
        st.caption("None of these severities and classes.")
    _harmless(harmless.filter(pl.col("run_id").is_in(runs)) if runs else harmless)


@st.cache_resource(max_entries=2, show_spinner=False)
def _found(
    _context: Context, store: str, revision: int
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, str]]:
    """Incidents, harmless lines, and the names of all runs."""
    with _context.store.cursor() as con:
        runs = queries.runs_named(con)
        found, harmless = incidents.incidents(con), incidents.harmless(con)
    names = run_names(runs)
    return incident_view.named(found, names), incident_view.named(harmless, names), names


def _filters(found: pl.DataFrame, names: dict[str, str]) -> tuple[list[str], list[str], list[str]]:
    """Runs, severities and classes to show; none chosen means all. They stand in the address."""
    if "incident_runs" not in st.session_state:
        asked = st.query_params.get_all("run")
        st.session_state["incident_runs"] = [run for run in asked if run in names]
    left, middle, right = st.columns([2, 1, 2], vertical_alignment="bottom")
    runs = left.multiselect(
        "Runs", list(names), format_func=lambda run_id: words.plain(names.get(str(run_id), "")),
        key="incident_runs", placeholder="all runs",
    )  # fmt: skip
    severities = middle.pills(
        "Severity", list(incident_view.SEVERITIES), selection_mode="multi",
        key="severity", bind="query-params",
    )  # fmt: skip
    present = [lane for lane in incident_view.LANES if lane in set(found["lane"].to_list())]
    classes = right.multiselect(
        "Classes", present, format_func=incident_view.lane_name, key="class",
        placeholder="all classes", bind="query-params",
    )  # fmt: skip
    address.keep(run=runs)
    return runs, list(severities or []), classes


def _drawn(chosen: pl.DataFrame) -> None:
    figure = lanes(chosen)
    if figure is None:
        st.caption("No line of these has a time.")
        return
    st.markdown(f"**{words.plain(figure.title)}**")
    figure_block.show(figure, incident_view.columns())


def _list(chosen: pl.DataFrame) -> None:
    """The folded list, and the lines of the selected row."""
    listed = chosen.head(incident_view.LISTED)
    table = incident_view.table(listed)
    positions = selection.table(
        table, listed["incident_id"].to_list(), "incident", incident_view.columns(),
        f"{words.counted(table.height, 'incident')}, newest first",
    )  # fmt: skip
    if listed.height < chosen.height:
        st.caption(
            f"The newest {listed.height:,} of {chosen.height:,}; choose runs or classes to see "
            "others. The file has all."
        )
    st.download_button(
        "Download as CSV", export.render(incident_view.table(chosen), "csv"),
        "servescope-incidents.csv", "text/csv",
        icon=":material/download:", on_click="ignore", key="incidents_csv",
    )  # fmt: skip
    if not positions:
        st.caption(f"Select a row to read its lines. {selection.KEYS}")
        return
    row = chosen.row(positions[0], named=True)
    st.markdown(f"**{words.plain(row['what'])}**")
    st.code(incident_view.quote(row), language=None, wrap_lines=True)
    about = [
        row["source_id"],
        row["place"],
        row["frame"] and f"raised in {row['frame']}",
        row["rank"],
    ]
    st.caption(words.plain(" · ".join(part for part in about if part)))
    if row["run_id"] is not None:
        with st.container(horizontal=True):
            links.to_run(row["run_id"])
            links.to_live(row["run_id"])


def _harmless(harmless: pl.DataFrame) -> None:
    lines = int(harmless["count"].sum())
    label = f"Looked like a fault and is none: {words.counted(lines, 'line')}"
    with st.expander(label, key="harmless", icon=":material/verified_user:"):
        if harmless.is_empty():
            st.text("No line only looked like a fault.")
            return
        table = incident_view.harmless_table(harmless)
        st.dataframe(
            table, key="harmless_rows", hide_index=True, placeholder=words.MISSING,
            column_config=incident_view.columns(), alt=label,
        )  # fmt: skip
