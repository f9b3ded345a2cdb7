"""Loads what the first page is made with, while the browser of its visitor still loads the frame.

Altair, pandas and the pages themselves take a second or two to import, once in a process. At the
start of the server that time belongs to reading the logs, and many a server is never visited.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module
from typing import Final

_PAGES: Final = (
    "bench", "compare", "explore", "incidents", "live", "metrics", "run", "runs", "sources",
)  # fmt: skip


_turn = threading.Lock()


def begin() -> threading.Thread:
    """Load it, beside everything else; a second call does nothing."""
    with _turn:  # two who reconnect at once would else begin twice
        return begun()


@cache
def begun() -> threading.Thread:
    """The thread that loads it."""
    thread = threading.Thread(target=_load, name="warm-up", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    import_module("pandas")  # Streamlit takes it for the data of a chart
    for page in _PAGES:
        import_module(f"dashboard.pages.{page}")
    for module in ("gate", "style", "system_theme"):
        import_module(f"dashboard.{module}")
    from dashboard.charts import live, series

    for look in live.LOOKS:
        series.template(look)
