"""Which runs the Compare page lays side by side, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from dashboard import run_cache, run_view
from dashboard.charts import compare as charts
from dashboard.charts.economics import economics_figure
from dashboard.charts.figure import Figure
from dashboard.context import Context
from dashboard.run_cache import changes_of
from data import aligned, long_run
from data.asked import side_by_side
from data.compare import Comparison, Group, compare, grouped
from data.run_data import RunData
from data.run_now import Changes

# Each run_id with what it holds now and its name, the baseline first.
Asked = tuple[tuple[str, Changes, str], ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, and what of the chosen runs it leaves out."""

    comparison: Comparison | None  # None: fewer than two runs have anything to compare
    groups: Sequence[Group]
    notes: tuple[str, ...]


def asked(context: Context, run_ids: Sequence[str], names: Mapping[str, str]) -> Asked:
    """The runs with what the store holds of them now, and their names of data.run_names."""
    return tuple((run_id, changes_of(context, run_id), names[run_id]) for run_id in run_ids)


def loaded(context: Context, wanted: Asked) -> list[RunData]:
    """The runs in that order, read side by side."""
    return side_by_side(lambda one: run_cache.loaded(context, *one[:2]), wanted)


def samples_of(wanted: Asked) -> int:
    """How many samples the runs have together."""
    return int(sum(changes.samples for _, changes, _ in wanted))


def is_long(wanted: Asked) -> bool:
    """Whether they are compared beside the page."""
    return samples_of(wanted) > run_cache.LONG


def prepare(context: Context, store: str, wanted: Asked, by: str) -> None:
    """Have all that the page shows of these runs in its caches."""
    if compared(context, store, wanted).comparison is not None:
        drawn(context, store, wanted)
        curves(context, store, wanted, by)


@st.cache_resource(max_entries=3, show_spinner=False)
def compared(_context: Context, store: str, wanted: Asked) -> Compared:
    """All runs against the first one."""
    runs = loaded(_context, wanted)
    useful = [run for run in runs if run.windows.height]
    names = {run_id: name for run_id, _, name in wanted}
    notes = tuple(
        f"{names[run.card['run_id']]} has no decode or stats line, so it is left out."
        for run in runs if not run.windows.height
    )  # fmt: skip
    notes += tuple(
        f"{names[run.card['run_id']]}: {run_view.in_pieces(run_cache.samples_of(run.card))}"
        for run in runs if run_cache.samples_of(run.card) > long_run.MOST
    )  # fmt: skip
    if len(useful) < 2:
        return Compared(None, (), notes)
    groups = grouped([(run.name if run.card["label"] else None, run) for run in useful], names)
    if len(groups) == 1:
        # Starts of one configuration: then how starts differ is what was asked for.
        groups = grouped([(f"{run.name}, start {n}", run) for n, run in enumerate(useful, 1)])
        notes += ("These are starts of one configuration: what differs is chance or surroundings.",)
    return Compared(compare(groups), tuple(groups), notes)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The charts of a comparison; None where there is nothing to draw."""

    running: Figure
    spread: Figure | None
    economics: Figure | None


@st.cache_resource(max_entries=16, show_spinner=False)
def drawn(_context: Context, store: str, wanted: Asked) -> Drawn:
    """The charts that no choice on the page changes, built once for all visitors."""
    found = compared(_context, store, wanted)
    assert found.comparison is not None
    return Drawn(
        charts.running_figure(found.groups),
        charts.spread_figure(found.groups),
        economics_figure(found.comparison),
    )


@st.cache_resource(max_entries=24, show_spinner=False)
def curves(
    _context: Context, store: str, wanted: Asked, by: str
) -> tuple[Figure | None, list[str]]:
    """The throughput of the runs on one axis, and the names of those that it cannot hold."""
    groups = compared(_context, store, wanted).groups
    names = {run_id: name for run_id, _, name in wanted}
    runs = [run for group in groups for run in group.runs]
    frame, silent = aligned.series(_context.store, runs, by)
    return charts.aligned_figure(frame, groups, by), [names[run.card["run_id"]] for run in silent]
