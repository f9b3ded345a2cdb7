"""A page never shows a traceback: what went wrong with the store is said in one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import duckdb
import streamlit as st

from dashboard import words


def guarded(page: Callable[[], None]) -> Callable[[], None]:
    """The page, with one clear line in place of an error of the store."""

    @wraps(page)
    def run() -> None:
        try:
            page()
        except duckdb.Error as error:
            st.error(
                f"The store could not be read: {words.plain(str(error).splitlines()[0])} "
                "Restart Servescope; if this line stays, start it with another --store and import "
                "the logs again. The logs themselves are never touched.",
                icon=":material/error:",
            )

    return run
