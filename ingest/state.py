"""Keeps checkpoints small: what is long in a parser's state is stored once, by its hash.

The state names a run's whole argument dump (tens of kilobytes) and is committed with every block,
several times a second on a live log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

_LONG_CHARS = 200
_REFERENCE = "$text"


def dumped(state: Mapping[str, Any]) -> str:
    """The state as JSON; dataclasses in it by the names of their fields."""
    return json.dumps(state, default=_by_name)


def pack(state: Any) -> tuple[str, dict[str, str]]:
    """The state as JSON with its long texts replaced by references, and those texts by hash."""
    texts: dict[str, str] = {}

    def shorten(value: Any) -> Any:
        if isinstance(value, str):
            return _reference(value, texts) if len(value) > _LONG_CHARS else value
        if value is None or isinstance(value, (int, float)):
            return value
        if isinstance(value, list | tuple):
            return [shorten(inner) for inner in value]
        named = value if isinstance(value, dict) else _by_name(value)
        return {name: shorten(inner) for name, inner in named.items()}

    return json.dumps(shorten(state), separators=(",", ":")), texts


def _reference(text: str, texts: dict[str, str]) -> dict[str, str]:
    name = hashlib.sha256(text.encode()).hexdigest()[:32]
    texts[name] = text
    return {_REFERENCE: name}


def _by_name(value: Any) -> dict[str, Any]:
    """Unlike `asdict` without a copy of what is in it: the text is made at once."""
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}


def has_references(state: str) -> bool:
    """Whether a packed state refers to long texts."""
    return f'"{_REFERENCE}"' in state


def unpack(state: str, texts: Mapping[str, str]) -> str:
    """The state as it was before `pack`."""

    def lengthen(value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {_REFERENCE}:
            return texts[value[_REFERENCE]]
        return value

    return json.dumps(_walk(json.loads(state), lengthen))


def _walk(value: Any, change: Callable[[Any], Any]) -> Any:
    changed = change(value)
    if changed is not value:
        return changed
    if isinstance(value, dict):
        return {name: _walk(inner, change) for name, inner in value.items()}
    if isinstance(value, list):
        return [_walk(inner, change) for inner in value]
    return value
