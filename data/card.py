"""One run as a text that a person reads: what it is, how it ran, and on demand its arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from data.names import printable

# Name in the card, column, unit and digits behind the point.
_IDENTITY = (
    ("run", "run_id", "", 0), ("label", "label", "", 0), ("source", "source_id", "", 0),
    ("version", "engine_version", "", 0), ("model", "model", "", 0),
    ("hardware", "hardware", "", 0), ("GPUs", "gpus", "", 0), ("started", "started_at", "UTC", 0),
    ("ready after", "ready_after_s", "s", 1), ("ended", "ended_at", "UTC", 0),
    ("state", "end_state", "", 0), ("duration", "duration_s", "s", 0),
    ("config hash", "config_hash", "", 0), ("tags", "tags", "", 0), ("note", "note", "", 0),
)  # fmt: skip
_SETTINGS = (
    ("tensor parallel", "tp", "", 0), ("data parallel", "dp", "", 0),
    ("pipeline parallel", "pp", "", 0), ("expert parallel", "ep", "", 0),
    ("speculation", "spec_algorithm", "", 0), ("speculative steps", "spec_steps", "", 0),
    ("draft tokens", "spec_draft_tokens", "", 0),
    ("running requests at most", "max_running_requests", "", 0),
    ("KV cache", "max_total_tokens", "tokens", 0), ("context", "context_len", "tokens", 0),
)  # fmt: skip
_SUMMARY = (
    ("tokens generated", "gen_tokens", "", 0), ("prompt tokens", "prompt_tokens", "", 0),
    ("decode at 1 request", "decode_tok_s_at_1", "tok/s", 1),
    ("steady decode", "steady_tok_s", "tok/s", 1), ("highest decode", "max_gen_tok_s", "tok/s", 1),
    ("acceptance length", "accept_len", "tokens", 2),
    ("most running", "max_running", "requests", 0),
    ("most queued", "max_queued", "requests", 0), ("highest KV usage", "max_kv_usage", "%", 0),
    ("faults", "n_faults", "", 0), ("retractions", "n_retractions", "", 0),
)  # fmt: skip
_WIDTH = 26


def source_name(source_id: str) -> str:
    """A file with its folder: many servers call their log the same."""
    return "/".join(Path(source_id).parts[-2:])


def card_text(card: Mapping[str, Any], *, args: bool) -> str:
    """The card and the summary; what is not known is left out."""
    lines = [f"{card['engine'] or 'engine not known'}", *_lines(card, _IDENTITY)]
    lines += ["", "Settings", *_lines(card, _SETTINGS)]
    lines += (_line(*pair) for pair in _objects(card["effective"]) if pair[0] not in card)
    lines += ["", "Summary", *_lines(card, _SUMMARY)]
    count = len(list(_objects(card["args"])))
    if args:
        lines += ["", "Arguments", *(_line(*pair) for pair in _objects(card["args"]))]
    elif count:
        lines += ["", f"{count} arguments; --args shows them"]
    return "\n".join(lines)


def card_json(card: Mapping[str, Any]) -> str:
    """The card and the summary as one JSON object; `args` and `effective` as objects in it."""
    parts = {name: json.loads(card[name]) if card[name] else None for name in ("args", "effective")}
    return json.dumps({**card, **parts}, default=str)


def _lines(card: Mapping[str, Any], fields: tuple[tuple[str, str, str, int], ...]) -> Iterator[str]:
    for name, column, unit, digits in fields:
        value = card[column]
        if value is not None and value != []:
            yield _line(name, _shown(value, unit, digits))


def _line(name: str, value: object) -> str:
    return printable(f"  {name:<{_WIDTH}}  {value}")


def _shown(value: Any, unit: str, digits: int) -> str:
    if unit == "UTC":  # over the control route a time comes as text
        value = datetime.fromisoformat(str(value)).isoformat(" ", "seconds")
    elif unit == "%":
        value = f"{100 * value:.{digits}f}"
    elif isinstance(value, int | float):
        value = f"{value:,.{digits}f}"
    elif isinstance(value, list):
        value = ", ".join(map(str, value))
    return f"{value} {unit}".rstrip()


def _objects(text: str | None) -> Iterator[tuple[str, Any]]:
    """The members of a JSON object that say something."""
    members = json.loads(text) if text else {}
    return ((name, value) for name, value in members.items() if value not in (None, "", [], {}))
