"""Links from page to page. A page is known by its address, so each is named here once more."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st


def to_live(run_id: str) -> None:
    """A link to the Live page with the whole of a run."""
    from dashboard.pages import live

    st.page_link(
        st.Page(live.page, title="Live", url_path="live", default=True),
        label="Open in Live", icon=":material/monitoring:",
        query_params={"run": run_id, "window": "whole run"},
    )  # fmt: skip


def to_run(run_id: str, label: str = "Open the run's page") -> None:
    """A link to the page of a run."""
    from dashboard.pages import run

    st.page_link(
        st.Page(run.page, title="Run", url_path="run", visibility="hidden"),
        label=label, icon=":material/article:", query_params={"run": run_id},
    )  # fmt: skip


def to_compare(base: str, others: Sequence[str], label: str) -> None:
    """A link to the Compare page with a baseline and other runs."""
    from dashboard.pages import compare

    st.page_link(
        st.Page(compare.page, title="Compare", url_path="compare"),
        label=label, icon=":material/compare_arrows:",
        query_params={"base": base, "with": list(others)},
    )  # fmt: skip


def to_runs(label: str = "All runs") -> None:
    """A link to the list of runs."""
    from dashboard.pages import runs

    st.page_link(
        st.Page(runs.page, title="Runs", url_path="runs"),
        label=label, icon=":material/table_rows:",
    )  # fmt: skip


def to_metrics() -> None:
    """A link to what every number means."""
    from dashboard.pages import metrics

    st.page_link(
        st.Page(metrics.page, title="Metrics", url_path="metrics"),
        label="All metrics and formulas", icon=":material/help:",
    )  # fmt: skip
