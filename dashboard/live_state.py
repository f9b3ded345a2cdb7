"""What the Live page shows at one moment: the choice, the state, the figures.

Figures are built once for each state of the store and shared by all visitors; between two
appends a page only counts the seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import duckdb
import streamlit as st

from dashboard import sentences, theme
from dashboard.charts.live import Figure, figures
from dashboard.charts.marks import marks
from dashboard.context import Context, SourceStatus
from data import queries

LATEST: Final = "latest:"  # before a source_id: whatever run of that source started last
WINDOWS: Final[dict[str, float | None]] = {
    "5 min": 300.0,
    "15 min": 900.0,
    "1 h": 3600.0,
    "whole run": None,
}
_SHORTEST_S: Final = 10.0  # of the time axis
# Stamps are whole seconds: a shorter bucket would show their rounding as throughput.
_BUCKET_S: Final = 2.0
_POINTS: Final = 300


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything of a run that changes only when something new was stored."""

    card: Mapping[str, Any]
    tiles: queries.LiveTiles | None
    figures: Sequence[Figure]


def choices(context: Context) -> dict[str, str]:
    """What can be looked at, with its name: followed sources first, then every run."""
    names, newest = _runs(context, str(context.store.path), context.store.revision)
    latest = {
        f"{LATEST}{status.source_id}": sentences.source_name(status.source_id, status.label)
        for status in context.supervisor.status()
        if status.source_id in newest
    }
    return {key: f"{name}, latest start" for key, name in latest.items()} | names


def run_of(context: Context, choice: str) -> str:
    """The run that a choice means now."""
    if not choice.startswith(LATEST):
        return choice
    _, newest = _runs(context, str(context.store.path), context.store.revision)
    return newest[choice.removeprefix(LATEST)]


@st.cache_resource(max_entries=4, show_spinner=False)
def _runs(_context: Context, store: str, revision: int) -> tuple[dict[str, str], dict[str, str]]:
    """The names of all runs, and the newest run of each source."""
    with _context.store.cursor() as con:
        runs = queries.runs_named(con)
    names = {card["run_id"]: sentences.run_name(card) for card in runs.iter_rows(named=True)}
    oldest_first = runs.reverse()
    return names, dict(zip(oldest_first["source_id"], oldest_first["run_id"], strict=True))


def picture(context: Context, run_id: str, window: str) -> Picture:
    """The run as the store has it now."""
    revision = context.store.revision
    known = _changes.get(run_id)
    if known is None or known[0] != revision:
        with context.store.cursor() as con:
            known = _changes[run_id] = (revision, queries.run_changes(con, run_id))
    return _picture(context, str(context.store.path), run_id, window, known[1])


_changes: dict[str, tuple[int, int]] = {}  # run_id: revision of the store, changes of the run


@st.cache_resource(max_entries=24, show_spinner=False)
def _picture(_context: Context, store: str, run_id: str, window: str, changes: int) -> Picture:
    with _context.store.cursor() as con:
        card = queries.run_card(con, run_id)
        assert card is not None, run_id
        tiles = queries.live_tiles(con, run_id)
        span = _span(con, card, WINDOWS[window])
        if span is None:
            return Picture(card, tiles, [])
        points = min(_POINTS, int((span[1] - span[0]).total_seconds() / _BUCKET_S))
        curves = queries.series(con, run_id, *span, points=points)
        events = marks(queries.events(con, run_id), card)
    cap = None if tiles is None else tiles.running_cap
    speculates = card["spec_algorithm"] is not None
    slot = theme.run_slot(run_id)
    return Picture(card, tiles, figures(curves, events, span, slot, cap, speculates=speculates))


def status_of(context: Context, card: Mapping[str, Any]) -> SourceStatus | None:
    """The state of the run's source, while this run is the one being written."""
    for status in context.supervisor.status():
        if status.source_id == card["source_id"] and status.run_id in (None, card["run_id"]):
            return status
    return None


def age_s(status: SourceStatus | None) -> float | None:
    """Seconds since the source's last line arrived."""
    if status is None or status.last_line_at is None:
        return None
    return max(0.0, (datetime.now(UTC) - status.last_line_at).total_seconds())


_seen: dict[str, tuple[datetime, float]] = {}


def quiet_s(run_id: str, last_ts: datetime, line_age_s: float | None) -> float:
    """Seconds since the run's last sample arrived.

    Counted on this machine's clock, since a log's clock has no zone. Before the first look the
    sample is taken to be as old as the source's last line.
    """
    now = time.monotonic()
    known = _seen.get(run_id)
    if known is None or known[0] != last_ts:
        since = now if known else now - (float("inf") if line_age_s is None else line_age_s)
        known = _seen[run_id] = (last_ts, since)
    return now - known[1]


def _span(
    con: duckdb.DuckDBPyConnection, card: Mapping[str, Any], window_s: float | None
) -> tuple[datetime, datetime] | None:
    stored = queries.run_span(con, card["run_id"])
    if stored is None:
        if card["started_at"] is None:
            return None
        return card["started_at"], card["started_at"] + timedelta(seconds=_SHORTEST_S)
    first, last = stored
    start = min(first, card["started_at"] or first)
    if window_s is not None:
        start = max(start, last - timedelta(seconds=window_s))
    return min(start, last - timedelta(seconds=_SHORTEST_S)), last
