"""A log as its readers see it, wherever its bytes lie; and a place where logs lie."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from data.errors import SourceError

HEAD_BYTES = 1024
TAIL_BYTES = 256
_TEXT_CONTROLS = frozenset(b"\t\n\r\x1b\b\f\0")


class LogFile(ABC):
    """An open regular file. The handle keeps the content readable after a rename or removal.

    Attributes:
        name: its path or address, the same in every process.
        complete: nothing will be written to it any more.
        shared: other threads may look into it too.
    """

    name: str
    complete = False
    shared = False

    @abstractmethod
    def size(self) -> int:
        """Bytes in the file now."""

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer only at the end of the file."""

    @abstractmethod
    def change_mark(self) -> tuple[int, int]:
        """Moves whenever somebody wrote: size, and the time of the last change in ns."""

    @abstractmethod
    def identity(self) -> tuple[object, ...]:
        """The same for every name of this file while it is open, as far as that can be known."""

    @abstractmethod
    def is_at(self, name: str) -> bool | None:
        """Whether the name still leads to this file; None when it leads nowhere."""

    @abstractmethod
    def close(self) -> None:
        """Let the handle go."""

    def changed_at(self) -> datetime:
        """When somebody last wrote, UTC: what places stamps that print no year."""
        changed = datetime.fromtimestamp(self.change_mark()[1] / 1e9, UTC)
        return changed.replace(tzinfo=None)

    def reaches(self, offset: int) -> bool:
        """Whether there are that many bytes."""
        return self.size() >= offset

    def progress(self, offset: int) -> tuple[int, int]:
        """How far reading up to `offset` has come, and how far it has to: bytes as they lie."""
        return offset, self.size()

    def fingerprint(self, length: int) -> str:
        """SHA-256 of the first `length` bytes."""
        return hashlib.sha256(self.read(0, length)).hexdigest()

    def tail_hash(self, offset: int) -> str:
        """SHA-256 of the last bytes before `offset`."""
        start = max(0, offset - TAIL_BYTES)
        return hashlib.sha256(self.read(start, offset - start)).hexdigest()

    def refuse_binary(self) -> None:
        """SourceError if the head of the file is no text. NULs alone are holes or UTF-16."""
        head = self.read(0, 8 * HEAD_BYTES)
        controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in head)
        if controls > len(head.replace(b"\0", b"")) / 20:
            packed = (
                " (an archive: unpack it first)" if head[:2] in (b"PK", b"BZ", b"\xfd7") else ""
            )
            raise SourceError(f"{self.name}: is a binary file, not a log{packed}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that a place holds."""

    name: str
    size: int  # bytes
    changed_ns: int


class Place(ABC):
    """Where the logs of one source lie: a path, a folder or a glob, here or on another host.

    Attributes:
        source_id: the location in full, the same in every process.
        kind: as the store names it.
        folder: where a change shows by itself; None where one has to look.
        watched: the name of the one file in it that matters; None: all do.
        remote: on another host, to be reached over the network.
    """

    source_id: str
    kind: str
    folder: Path | None = None
    watched: str | None = None
    remote = False

    @abstractmethod
    def newest(self) -> str | None:
        """The one file to follow; None while there is none."""

    @abstractmethod
    def all(self, suffixes: tuple[str, ...]) -> list[str]:
        """All files of the place, the ones written to first before the others.

        Of a folder those with one of the suffixes. SourceError if there is no such place or it
        may not be read.
        """

    @abstractmethod
    def before(self, name: str) -> Sequence[Entry]:
        """The files that held this source's lines before `name` did, the latest first: rotated
        ones, and in a folder or a glob the older ones."""

    @abstractmethod
    def open(self, name: str) -> LogFile:
        """Open one file, unpacked if it is packed; SourceError says why it cannot be."""

    @abstractmethod
    def reaches_name(self, name: str) -> bool:
        """Whether this place could open the name: the same machine."""

    @abstractmethod
    def size_of(self, name: str) -> int | None:
        """Bytes under this name; None if there is nothing."""

    def greeting(self) -> str | None:
        """Who was talked to, in words; None for this machine."""
        return None

    def zone(self) -> str | None:
        """The time zone of the place's clock, where it can be asked."""
        return None

    def close(self) -> None:  # noqa: B027
        """Let go of whatever leads there. May be called from another thread, to end a wait."""
