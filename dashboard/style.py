"""The little style sheet that Streamlit's own settings cannot express. Constant text only."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import theme

# The strip sticks below Streamlit's header, over the charts that scroll under it.
_CSS: Final = """<style>
[data-testid="stLayoutWrapper"]:has(> .st-key-status) {{
    position: sticky; top: 3.25rem; z-index: 90;
    padding: 0.4rem 0.2rem; background: {background};
    border-bottom: 1px solid {border};
}}
/* Their boxes would end the stickiness of the strip inside. */
[data-testid="stLayoutWrapper"]:has(> .st-key-top), .st-key-top,
.st-key-top > [data-testid="stLayoutWrapper"],
.st-key-top > [data-testid="stLayoutWrapper"] > [data-testid="stVerticalBlock"] {{
    display: contents !important;
}}
.stMainBlockContainer {{ padding: 4rem max(1rem, 2.5vw) 2rem; }}
.st-key-tiles {{
    display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.75rem;
}}
/* As high without a curve as with one: nothing moves when the first sample comes. */
[class*="st-key-tile_"] {{ min-height: 12.4rem; gap: 0.25rem; }}
[data-testid="stMetricDelta"] {{ color: {text}; }}
.st-key-q textarea {{ font-family: "Source Code Pro", monospace; font-size: 0.875rem; }}
/* Streamlit writes white on its primary colour, which is too light for that on the dark page. */
[data-testid="stMultiSelectTagsContainer"] [data-tag] *,
button[kind^="primary"], button[kind^="primary"] * {{ color: {on_primary} !important; }}
[data-testid="stMetricValue"] {{ font-variant-numeric: tabular-nums; }}
/* The page looks for news every second: no sign of it, or something would always move. */
[data-testid="stStatusWidget"] {{ display: none; }}
/* Words for those who cannot see the chart above them. */
[data-testid="stLayoutWrapper"]:has(> [class*="st-key-unseen_"]) {{
    position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
}}
/* What shows no focus of its own: a table, which is drawn, and the page that scrolls. */
[data-testid="stDataFrame"]:has(:focus-visible),
.stMain:focus-visible {{ outline: 2px solid {primary}; outline-offset: -2px; }}
/* Said at once when the server is gone; when it is back, the page goes on by itself. */
[data-testid="stApp"]:not([data-test-connection-state="CONNECTED"])::after {{
    content: "{lost}";
    position: fixed; inset: auto 0 0 0; z-index: 1000000; padding: 0.6rem 1rem;
    text-align: center; background: {text}; color: {background};
}}
/* Streamlit's own words come later and tell to start another program. */
body:has([data-test-connection-state]:not([data-test-connection-state="CONNECTED"]))
[data-testid="stDialog"] {{ display: none; }}
/* A fragment that reads for a moment is no reason to fade what stands. */
[data-stale="true"] {{ opacity: 1 !important; }}
</style>"""

LOST: Final = (
    "The connection to Servescope is lost, so nothing here moves. Is it still running? "
    "This page goes on by itself as soon as it answers."
)


def apply() -> None:
    """Add the style sheet to the page."""
    dark = st.context.theme.type == "dark"
    page = theme.page(dark=dark)
    st.html(
        _CSS.format(
            background=page["backgroundColor"],
            border=page["borderColor"],
            text=page["textColor"],
            lost=LOST,
            primary=page["primaryColor"],
            on_primary="#FFFFFF" if not dark else page["backgroundColor"],
        )
    )
