"""Which file is this? Known by content: the head's fingerprint and the bytes before the offset.

Inodes are no help: they are reused, and a restored or copied file has another one.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import duckdb

from data import checkpoints
from data.checkpoints import Checkpoint
from data.errors import HostError, SourceError
from ingest.sources.log_file import HEAD_BYTES, LogFile, Place
from ingest.state import has_references, unpack


def holds(file: LogFile, checkpoint: Checkpoint) -> bool:
    """Whether the file still holds what the checkpoint says was read."""
    return (
        checkpoint.byte_offset > 0  # of nothing, any file would do
        and file.reaches(checkpoint.fingerprint_len)
        and file.fingerprint(checkpoint.fingerprint_len) == checkpoint.fingerprint
        and file.reaches(checkpoint.byte_offset)
        and file.tail_hash(checkpoint.byte_offset) == checkpoint.tail_hash
    )


_CLOCK = timedelta(seconds=1)  # SFTP tells whole seconds


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where reading a file begins."""

    last: Checkpoint | None  # go on from here; None: a generation never read
    seq: int  # the highest under the path


def resume_point(
    con: duckdb.DuckDBPyConnection,
    file: LogFile,
    place: Place,
    *,
    adopt_copies: bool,
    taken: Collection[str] = (),
) -> ResumePoint:
    """Find what was read of this file, by its path and by its content.

    A file that moved is known by its head and goes on where it was. A copy of a file that is
    still in place is the same content once more: an import takes it as known, while a follower
    must not, since the two may grow apart. Nor is a generation of `taken` adopted: another reader
    is at it.
    """
    seq, previous = checkpoints.last_under_path(con, file.name)
    if previous is not None and previous.file_id not in taken and holds(file, previous):
        return ResumePoint(_whole(con, previous), seq)
    for other in checkpoints.begin_like(con, file.read(0, HEAD_BYTES), HEAD_BYTES):
        if other.file_id in taken or not holds(file, other):
            continue
        if adopt_copies or not _in_place(other, file, place):
            return ResumePoint(_whole(con, other), max(seq, other.seq))
    return ResumePoint(None, seq)


def last_of_source(
    con: duckdb.DuckDBPyConnection, source_id: str
) -> tuple[datetime, Checkpoint | None]:
    """When the source was read last (UTC), and how far its latest file was, whichever that was."""
    at, last = checkpoints.last_of_source(con, source_id)
    return at, _whole(con, last) if last is not None else None


def unread_before(
    place: Place, name: str, last: Checkpoint, read_at: datetime
) -> tuple[bool, list[str]]:
    """The files with lines that came after `last` and before the file `name`, oldest first.

    Args:
        read_at: when the source of `last` was read last.

    Returns:
        whether the file that `last` was read from is there, which then is the first of them; and
        the files. Without it those that were written to since.
    """
    found: list[str] = []
    since = read_at - _CLOCK
    written: list[str] = []
    for entry in place.before(name):
        found.append(entry.name)
        if entry.size and entry.changed_ns >= since.timestamp() * 1e9:
            written.append(entry.name)
        try:
            with closing(place.open(entry.name)) as file:
                if holds(file, last):
                    return True, found[::-1]
        except HostError:
            raise
        except SourceError:  # deleted meanwhile, or not to be read: older ones may still be
            found.pop()
    return False, written[::-1]


def _whole(con: duckdb.DuckDBPyConnection, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with the long texts back in its state."""
    if not has_references(checkpoint.state):
        return checkpoint
    return replace(checkpoint, state=unpack(checkpoint.state, checkpoints.texts(con)))


def _in_place(checkpoint: Checkpoint, file: LogFile, place: Place) -> bool:
    """Whether another file still stands under the checkpoint's path with its content."""
    if not place.reaches_name(checkpoint.path):
        return True  # on another host: not asked
    if file.is_at(checkpoint.path):
        return False
    try:
        with closing(place.open(checkpoint.path)) as other:
            return holds(other, checkpoint)
    except HostError:
        raise
    except SourceError:
        return False
