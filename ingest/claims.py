"""Which files are being read right now: no content has two readers that both store it."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ingest.sources.log_file import HEAD_BYTES, LogFile


@dataclass(slots=True)
class Claim:
    """One reader of one file."""

    file: LogFile
    source_id: str | None  # of the source that follows it; None: an import
    file_id: str | None = None  # the generation being read, once that is known

    def describe(self, file: LogFile) -> str:
        """Why a second reader leaves the file out, as a note about that file."""
        name = "" if self.file.name == file.name else f" as {self.file.name}"
        if self.source_id is None:
            return f"{file.name}: is being imported already{name}; left out"
        return f"{file.name}: is being followed{name}, so it is stored as it grows"


class Claims:
    """The readers of one process. Files are told apart by device and inode, never by path."""

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self._lock = threading.Lock()

    def take(self, file: LogFile, source_id: str | None) -> Claim | None:
        """Claim a file until `release`; another's claim on it, if there is one, stays and is told.

        An import is also told of a file whose content goes on from its own, or the other way
        round: what both hold must not be stored twice.
        """
        with self._lock:
            for claim in self._claims:
                same = claim.file.identity() == file.identity()
                if same or (source_id is None and _copies(claim.file, file)):
                    return claim
            self._claims.append(Claim(file, source_id))
        return None

    def tell(self, file: LogFile, file_id: str) -> None:
        """Say which generation the holder of this claim reads."""
        with self._lock:
            for claim in self._claims:
                if claim.file is file:
                    claim.file_id = file_id

    def others(self, file: LogFile) -> set[str]:
        """The generations that other readers have."""
        with self._lock:
            return {
                claim.file_id
                for claim in self._claims
                if claim.file is not file and claim.file_id is not None
            }

    def release(self, file: LogFile) -> None:
        """Give a claim up; always before the file is closed, since others look into it."""
        with self._lock:
            self._claims = [claim for claim in self._claims if claim.file is not file]


def _copies(one: LogFile, other: LogFile) -> bool:
    """Whether one file holds all that the other holds, and perhaps more behind it.

    `one` has another reader: it is only looked into if it can have two.
    """
    if not one.shared:
        return False
    length = one.size() if other.reaches(one.size()) else other.size()
    return (
        length >= HEAD_BYTES
        and one.fingerprint(HEAD_BYTES) == other.fingerprint(HEAD_BYTES)
        and one.tail_hash(length) == other.tail_hash(length)
    )
