"""How far the output of a command was read, such that nothing is lost or read twice.

docker and Kubernetes can only be asked for lines from a moment on, and lines of two streams may
be a little out of order. So a second of lines is asked for again, and those known are dropped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, deque
from datetime import UTC, datetime
from typing import Protocol

_STAMP = re.compile(
    rb"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    rb"(Z|[+-][0-9]{2}:[0-9]{2}) "
)
_AGAIN_NS = 1_000_000_000
_MOST = 2000  # lines known of that second


class Position(Protocol):
    """How far a source was read."""

    def fresh(self, data: bytes) -> tuple[bytes, bytes]:
        """The lines that were not read before, and what is no line of the log: the command's
        own words."""

    def take(self, data: bytes) -> None:
        """These lines are read."""

    def text(self) -> str:
        """All of it, to be stored."""


class StampPosition:
    """By the stamps that docker and kubectl put before each line."""

    def __init__(self, text: str = "") -> None:
        known = json.loads(text) if text else []
        self._recent: deque[tuple[int, str]] = deque((int(at), mark) for at, mark in known)
        self._replayed = Counter(mark for _, mark in self._recent)
        self._from = self._recent[0][0] if self._recent else 0

    def since(self) -> str | None:
        """From when on to ask, RFC 3339 with nanoseconds; None: from the start."""
        if not self._recent:
            return None
        seconds, ns = divmod(self._from, 1_000_000_000)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09}Z"

    def fresh(self, data: bytes) -> tuple[bytes, bytes]:
        """The lines that were not read before, and what has no stamp."""
        lines: list[bytes] = []
        others: list[bytes] = []
        for line in _lines(data):
            at = _stamp_ns(line)
            if at is None:
                others.append(line)
            elif not self._known(at, line):
                lines.append(line)
        return b"".join(lines), b"".join(others)

    def _known(self, at: int, line: bytes) -> bool:
        if at < self._from:
            return True
        if not self._replayed:
            return False
        mark = _mark(line)
        if self._replayed[mark] <= 0:
            return False
        self._replayed[mark] -= 1
        return True

    def take(self, data: bytes) -> None:
        """These lines are read: the last ones are remembered."""
        for line in _lines(data)[-_MOST:]:
            at = _stamp_ns(line)
            if at is not None:
                self._recent.append((at, _mark(line)))
        newest = max((at for at, _ in self._recent), default=0)
        kept = [entry for entry in self._recent if entry[0] > newest - _AGAIN_NS]
        if len(kept) > _MOST:  # a burst: from after the last one that is forgotten
            forgotten = max(at for at, _ in kept[:-_MOST])
            kept = [entry for entry in kept[-_MOST:] if entry[0] > forgotten] or kept[-1:]
        self._recent = deque(sorted(kept, key=lambda entry: entry[0]))

    def text(self) -> str:
        """The lines of the last second, as JSON."""
        return json.dumps(list(self._recent), separators=(",", ":"))


class CursorPosition:
    """By the journal's own cursor, which each record carries."""

    def __init__(self, text: str = "") -> None:
        self.cursor = text

    def fresh(self, data: bytes) -> tuple[bytes, bytes]:
        """Every record is new: the journal was asked for those after the cursor."""
        lines: list[bytes] = []
        others: list[bytes] = []
        for line in _lines(data):
            (lines if line.startswith(b"{") else others).append(line)
        return b"".join(lines), b"".join(others)

    def take(self, data: bytes) -> None:
        """These records are read."""
        lines = _lines(data)
        if lines:
            self.cursor = str(json.loads(lines[-1]).get("__CURSOR", self.cursor))

    def text(self) -> str:
        """The cursor."""
        return self.cursor


class NoPosition:
    """Of a pipe, which cannot be read again."""

    def fresh(self, data: bytes) -> tuple[bytes, bytes]:
        """Every line is new."""
        return data, b""

    def take(self, data: bytes) -> None:
        """Nothing is remembered."""

    def text(self) -> str:
        """Nothing."""
        return ""


def _lines(data: bytes) -> list[bytes]:
    """At newlines only: a carriage return is part of a line."""
    pieces = data.split(b"\n")
    return [piece + b"\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _stamp_ns(line: bytes) -> int | None:
    """The moment of a stamp, in nanoseconds since 1970."""
    match = _STAMP.match(line)
    if match is None:
        return None
    zone = match[3].decode().replace("Z", "+00:00")
    try:
        seconds = int(datetime.fromisoformat(match[1].decode() + zone).timestamp())
    except ValueError:
        return None
    return seconds * 1_000_000_000 + int((match[2] or b"0").ljust(9, b"0"))


def _mark(line: bytes) -> str:
    return hashlib.blake2b(line.rstrip(b"\n"), digest_size=9).hexdigest()
