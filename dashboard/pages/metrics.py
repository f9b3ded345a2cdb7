"""The Metrics page: every number with its unit, its formula and the lines that it comes from."""

from __future__ import annotations

import streamlit as st

from dashboard import metric_help
from dashboard.guard import guarded


@guarded
def page() -> None:
    """The document as it stands in docs/metrics.md."""
    st.markdown(metric_help.document())
