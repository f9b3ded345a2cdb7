"""The log below the charts of the Live page: its end, or the lines around a chosen moment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import streamlit as st

from dashboard import log_list, words
from dashboard.charts import series
from dashboard.context import Context, LogLine, SourceStatus
from dashboard.followed import Remote
from dashboard.log_list import Row
from data import log_places
from data.errors import ServescopeError
from data.log_places import LogPlace

_END_LINES: Final = 200
_KEPT_LINES: Final = 2_000  # of each source, in memory
_AROUND_LINES: Final = 150  # on each side of a moment
# A level that a line prints of itself, where its stamp stands: never a word in its text.
_PRINTED: Final = re.compile(r"(?:\([^()]*\)\s*|\[[^\]]*\]\s*)*(WARNING|ERROR|CRITICAL)\b")
_LEVELS: Final = {"WARNING": "warning", "ERROR": "fault", "CRITICAL": "fault"}


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines to show, and why there are none."""

    lines: Sequence[LogLine]
    marked: str | None = None  # the id of the line at the chosen moment
    excuse: str | None = None


def at() -> datetime | None:
    """The moment that was chosen, on the log's clock. It stands in the address."""
    try:
        return datetime.fromisoformat(st.query_params.get("at", ""))
    except ValueError:
        return None


def turn() -> int:
    """How often a moment was chosen or left by now."""
    return int(st.session_state.get("log_turn", 0))


def choose(moment: datetime | None, line: str | None = None) -> None:
    """Choose a moment; `line`: the id of the line that was meant."""
    st.session_state["log_line"] = line
    st.session_state["log_turn"] = turn() + 1
    if moment is None:
        st.query_params.pop("at", None)
    else:
        st.query_params["at"] = moment.isoformat()


def on_point(points: Sequence[Mapping[str, Any]]) -> None:
    """A point of a chart was clicked."""
    moment = series.moment_of(points)
    if moment is not None:
        choose(moment)


def excerpt(context: Context, run_id: str, status: SourceStatus | None) -> Excerpt:
    """What to show of the log now."""
    moment = at()
    if moment is None:
        if status is None:
            return Excerpt([], excuse="Click a point of a chart to read the log of that moment.")
        if isinstance(status, Remote):
            return Excerpt(
                [], excuse="The lines themselves are where the log is; they are not stored."
            )
        lines = context.supervisor.lines(status.source_id, _END_LINES)
        return Excerpt(lines, excuse="No line has arrived since Servescope started.")
    held = st.session_state.get("log_around")
    wanted = (run_id, moment, st.session_state.get("log_line"))
    if held is None or held[0] != wanted:
        held = st.session_state["log_around"] = (wanted, _around(context, run_id, moment, status))
    found: Excerpt = held[1]
    return found


def _around(
    context: Context, run_id: str, moment: datetime, status: SourceStatus | None
) -> Excerpt:
    with context.store.cursor() as con:
        place = log_places.at_moment(con, run_id, moment)
    if place is None:
        return Excerpt([], excuse="No line of this run was read within ten minutes of that moment.")
    meant = st.session_state.get("log_line") or f"{place.file_id}:{place.line_no}"
    if status is not None:
        kept = context.supervisor.lines(status.source_id, _KEPT_LINES)
        inside = _near(kept, meant)
        if inside:
            return Excerpt(inside, meant)
    return _from_file(context, place, meant)


def _from_file(context: Context, place: LogPlace, meant: str) -> Excerpt:
    try:
        with st.spinner("Reading the log …"):
            lines = context.supervisor.around(place.file_id, place.byte_offset, place.line_no)
    except ServescopeError as error:
        return Excerpt([], excuse=str(error))
    near = _near(lines, meant)
    marked = meant if near else f"{place.file_id}:{place.line_no}"
    return Excerpt(near or _near(lines, marked), marked)


def _near(lines: Sequence[LogLine], line_id: str) -> Sequence[LogLine]:
    """The lines around one of them; empty where it is not among them."""
    ids = [_id(line) for line in lines]
    if line_id not in ids:
        return []
    nth = ids.index(line_id)
    return lines[max(0, nth - _AROUND_LINES) : nth + _AROUND_LINES]


def _id(line: LogLine) -> str:
    return f"{line.file_id}:{line.line_no}"


def block(context: Context, run_id: str, shown: Excerpt) -> None:
    """The filter, the way back to the end, and the lines."""
    moment = at()
    title = "Last lines of the log" if moment is None else f"The log at {words.clock(moment)}"
    with st.container(horizontal=True, vertical_alignment="bottom", key="log_head"):
        st.markdown(f"**{words.plain(title)}**")
        text = st.text_input(
            "Filter lines", key="log_filter", placeholder="Filter: words, warning, fault",
            type="search", label_visibility="collapsed", width=260, bind="query-params",
        )  # fmt: skip
        st.button(
            "Back to the newest lines", icon=":material/vertical_align_bottom:", key="log_back",
            on_click=choose, args=(None,), disabled=moment is None,
        )  # fmt: skip
    rows = _rows(context, shown.lines)
    found = [row for row in rows if _fits(row, text or "")]
    with st.container(height=log_list.HEIGHT + 40, border=False, key="log_place"):
        if not found:
            st.caption(words.plain("No line fits." if rows else shown.excuse or "No line."))
            return
        name = f"{title}: {words.counted(len(found), 'line')}"
        view = f"{run_id} {moment} {text}"
        log_list.show(found, name, shown.marked, view, lambda: _clicked(context, run_id))


def _fits(row: Row, text: str) -> bool:
    said = f"{row.level} {row.text}".lower()
    return all(word in said for word in text.lower().split())


def _rows(context: Context, lines: Sequence[LogLine]) -> list[Row]:
    bad: dict[tuple[str, int], str] = {}
    for file_id in {line.file_id for line in lines if line.file_id and line.line_no}:
        numbers = [line.line_no for line in lines if line.file_id == file_id and line.line_no]
        found = _severities(
            context, str(context.store.path), context.store.revision, str(file_id),
            min(numbers), max(numbers),
        )  # fmt: skip
        bad |= {(str(file_id), number): level for number, level in found.items()}
    return [
        Row(
            f"{_id(line)}" if line.line_no else f"{nth}", line.line_no,
            bad.get((line.file_id or "", line.line_no or 0)) or _printed(line.text), line.text,
        )
        for nth, line in enumerate(lines)
    ]  # fmt: skip


def _printed(text: str) -> str:
    """The level that a line prints of itself."""
    found = _PRINTED.match(text[:200])
    return _LEVELS[found[1]] if found else ""


@st.cache_resource(max_entries=64, show_spinner=False)
def _severities(
    _context: Context, store: str, revision: int, file_id: str, first: int, last: int
) -> dict[int, str]:
    with _context.store.cursor() as con:
        return log_places.severities(con, file_id, first, last)


def _clicked(context: Context, run_id: str) -> None:
    """A line was clicked: its moment is marked on the charts."""
    line_id = log_list.clicked()
    file_id, _, number = (line_id or "").rpartition(":")
    if not file_id:
        return
    with context.store.cursor() as con:
        moment = log_places.moment_of(con, run_id, file_id, int(number))
    if moment is not None:
        choose(moment, line_id)
