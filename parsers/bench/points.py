"""What all readers share: points, numbers as they are printed, and what is kept of other fields."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from parsers.records import LATENCIES, STATISTICS
from parsers.server_args import redact

Point = dict[str, Any]

_NUMBER = re.compile(
    r"[~≈]?\s*([-+]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
)
_LIST_MAX = 32  # longer lists are per-request values, or what users wrote
_TEXT_MAX = 2000
_DEPTH_MAX = 16  # levels of objects in objects
_REDACTED = re.compile(r"‹redacted [0-9a-f]+›")
NO_ZONE = "of the client, zone not printed"


@dataclass(frozen=True, slots=True)
class Found:
    """What a reader found in a file."""

    format: str  # the tool and how it wrote, for the user
    points: list[Point]
    unread: list[str] = field(default_factory=list)  # columns that were not recognised
    notes: list[str] = field(default_factory=list)  # one line each


def new_point(tool: str, **values: Any) -> Point:
    """A point of this tool; what is not known is left out."""
    point: Point = {"tool": tool, "extra": {}}
    for name, value in values.items():
        put(point, name, value)
    return point


def put(point: Point, column: str, value: Any) -> None:
    """Set a column, unless the value is missing, no finite number, or set already."""
    if isinstance(value, float) and not math.isfinite(value):
        return
    if value is not None and column not in point:
        point[column] = value


def is_finite(value: float) -> bool:
    """Whether a number can be held: a whole number of a document may have hundreds of digits."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def number(text: Any) -> float | None:
    """The number that a cell holds, with thousands separators and a unit behind it; else None.

    None for `inf`, `nan`, `n/a`, `not set` and dashes as well: they say that there is none.
    """
    if isinstance(text, bool) or text is None:
        return None
    if isinstance(text, int | float):
        return float(text) if is_finite(text) else None
    match = _NUMBER.match(str(text).strip())
    value = float(match[1].replace(",", "")) if match else math.inf
    return value if math.isfinite(value) else None


def count(value: Any) -> int | None:
    """The whole number that a cell holds; else None."""
    read = number(value)
    return None if read is None else round(read)


def scalar(text: str) -> float | int | str:
    """A printed value as number where it is one and nothing else, else as text."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return text
    if not math.isfinite(value):
        return text
    return int(value) if value.is_integer() and "." not in text else value


def latency_column(metric: str, statistic: str) -> str | None:
    """The column of a latency and a statistic, for example `ttft` and `p99`; None if none."""
    column = f"{metric}_ms_{statistic}"
    return column if metric in LATENCIES and statistic in STATISTICS else None


def put_summary(
    point: Point, metric: str, values: Any, factor: float, names: Mapping[str, str]
) -> None:
    """Set the columns of a latency from a mapping of statistics.

    Args:
        point: gets the columns.
        metric: one of LATENCIES.
        values: statistics under the tool's names; anything else is no summary.
        factor: from the tool's unit to milliseconds.
        names: the tool's name of each statistic -> ours.
    """
    if not isinstance(values, Mapping):
        return
    for theirs, ours in names.items():
        value = number(values.get(theirs))
        if value is not None:
            put(point, f"{metric}_ms_{ours}", value * factor)


def keep(point: Point, fields: Mapping[str, Any], used: Iterable[str] = ()) -> None:
    """Add other fields to `extra`: redacted, without per-request lists and users' texts."""
    gone = set(used)
    kept = {name: _small(value) for name, value in fields.items() if name not in gone}
    found = {name: value for name, value in kept.items() if value is not None}
    # A measured number is no secret, whatever its name: `time_to_second_token`.
    measured = {name: value for name, value in found.items() if isinstance(value, float)}
    for name, value in (_without_hashes(redact(found)) | measured).items():
        point["extra"].setdefault(name, value)


def _without_hashes(value: Any) -> Any:
    """Redacted values without the hash that would tell one secret from another."""
    if isinstance(value, str):
        return _REDACTED.sub("‹redacted›", value)
    if isinstance(value, Mapping):
        return {_without_hashes(name): _without_hashes(inner) for name, inner in value.items()}
    return [_without_hashes(inner) for inner in value] if isinstance(value, list) else value


def _small(value: Any, depth: int = 0) -> Any:
    """The value if it is small enough to keep; None for what is left out."""
    if isinstance(value, int | float) and not is_finite(value):
        return str(value) if isinstance(value, float) else None
    if depth > _DEPTH_MAX:
        return None
    if isinstance(value, str):
        return value[:_TEXT_MAX]
    if isinstance(value, list):
        plain = len(value) <= _LIST_MAX and all(
            isinstance(v, int | float) and is_finite(v) for v in value
        )
        return value if plain and value else None
    if isinstance(value, Mapping):
        kept = {str(name): _small(inner, depth + 1) for name, inner in value.items()}
        return {name: inner for name, inner in kept.items() if inner not in (None, "", {})} or None
    return value


def moment(value: Any) -> datetime | None:
    """A time as the tools write it (seconds since 1970, or a printed stamp), without a zone.

    A stamp without a zone stays as printed: whose clock it is says the file's source.
    """
    number_ = number(value) if isinstance(value, int | float) else None
    try:
        if number_ is not None:
            return datetime.fromtimestamp(number_, UTC).replace(tzinfo=None)
        if isinstance(value, str) and re.fullmatch(r"[0-9]{8}-[0-9]{6}", value.strip()):
            return datetime.strptime(value.strip(), "%Y%m%d-%H%M%S")
        if isinstance(value, str):
            read = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
            return read.astimezone(UTC).replace(tzinfo=None) if read.tzinfo else read
    except (ValueError, OverflowError, OSError):
        pass
    return None


def printed_clock(point: Point, value: Any) -> None:
    """Set `started_at` from a stamp that names no zone: the clock of the client's host."""
    read = moment(value)
    if read is not None:
        put(point, "started_at", read)
        point["extra"]["clock"] = NO_ZONE


def odd(point: Point, sentence: str) -> None:
    """Note something about the point that the user should know before trusting it."""
    held = point["extra"].setdefault("oddities", [])
    if sentence not in held:
        held.append(sentence)


def note(point: Point, sentence: str) -> None:
    """Note how a value of the point is to be read."""
    held = point["extra"].setdefault("notes", [])
    if sentence not in held:
        held.append(sentence)
