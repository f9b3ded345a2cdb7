"""The frame around every page: navigation and the style sheet. Streamlit runs it each time."""

from __future__ import annotations

import streamlit as st

from dashboard import warm

# One thread loads the modules of all pages, and whoever comes meanwhile waits: two that load the
# same modules at once may each find the other's half of one.
warm.begin().join()

from dashboard import gate, style, system_theme  # noqa: E402
from dashboard.pages import (  # noqa: E402
    bench,
    compare,
    explore,
    incidents,
    live,
    metrics,
    run,
    runs,
    sources,
)

# Drawn here: for its own icons in the browser tab Streamlit asks a server of Google.
_ICON = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="6" fill="#0072B2"/>
<path d="M4 20h6l4-11 5 16 4-9h5" fill="none" stroke="#fff" stroke-width="2.5"/></svg>"""

st.set_page_config(page_title="Servescope", page_icon=_ICON, layout="wide")
style.apply()
entered = gate.admitted()
chosen = st.navigation(
    [
        st.Page(
            live.page, title="Live", icon=":material/monitoring:", url_path="live", default=True
        ),
        st.Page(runs.page, title="Runs", icon=":material/table_rows:", url_path="runs"),
        st.Page(
            run.page, title="Run", icon=":material/article:", url_path="run", visibility="hidden"
        ),
        st.Page(
            compare.page, title="Compare", icon=":material/compare_arrows:", url_path="compare"
        ),
        st.Page(bench.page, title="Bench", icon=":material/speed:", url_path="bench"),
        st.Page(incidents.page, title="Incidents", icon=":material/warning:", url_path="incidents"),
        st.Page(explore.page, title="Explore", icon=":material/search:", url_path="explore"),
        st.Page(sources.page, title="Sources", icon=":material/cable:", url_path="sources"),
        st.Page(metrics.page, title="Metrics", icon=":material/help:", url_path="metrics"),
    ],
    position="top" if entered else "hidden",
)
if entered:
    chosen.run()
    gate.footer()
else:
    gate.page()
system_theme.follow()
