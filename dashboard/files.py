"""Files to take along, made when their menu is opened.

Streamlit can make a file when its button is clicked, but knows the button by a number that every
rerun of the page replaces: a click during one is lost without a word. Here the files are made once
for an open menu and keep their address until it is closed, also while the page shows newer data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st


@dataclass(frozen=True, slots=True)
class File:
    """One entry of a menu."""

    label: str
    name: str
    mime: str
    content: bytes


def menu(
    label: str, key: str, make: Callable[[], Sequence[File]], *, help: str, type: Any = "secondary"
) -> None:
    """A button that opens a menu of files.

    Args:
        key: another one for each menu of a page.
        make: gives the files; called once each time the menu is opened.
    """
    opened = st.popover(
        label, key=f"save_{key}", type=type, icon=":material/download:", on_change="rerun",
        help=help,
    )  # fmt: skip
    held = f"files_{key}"
    if not opened.open:
        st.session_state.pop(held, None)
        return
    if held not in st.session_state:
        with opened, st.spinner("Making the files …"):
            st.session_state[held] = list(make())
    for file in st.session_state[held]:
        opened.download_button(
            file.label, file.content, file.name, file.mime, on_click="ignore",
            key=f"{key}_{file.name}", width="stretch",
        )  # fmt: skip
