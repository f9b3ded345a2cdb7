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


def pack(state: str) -> tuple[str, dict[str, str]]:
    """The state with its long texts replaced by references, and those texts by hash."""
    texts: dict[str, str] = {}

    def shorten(value: Any) -> Any:
        if isinstance(value, str) and len(value) > _LONG_CHARS:
            name = hashlib.sha256(value.encode()).hexdigest()[:32]
            texts[name] = value
            return {_REFERENCE: name}
        return value

    return json.dumps(_walk(json.loads(state), shorten), separators=(",", ":")), texts


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
