"""Colours of the pages: light and dark settings of Streamlit, and which colour a run has."""

from __future__ import annotations

from typing import Any, Final

from data import palette
from data.palette import DARK, LIGHT, slot

RULE: Final = palette.RULE
FAULT: Final = palette.FAULT
CHOSEN: Final = "#C2188B"  # the moment that the reader has chosen: 3:1 on both backgrounds
WARNING: Final = "#A87900"  # 3:1 on both backgrounds, as FAULT

_LIGHT_PAGE: Final = {
    "primaryColor": LIGHT[0],
    "backgroundColor": "#FFFFFF",
    "secondaryBackgroundColor": "#F3F5F7",
    "textColor": "#0B0F14",  # Streamlit shows captions at 60 % of it: 4.5:1 still
    "borderColor": "#D5DAE0",
    "chartCategoricalColors": LIGHT,
}
_DARK_PAGE: Final = {
    "primaryColor": DARK[0],
    "backgroundColor": "#12161C",
    "secondaryBackgroundColor": "#1C222B",
    "textColor": "#E6E9ED",
    "borderColor": "#38414D",
    "chartCategoricalColors": DARK,
}


def options() -> dict[str, Any]:
    """The theme as Streamlit settings. The browser's preference picks light or dark."""
    return {
        **{f"theme.light.{name}": value for name, value in _LIGHT_PAGE.items()},
        **{f"theme.dark.{name}": value for name, value in _DARK_PAGE.items()},
        "theme.baseRadius": "small",
        "theme.showWidgetBorder": True,
        "theme.metricValueFontSize": "1.75rem",
    }


def chart_config(*, dark: bool) -> dict[str, Any]:
    """Colours of the words in a chart, each 4.5:1 and more on its page."""
    note = palette.DARK_NOTE if dark else palette.LIGHT_NOTE
    words = {"labelColor": note, "titleColor": note}
    return {"axis": words, "legend": words, "style": {palette.NOTE: {"color": note}}}


def run_slot(run_id: str) -> str:
    """The palette slot of a run: the same on every page, for ever."""
    return str(slot(run_id))


def page(*, dark: bool) -> dict[str, Any]:
    """The page's own colours, for the few style rules that need them."""
    return dict(_DARK_PAGE if dark else _LIGHT_PAGE)
