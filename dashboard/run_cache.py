"""Runs with all their samples, each read once for all visitors until something of it is stored."""

from __future__ import annotations

import streamlit as st

from dashboard.context import Context
from data import baseline, queries, run_data
from data.findings.model import Finding
from data.findings.rules import findings
from data.run_data import RunData

Changes = tuple[float | None, ...]


def changes_of(context: Context, run_id: str) -> Changes:
    """What differs after everything that was stored of a run."""
    with context.store.cursor() as con:
        return queries.run_changes(con, run_id)


def loaded(context: Context, run_id: str, changes: Changes) -> RunData:
    """The run as it was at these changes, or newer."""
    return _run(context, str(context.store.path), run_id, changes)


@st.cache_resource(max_entries=16, show_spinner=False)
def _run(_context: Context, store: str, run_id: str, changes: Changes) -> RunData:
    with _context.store.cursor() as con:
        return run_data.load(con, run_id)


@st.cache_resource(max_entries=32, show_spinner="Looking for findings …")
def found(_context: Context, store: str, run_id: str, changes: Changes) -> list[Finding]:
    """What the rules find in a run, held against a comparable run without speculation."""
    run = loaded(_context, run_id, changes)
    with _context.store.cursor() as con:
        return findings(run, baseline.find_base(con, run))
