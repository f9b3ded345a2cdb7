"""A page never shows a traceback: what went wrong with the store is said in one line."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec

import duckdb
import streamlit as st

from dashboard import words
from dashboard.context import current
from data.errors import AwayError, StoreError

Told = ParamSpec("Told")
LOOK_S = 2.0  # between two looks whether the store can be read again


def guarded(page: Callable[Told, None]) -> Callable[Told, None]:
    """The page, with one clear line in place of an error of the store."""

    @wraps(page)
    def run(*args: Told.args, **kwargs: Told.kwargs) -> None:
        try:
            page(*args, **kwargs)
        except (duckdb.Error, StoreError) as error:
            away = _away(error)
            said = str(away or error).splitlines()[0]
            st.error(
                f"The store could not be read: {words.plain(said)}{'.' if away else ''} "
                f"{current().store.advice(error)} The logs themselves are never touched.",
                icon=":material/error:",
            )
            if away is not None:
                st.fragment(_come_back, run_every=LOOK_S)(time.monotonic())

    return run


def _away(error: duckdb.Error | StoreError) -> AwayError | None:
    """What is told where the server of the store is away; None where something else is wrong."""
    told = error if isinstance(error, StoreError) else current().store.failure(error)
    return told if isinstance(told, AwayError) else None


def _come_back(failed_at: float) -> None:
    """Show the page as soon as the store can be read again; first asked while it is drawn."""
    if time.monotonic() - failed_at < LOOK_S / 2:
        return
    with suppress(duckdb.Error, StoreError):
        with current().store.cursor() as con:
            con.execute("SELECT value FROM store_facts").fetchall()
        st.rerun()
