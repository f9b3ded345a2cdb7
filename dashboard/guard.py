"""A page never shows a traceback: what went wrong with the store is said in one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import duckdb
import streamlit as st

from dashboard import words
from dashboard.context import current
from data.errors import StoreError

Told = ParamSpec("Told")


def guarded(page: Callable[Told, None]) -> Callable[Told, None]:
    """The page, with one clear line in place of an error of the store."""

    @wraps(page)
    def run(*args: Told.args, **kwargs: Told.kwargs) -> None:
        try:
            page(*args, **kwargs)
        except (duckdb.Error, StoreError) as error:
            said = str(error).splitlines()[0]
            st.error(
                f"The store could not be read: {words.plain(said)} "
                f"{current().store.when_unreadable} The logs themselves are never touched.",
                icon=":material/error:",
            )

    return run
