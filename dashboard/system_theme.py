"""The page follows when the system turns light or dark under it.

Streamlit changes its own colours at once; those of charts and of our style sheet are made by the
server (`theme.py`), so the page is run again.
"""

from __future__ import annotations

from typing import Final

import streamlit as st

_JS: Final = """
export default function ({setTriggerValue}) {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const ends = new AbortController();
  // A moment later: then Streamlit has taken the new colours and tells them with the run.
  const tell = () => setTimeout(() => setTriggerValue('dark', dark.matches), 300);
  dark.addEventListener('change', tell, {signal: ends.signal});
  return () => ends.abort();
}
"""


def follow() -> None:
    """Run the page again after each change."""
    mount = st.components.v2.component("servescope_system_theme", js=_JS, html="<div></div>")
    mount(key="system_theme", on_dark_change=lambda: None, height=1)
