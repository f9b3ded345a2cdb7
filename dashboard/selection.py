"""Tables whose rows can be selected: by id, kept in the address."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl
import streamlit as st

from dashboard import address, words

# The keys are those of the table that Streamlit draws; nothing else tells them.
KEYS: Final = "With keys: the arrows, then Shift+Space."


def table(
    shown: pl.DataFrame,
    ids: Sequence[str],
    name: str,
    columns: Mapping[str, Any],
    alt: str,
    *,
    several: bool = False,
) -> list[int]:
    """The table; the positions of its selected rows.

    Streamlit remembers a selection by position. The key changes with the rows, and what was
    selected is looked for again by its id, so that a new row on top moves no selection.

    Args:
        ids: one for each row.
        name: of the parameter that has the selected ids in the address.
    """
    held = f"selected_{name}"
    before = st.session_state.get(held, st.query_params.get_all(name))
    kept = [at for at, one in enumerate(ids) if one in before]
    rows = hashlib.sha256("".join(ids).encode()).hexdigest()[:12]
    event = st.dataframe(
        shown, key=f"{name}_{rows}", hide_index=True, placeholder=words.MISSING,
        column_order=[column for column in shown.columns if shown[column].count()],
        column_config=columns, on_select="rerun",
        selection_mode="multi-row" if several else "single-row",
        selection_default={"selection": {"rows": kept}}, alt=alt,
    )  # fmt: skip
    positions = [at for at in event["selection"]["rows"] if at < len(ids)]
    chosen = st.session_state[held] = [ids[at] for at in positions]
    if not address.keep(**{name: chosen}):
        st.caption("These are more rows than an address can name: it restores none of them.")
    return positions
