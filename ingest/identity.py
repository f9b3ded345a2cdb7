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
from data.checkpoints import Checkpoint, Known
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
    read_at: datetime  # UTC, when the source was read last
    of_source: Checkpoint | None  # how far its latest file was then, whichever that was


def resume_point(
    con: duckdb.DuckDBPyConnection,
    file: LogFile,
    place: Place,
    *,
    adopt_copies: bool,
    taken: Collection[str] = (),
    source_id: str | None = None,
) -> ResumePoint:
    """Find what was read of this file, by its path and by its content; and of its source.

    A file that moved is known by its head and goes on where it was. A copy of a file that is
    still in place is the same content once more: an import takes it as known, while a follower
    must not, since the two may grow apart. Nor is a generation of `taken` adopted: another reader
    is at it.
    """
    head = file.read(0, HEAD_BYTES)
    known = checkpoints.known(con, path=file.name, head=head, most=HEAD_BYTES, source_id=source_id)
    found, seq = _last(known, file, place, adopt_copies=adopt_copies, taken=taken)
    last = _whole(con, found)
    of_source = last if found == known.of_source else _whole(con, known.of_source)
    return ResumePoint(last, seq, known.read_at, of_source)


def _last(
    known: Known, file: LogFile, place: Place, *, adopt_copies: bool, taken: Collection[str]
) -> tuple[Checkpoint | None, int]:
    """From where on to read, and the highest seq so far."""
    previous = known.under_path
    if previous is not None and previous.file_id not in taken and holds(file, previous):
        return previous, known.seq
    for other in known.alike:
        if other.file_id in taken or not holds(file, other):
            continue
        if adopt_copies or not _in_place(other, file, place):
            return other, max(known.seq, other.seq)
    return None, known.seq


def last_of_source(con: duckdb.DuckDBPyConnection, source_id: str) -> Checkpoint | None:
    """How far the source's latest file was read, whichever that was."""
    return _whole(con, checkpoints.known(con, source_id=source_id).of_source)


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


def _whole(con: duckdb.DuckDBPyConnection, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint with the long texts back in its state."""
    if checkpoint is None or not has_references(checkpoint.state):
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
