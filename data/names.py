"""What strangers wrote, made fit to stand in a sentence, on a terminal, in Markdown."""

from __future__ import annotations

import re
from typing import Final

# Control characters, and those that turn the direction of all the text behind them.
_BLANKS: Final = re.compile(r"[\t\r\n]+")
_UNRULY: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]+"
)


def tame(text: str) -> str:
    """The text without characters that change what stands around it; they show as �,
    and line ends as blanks.

    Letters that are written from right to left stay; only they run so.
    """
    return _UNRULY.sub("\N{REPLACEMENT CHARACTER}", _BLANKS.sub(" ", text))


def printable(text: str, kept: str = "") -> str:
    """The text for a terminal: no control character of a log moves the cursor or sets a colour.

    Args:
        kept: characters that stay although they are some, such as the line ends of a whole text.
    """
    return "".join(char if char.isprintable() or char in kept else " " for char in text)


def escaped(text: str) -> str:
    """The text for a line of Markdown: what it quotes of a log cannot become markup."""
    for bad in ("\\", "`", "*", "_", "[", "|", "#"):
        text = text.replace(bad, "\\" + bad)
    return text.replace("<", "&lt;").replace("\n", " ")
