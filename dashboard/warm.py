"""Loads what the first page is made with, while the browser of its visitor still loads the frame.

Altair, pandas and the pages themselves take a second or two to import, once in a process. At the
start of the server that time belongs to reading the logs, and many a server is never visited.
"""

from __future__ import annotations

import threading
from functools import cache
from importlib import import_module


@cache
def begin() -> threading.Thread:
    """Load it, beside everything else; a second call does nothing."""
    thread = threading.Thread(target=_load, name="warm-up", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    import_module("pandas")  # Streamlit takes it for the data of a chart
    for page in ("bench", "compare", "explore", "incidents", "live", "run", "runs"):
        import_module(f"dashboard.pages.{page}")
    from dashboard.charts import live, series

    for look in live.LOOKS:
        series.template(look)
