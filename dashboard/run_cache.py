"""Runs with all their samples, each read once for all visitors until something of it is stored."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from dashboard.context import Context
from data import baseline, run_data, run_now
from data.findings.model import Finding
from data.findings.rules import findings
from data.run_data import RunData
from data.run_now import Changes

_MOST_SAMPLES: Final = 2_000_000  # of all runs kept: 1.5 GB with what is made of them
LONG: Final = 100_000  # samples: more take too long for a page to wait for
_kept: dict[tuple[str, str], tuple[Changes, RunData]] = {}  # by store and run, oldest use first
_turn = threading.Lock()


def changes_of(context: Context, run_id: str) -> Changes:
    """What differs after everything that was stored of a run."""
    with context.store.cursor() as con:
        return run_now.changes(con, run_id)


def is_long(card: Mapping[str, Any]) -> bool:
    """Whether the analysis of a run is done beside its page."""
    return samples_of(card) > LONG


def samples_of(card: Mapping[str, Any]) -> int:
    """How many samples a run has."""
    return sum(card[f"n_{kind}"] or 0 for kind in ("decode", "prefill", "stats", "spec"))


def loaded(context: Context, run_id: str, changes: Changes) -> RunData:
    """The run as it was at these changes, or newer."""
    key = (str(context.store.path), run_id)
    with _turn:
        known = _kept.pop(key, None)
        if known is not None and known[0] == changes:
            _kept[key] = known  # behind all others: the last to go
            return known[1]
    with context.store.cursor() as con:
        run = run_data.load(con, run_id)
    with _turn:
        _kept[key] = (changes, run)
        while len(_kept) > 1 and sum(r.samples.height for _, r in _kept.values()) > _MOST_SAMPLES:
            del _kept[next(iter(_kept))]
    return run


@st.cache_resource(max_entries=32, show_spinner=False)
def found(_context: Context, store: str, run_id: str, changes: Changes) -> list[Finding]:
    """What the rules find in a run, held against a comparable run without speculation."""
    run = loaded(_context, run_id, changes)
    with _context.store.cursor() as con:
        return findings(run, baseline.find_base(con, run))
