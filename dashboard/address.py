"""What the address keeps of a page beside the widgets that are bound to it.

Those are what no widget can bind: ids instead of names or positions, and texts that an address
cannot always hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

import streamlit as st

LONGEST: Final = 8_000  # characters, encoded: a line of a request that proxies let through


def keep(**wanted: Sequence[str]) -> bool:
    """Let the address have these values and no others of their names; False: they are too long for
    an address, which then has none of them.

    Written only where something is new: each change is a step of the browser's Back.
    """
    address = st.query_params
    others = {name: address.get_all(name) for name in address if name not in wanted}
    length = len(urlencode({**others, **wanted}, doseq=True))
    kept = {name: list(values) if length <= LONGEST else [] for name, values in wanted.items()}
    for name, values in kept.items():
        if not values and name in address:
            del address[name]
    new = {name: values for name, values in kept.items() if values != address.get_all(name)}
    if new:
        address.update(new)
    return length <= LONGEST
