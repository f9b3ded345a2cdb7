"""A run as the store has it now: card, tiles, figures.

Built once for each change of the run and shared by all visitors; between two appends a page
only counts the seconds. A long span is drawn less often than its run changes: one more sample
in a bucket of minutes is not seen, and the query over a week of samples takes a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final

import polars as pl
import streamlit as st

from dashboard import theme
from dashboard.charts.bands import bands, sentence
from dashboard.charts.figure import Figure
from dashboard.charts.live import figures, sparks
from dashboard.charts.marks import marks
from dashboard.context import Context
from data import queries, run_curves, run_now
from data.run_now import Changes

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
_LONGEST_WAIT_S: Final = 10.0  # for a redraw

Written = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything of a run that changes only when something new was stored."""

    card: Mapping[str, Any]
    tiles: run_curves.LiveTiles | None
    figures: Sequence[Figure]
    sparks: Mapping[str, Sequence[float]]  # the shape of the curves, by their column
    bench: str | None  # the benchmark points of this time, in words
    of: tuple[Any, ...]  # another one for another picture


@dataclass(frozen=True, slots=True)
class _Drawing:
    figures: Sequence[Figure]
    sparks: Mapping[str, Sequence[float]]
    bench: str | None


@dataclass(frozen=True, slots=True)
class _Drawn:
    changes: Changes
    at: float  # monotonic clock
    wait_s: float


_changes: dict[str, tuple[int, Changes]] = {}  # run_id: revision of the store, changes of the run
_drawn: dict[tuple[str, str], _Drawn] = {}  # run_id and window: what stands on the pages


def picture(context: Context, run_id: str, window: str) -> Picture:
    """The run now."""
    store = str(context.store.path)
    changes = _changes_of(context, run_id)
    card, latest, tiles = _state(context, store, run_id, changes)
    span = _span(card, WINDOWS[window])
    if span is None:
        return Picture(card, tiles, [], {}, None, (run_id, changes))
    drawn = _drawn.get((run_id, window))
    is_old = drawn is not None and drawn.changes != changes
    if drawn is None or (is_old and monotonic() - drawn.at >= drawn.wait_s):
        bucket_s = (span[1] - span[0]).total_seconds() / _POINTS
        wait_s = min(bucket_s / 4, _LONGEST_WAIT_S)
        drawn = _drawn[run_id, window] = _Drawn(changes, monotonic(), wait_s)
    made = _drawing(context, card, latest, tiles, store, run_id, window, drawn.changes)
    of = (run_id, changes, drawn.changes)
    return Picture(card, tiles, made.figures, made.sparks, made.bench, of)


def _changes_of(context: Context, run_id: str) -> Changes:
    revision = context.store.revision
    known = _changes.get(run_id)
    if known is None or known[0] != revision:
        with context.store.cursor() as con:
            known = _changes[run_id] = (revision, run_now.changes(con, run_id))
    return known[1]


@st.cache_resource(max_entries=24, show_spinner=False)
def _state(
    _context: Context, store: str, run_id: str, changes: Changes
) -> tuple[dict[str, Any], run_curves.Latest | None, run_curves.LiveTiles | None]:
    told = _told(_context, store, run_id, changes.facts, changes.notes)
    card = run_now.card(told, changes)
    with _context.store.cursor() as con:
        card["fault"] = queries.first_fault(con, run_id) if card["n_faults"] else None
        latest = run_curves.latest_samples(con, card)
        return card, latest, run_curves.live_tiles(latest, card)


@st.cache_resource(max_entries=24, show_spinner=False)
def _told(_context: Context, store: str, run_id: str, facts: int, notes: int) -> dict[str, Any]:
    with _context.store.cursor() as con:
        told = run_now.told(con, run_id)
    assert told is not None, run_id
    return told


@st.cache_resource(max_entries=24, show_spinner=False)
def _marks(
    _context: Context, _card: Mapping[str, Any], store: str, run_id: str, facts: int, events: int
) -> pl.DataFrame:
    with _context.store.cursor() as con:
        return marks(queries.marked_events(con, run_id), _card)


@st.cache_resource(max_entries=24, show_spinner=False)
def _drawing(
    _context: Context,
    _card: Mapping[str, Any],
    _latest: run_curves.Latest | None,
    _tiles: run_curves.LiveTiles | None,
    store: str,
    run_id: str,
    window: str,
    changes: Changes,
) -> _Drawing:
    span = _span(_card, WINDOWS[window])
    assert span is not None, run_id
    points = min(_POINTS, int((span[1] - span[0]).total_seconds() / _BUCKET_S))
    with _context.store.cursor() as con:
        curves = run_curves.series(con, run_id, *span, points, _latest)
        written = queries.bench_written(con)
    events = _marks(_context, _card, store, run_id, changes.facts, changes.events)
    served = bands(_bench(_context, store, run_id, written), span)
    cap = None if _tiles is None else _tiles.running_cap
    speculates = _card["spec_algorithm"] is not None
    slot = theme.run_slot(run_id)
    made = figures(curves, events, span, slot, cap, speculates=speculates, bands=served)
    return _Drawing(made, sparks(curves), sentence(served))


@st.cache_resource(max_entries=24, show_spinner=False)
def _bench(_context: Context, store: str, run_id: str, written: Written) -> pl.DataFrame:
    """The benchmark points of a run: seldom new ones, but asked for as often as it changes."""
    with _context.store.cursor() as con:
        return queries.bench_points(con, run_id)


def _span(card: Mapping[str, Any], window_s: float | None) -> tuple[datetime, datetime] | None:
    """The time to draw; of a run without samples its first seconds."""
    first, last = card["first_ts"], card["last_ts"]
    if last is None:
        start = card["started_at"]
        return None if start is None else (start, start + timedelta(seconds=_SHORTEST_S))
    start = min(first, card["started_at"] or first)
    if window_s is not None:
        start = max(start, last - timedelta(seconds=window_s))
    return min(start, last - timedelta(seconds=_SHORTEST_S)), last
