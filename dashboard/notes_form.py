"""What the user says of a run, and the buttons that change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.context import current
from data import notes


def buttons(card: Mapping[str, Any]) -> None:
    """Baseline and archive: each says what it would do."""
    store, run_id = current().store, str(card["run_id"])
    marked = bool(card["baseline"])
    if st.button(
        "No longer the baseline" if marked else "Use as baseline",
        icon=":material/flag:", key="set_baseline",
        help="Compare and the tiles hold other runs of this model against the baseline.",
    ):  # fmt: skip
        notes.use_as_baseline(store, run_id, baseline=not marked)
        st.rerun()
    archive_button([card])


def archive_button(cards: Sequence[Mapping[str, Any]]) -> None:
    """Archives the runs, or brings them back when all are archived."""
    away = all(card["archived"] for card in cards)
    if st.button(
        "Unarchive" if away else "Archive",
        icon=":material/unarchive:" if away else ":material/archive:", key="set_archived",
        help="An archived run is left out of the list until it is asked for; nothing is deleted.",
    ):  # fmt: skip
        run_ids = [str(card["run_id"]) for card in cards]
        notes.archive(current().store, run_ids, archived=not away)
        st.rerun()


def form(card: Mapping[str, Any]) -> None:
    """Label, tags and note of one run."""
    store, run_id = current().store, str(card["run_id"])
    with st.form(f"notes_{run_id}", border=True):
        left, right = st.columns(2)
        label = left.text_input("Label", card["label"] or "", max_chars=120, key=f"label_{run_id}")
        tags = right.text_input(
            "Tags, with commas between", ", ".join(card["tags"] or []), max_chars=400,
            key=f"tags_{run_id}",
        )  # fmt: skip
        note = st.text_area(
            "Note", card["note"] or "", max_chars=notes.NOTE_LENGTH, key=f"note_{run_id}", height=90
        )
        if st.form_submit_button("Save", icon=":material/save:"):
            notes.describe(store, run_id, label, tags.split(","), note)
            st.rerun()
