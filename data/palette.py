"""The colours of all charts: one set for light paper, one for the dark page.

They are Okabe and Ito's, told apart without hue, darkened for white and lightened for dark so that
each keeps a contrast of at least 3:1 against its background.
"""

from __future__ import annotations

from typing import Final

_LIGHT_HEX: Final = "0072B2 C1520A 00805C B0568A 8A6A00 5B5BD6 2A7F9E 6B6B6B"
_DARK_HEX: Final = "56B4E9 F0883E 2BC49A E79AC5 E6C229 A5A5FF 7FD6F2 B5B5B5"
LIGHT: Final = [f"#{colour}" for colour in _LIGHT_HEX.split()]
DARK: Final = [f"#{colour}" for colour in _DARK_HEX.split()]
