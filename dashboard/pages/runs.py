"""The Runs page: every start of every server, one row each."""

from __future__ import annotations

import streamlit as st


def page() -> None:
    st.write("x")
