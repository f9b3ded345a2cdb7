"""The colours of all charts: one set for light paper, one for the dark page.

They are Okabe and Ito's, told apart without hue, darkened for white and lightened for dark so that
each keeps a contrast of at least 3:1 against its background.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

_LIGHT_HEX: Final = "0072B2 C1520A 00805C B0568A 8A6A00 5B5BD6 2A7F9E 6B6B6B"
_DARK_HEX: Final = "56B4E9 F0883E 2BC49A E79AC5 E6C229 A5A5FF 7FD6F2 B5B5B5"
RULE: Final = "#848484"  # caps and event marks: 3:1 on both backgrounds
NOTE: Final = "note"  # the style of words in a chart, such as a cap's: each ground has its colour
LIGHT_NOTE: Final = "#5A616B"  # 4.5:1 and more on white
DARK_NOTE: Final = "#B4BAC3"  # the same on the dark page
FAULT: Final = "#D9480F"  # 3:1 on both backgrounds
LIGHT: Final = [f"#{colour}" for colour in _LIGHT_HEX.split()]
DARK: Final = [f"#{colour}" for colour in _DARK_HEX.split()]


def slot(run_id: str) -> int:
    """The place of a run's colour in LIGHT and DARK: the same everywhere, for ever."""
    return hashlib.sha256(run_id.encode()).digest()[0] % (len(LIGHT) - 1)


def slots(run_ids: Sequence[str]) -> list[int]:
    """Places for what is drawn together: where two share one, the later takes the next free."""
    taken: list[int] = []
    for run_id in run_ids:
        wanted = slot(run_id)
        order = [(wanted + step) % len(LIGHT) for step in range(len(LIGHT))]
        taken.append(next((place for place in order if place not in taken), wanted))
    return taken
