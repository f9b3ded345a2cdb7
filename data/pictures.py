"""Charts as SVG and PNG files. vl-convert draws them without a browser and without network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from data.palette import LIGHT, LIGHT_NOTE, NOTE

_WIDTH: Final = 720  # of a chart that takes the width of its page
_UNDRAWABLE = re.compile(r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONFIG: Final = {
    "font": "DejaVu Sans, Arial, sans-serif",
    "background": "white",
    "range": {"category": LIGHT},
    "style": {NOTE: {"color": LIGHT_NOTE}},
}


def svg(spec: Mapping[str, Any]) -> str:
    """A chart (Vega-Lite) as SVG text, on white and in the colours for it."""
    import vl_convert

    given = spec.get("config", {})
    whole = {**spec, "config": {**given, **_CONFIG}}
    if "spec" not in spec and not any(name.endswith("concat") for name in spec):
        whole.setdefault("width", _WIDTH)
    return str(vl_convert.vegalite_to_svg(drawable(whole), allowed_base_urls=[]))


def png(picture: str) -> bytes:
    """An SVG as PNG, two pixels a point."""
    import vl_convert

    return bytes(vl_convert.svg_to_png(picture, scale=2))


def drawable(value: Any) -> Any:
    """A chart, or a text of one, without characters that SVG, or line ends that Vega, cannot hold.

    Of the first ones the drawing library ends the whole process, a running dashboard too.
    """
    if isinstance(value, str):
        return _UNDRAWABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, Mapping):
        return {drawable(name): drawable(held) for name, held in value.items()}
    return [drawable(held) for held in value] if isinstance(value, list) else value
