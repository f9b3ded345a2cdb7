"""What the Live page can show, and how its sources are doing at this moment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import streamlit as st

from dashboard import followed, sentences
from dashboard.context import Context, SourceStatus
from dashboard.followed import Remote
from dashboard.live_log import Excerpt
from dashboard.picture import Picture
from dashboard.sentences import Badge
from data import queries
from data.run_names import run_names

_PAUSED: Final = "live_paused"
_SHOWN: Final = "live_shown"
LATEST: Final = "latest:"  # before a source_id: whatever run of that source started last


@dataclass(frozen=True, slots=True)
class View:
    """What stands on the page; a paused page keeps showing it."""

    of: tuple[str, str]  # what was chosen: server or run, and window
    run_id: str
    picture: Picture
    line: str  # the headline
    server: Badge
    idle: bool
    log: Excerpt | None  # the end of the log; None while another moment is looked at
    at: datetime = field(default_factory=datetime.now)

    def parts(self) -> tuple[Any, ...]:
        """What the page below its top is made of."""
        lines = self.log.lines[-1:] if self.log else []
        return (
            self.picture.of, self.idle,
            *((line.file_id, line.line_no, line.text) for line in lines),
        )  # fmt: skip


def is_paused() -> bool:
    """Whether the reader has stopped the page."""
    return _PAUSED in st.session_state


def pause_or_go_on() -> None:
    """Keep what is shown, or show again what there is now."""
    if st.session_state.pop(_PAUSED, None) is None and _SHOWN in st.session_state:
        st.session_state[_PAUSED] = st.session_state[_SHOWN]


def paused(choice: str, window: str) -> View | None:
    """What is kept; choosing another run or time ends it, a new start of the server does not."""
    view: View | None = st.session_state.get(_PAUSED)
    if view is not None and view.of != (choice, window):
        del st.session_state[_PAUSED]
        return None
    return view


def drawn(view: View) -> None:
    """Remember what stands on the page."""
    st.session_state[_SHOWN] = view


def differs(view: View) -> bool:
    """Whether more than the clock has changed since the page was drawn."""
    before: View | None = st.session_state.get(_SHOWN)
    return before is None or before.parts() != view.parts()


def choices(context: Context) -> dict[str, str]:
    """What can be looked at, with its name: followed sources first, then every run."""
    names, newest = _runs(context)
    latest = {
        f"{LATEST}{status.source_id}": sentences.source_name(status.source_id, status.label)
        for status in followed.sources(context)
        if status.source_id in newest
    }
    return {key: f"{name}, latest start" for key, name in latest.items()} | names


def run_of(context: Context, choice: str) -> str:
    """The run that a choice means now."""
    if not choice.startswith(LATEST):
        return choice
    _, newest = _runs(context)
    return newest[choice.removeprefix(LATEST)]


def _runs(context: Context) -> tuple[dict[str, str], dict[str, str]]:
    """The names of all runs, and the newest run of each source."""
    store = str(context.store.path)
    return _named(context, store, _written(context, store, context.store.revision))


@st.cache_resource(max_entries=4, show_spinner=False)
def _written(_context: Context, store: str, revision: int) -> tuple[int | None, ...]:
    with _context.store.cursor() as con:
        return queries.runs_written(con)


@st.cache_resource(max_entries=4, show_spinner=False)
def _named(
    _context: Context, store: str, written: tuple[int | None, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    with _context.store.cursor() as con:
        runs = queries.runs_named(con)
    oldest_first = runs.reverse()
    return run_names(runs), dict(
        zip(oldest_first["source_id"], oldest_first["run_id"], strict=True)
    )


def status_of(context: Context, card: Mapping[str, Any]) -> SourceStatus | None:
    """The state of the run's source, while this run is the one being written."""
    _, newest = _runs(context)
    for status in followed.sources(context, newest):
        if status.source_id == card["source_id"] and status.run_id in (None, card["run_id"]):
            return status
    return None


def age_s(status: SourceStatus | None) -> float | None:
    """Seconds since the source's last line arrived."""
    if status is None or status.last_line_at is None:
        return None
    return max(0.0, (datetime.now(UTC) - status.last_line_at).total_seconds())


_seen: dict[str, tuple[datetime, float]] = {}


def quiet_s(run_id: str, last_ts: datetime, status: SourceStatus | None) -> float:
    """Seconds since the run's last sample arrived.

    Counted on this machine's clock, since a log's clock has no zone. A sample that was not seen
    before is taken to be as old as the source's last line: it may be of a log that was written
    yesterday and is being read now. Of a line that another machine has stored that is only told
    by its clock, so one that comes while we look is new.
    """
    now = time.monotonic()
    known = _seen.get(run_id)
    if known is None or known[0] != last_ts:
        age = None if known and isinstance(status, Remote) else age_s(status)
        unknown = 0.0 if known else float("inf")
        known = _seen[run_id] = (last_ts, now - (unknown if age is None else age))
    return now - known[1]
