"""The drop zone of the Bench page: what a file holds is shown before anything is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
import streamlit as st

from dashboard import words
from dashboard.context import BenchDesk, Preview, current
from data import bench_text
from data.names import tame
from parsers.records import BENCH_RESULTS

# What a column of a table made by hand most often is.
MEANINGS: Final = [
    "dimension", "label", "concurrency", "output_tok_s", "total_tok_s", "peak_output_tok_s",
    "request_rate", "request_throughput_rps", "num_prompts", "completed", "failed", "duration_s",
    "accept_len", *[name for name in BENCH_RESULTS if "_ms_" in name],
]  # fmt: skip
UNITS: Final = ["ms", "s"]


def drop_zone(*, expanded: bool) -> None:
    """Take files in, show what is in them, and store them on demand."""
    desk = current().bench
    if desk is None:
        return
    for line in desk.watched():
        st.caption(words.plain(line))
    with st.expander("Add results", expanded=expanded, icon=":material/upload_file:"):
        files = st.file_uploader(
            "Output of benchmarks: text, JSON, CSV, Markdown",
            accept_multiple_files=True,
            key=f"bench_files_{st.session_state.setdefault('bench_taken', 0)}",
        )
        if said := st.session_state.pop("bench_said", None):
            st.success(said, icon=":material/check_circle:")
        if files:
            _previews(desk, [(file.name, file.getvalue()) for file in files])
        elif st.button(
            "Look for runs again", key="bench_join", type="tertiary", icon=":material/link:",
            help="Join points that have no run yet to the logs that are stored.",
        ):  # fmt: skip
            with st.spinner("Looking for runs …"):
                joined = desk.join()
            st.toast(f"{words.counted(joined, 'point').capitalize()} joined to their runs")


def _previews(desk: BenchDesk, uploads: Sequence[tuple[str, bytes]]) -> None:
    with st.spinner("Reading the files …"):
        previews = desk.preview(uploads)
    for preview in previews:
        _preview(desk, preview)
    new = sum(preview.new for preview in previews)
    if not new:
        st.caption("Nothing here is new.")
        return
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    label = left.text_input(
        "Label", key="bench_label", placeholder="set-up of these points, for example base"
    )
    if right.button(f"Save {words.counted(new, 'point')}", key="bench_save", type="primary"):
        with st.spinner("Saving the points and looking for their runs …"):
            saved = desk.save(uploads, label.strip() or None)
        st.session_state["bench_said"] = f"{words.counted(saved, 'point')} saved."
        st.session_state["bench_taken"] += 1  # a fresh drop zone
        st.rerun()


def _preview(desk: BenchDesk, preview: Preview) -> None:
    """Format, number of points, oddities and unread columns of one file."""
    if preview.problem is not None:
        st.error(words.plain(preview.problem), icon=":material/error:")
        return
    stored = preview.points.height - preview.new
    known = f", {stored} of them stored already" if stored else ""
    count = words.counted(preview.points.height, "point")
    st.markdown(words.plain(f"{preview.name}: {preview.format}, {count}{known}"))
    doubts = _doubts(preview.points)
    if doubts:
        with st.expander(f"{words.counted(len(doubts), 'reason')} to doubt a point"):
            for doubt in doubts:
                st.text(tame(doubt))
    for header in preview.unread:
        _name_column(desk, preview.name, header)


def _doubts(points: pl.DataFrame) -> list[str]:
    """Each oddity, led by its point where there are several."""
    lines = []
    for row in points.iter_rows(named=True):
        lead = f"point {row['position']}: " if points.height > 1 else ""
        lines += [f"{lead}{said}" for said in bench_text.oddities_of(row["extra"])]
    return lines


def _name_column(desk: BenchDesk, file: str, header: str) -> None:
    """Ask once what a column means."""
    key = f"{file}_{header}"
    left, middle, right = st.columns([3, 1, 1], vertical_alignment="bottom")
    meaning = left.selectbox(
        f"Column {words.plain(header)} is", MEANINGS, index=None, key=f"meaning_{key}",
        placeholder="not recognised: choose once",
    )  # fmt: skip
    in_time = meaning is not None and "_ms_" in meaning
    unit = middle.selectbox("Unit", UNITS, key=f"unit_{key}") if in_time else None
    if right.button("Set", key=f"set_{key}", disabled=meaning is None) and meaning is not None:
        desk.name_column(header, meaning, unit)
        st.rerun()
