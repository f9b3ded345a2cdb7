"""What a source is doing, and its last lines: kept in memory, shown on the pages."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ingest.lines import Line, cut

TAIL_LINES = 2000

FOLLOWING = "following"
CATCHING_UP = "catching up"
WAITING = "waiting for file"
CONNECTING = "connecting"
RECONNECTING = "reconnecting"
AUTH_FAILED = "auth failed"
KEY_CHANGED = "host key changed"
KEY_UNKNOWN = "host key unknown"
ENDED = "ended"
PAUSED = "paused"
ERROR = "error"
STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A source at one moment."""

    source_id: str
    label: str | None
    state: str = WAITING  # one of the words above
    percent: float | None = None  # of the file, while catching up
    path: str | None = None
    run_id: str | None = None
    last_line_at: datetime | None = None  # UTC, when the last line arrived or was written
    lag_bytes: int = 0  # in the file but not yet stored
    behind_since: datetime | None = None  # UTC, since when there is such a lag
    retry_at: datetime | None = None  # UTC, when the host is tried again
    lines_read: int = 0
    unfinished_line: bool = False  # the file ends in the middle of a line
    error: str | None = None
    tags: tuple[str, ...] = ()


class StatusBoard:
    """The status of one source and its last lines; written by its thread, read by the pages."""

    def __init__(self, source_id: str, label: str | None) -> None:
        self._status = SourceStatus(source_id, label)
        self._tail: deque[Line] = deque(maxlen=TAIL_LINES)
        self._lock = threading.Lock()

    def set(self, **changes: Any) -> None:
        """Replace these fields."""
        with self._lock:
            self._status = replace(self._status, **changes)

    def behind(self, lag_bytes: int) -> None:
        """Say how many bytes are not stored yet."""
        with self._lock:
            since = (self._status.behind_since or datetime.now(UTC)) if lag_bytes else None
            self._status = replace(self._status, lag_bytes=lag_bytes, behind_since=since)

    def get(self) -> SourceStatus:
        """The status now."""
        with self._lock:
            return self._status

    def keep(self, data: bytes, file_id: str | None = None, next_line: int | None = None) -> None:
        """Keep the last lines of a block.

        `next_line`: the number of the line that begins behind the block, where it is known.
        """
        last = cut(data, TAIL_LINES, file_id, next_line)
        with self._lock:
            self._tail.extend(last)

    def lines(self, n: int) -> list[Line]:
        """The last n lines, oldest first."""
        with self._lock:
            return list(self._tail)[-n:] if n > 0 else []


def state_words(source: Mapping[str, Any], now: datetime) -> str:
    """The state in words, with how far or how soon: catching up 43 %, reconnecting in 8 s."""
    state = str(source["state"])
    if state == CATCHING_UP and source.get("percent") is not None:
        return f"{state} {source['percent']:.0f} %"
    if state == RECONNECTING and source.get("retry_at"):
        at = datetime.fromisoformat(str(source["retry_at"]))
        left = (at - now).total_seconds()
        return f"{state} in {left:.0f} s" if left >= 0.5 else f"{state} now"
    return state


def status_line(source: Mapping[str, Any], now: datetime) -> str:
    """A source as `status` prints it: which file, how far behind, how old its last line is."""
    line = f"{source['source_id']}: {state_words(source, now)}"
    if source["path"] and source["path"] != source["source_id"]:
        line += f", {source['path']}"
    if source["path"]:
        line += f", {source['lag_bytes']:,} bytes behind"
        if not source["lag_bytes"] and source.get("unfinished_line"):
            line += ", an unfinished last line"
        if source.get("behind_since"):
            since = datetime.fromisoformat(str(source["behind_since"]))
            line += f" for {max(0.0, (now - since).total_seconds()):,.0f} s"
    if source["last_line_at"]:
        came = datetime.fromisoformat(str(source["last_line_at"]))
        line += f", last line {max(0.0, (now - came).total_seconds()):,.0f} s ago"
    return f"{line}: {source['error']}" if source["error"] else line
