"""Which file is this? Known by content: the head's fingerprint and the bytes before the offset.

Inodes are no help: they are reused, and a restored or copied file has another one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from data import checkpoints
from data.checkpoints import Checkpoint
from data.errors import SourceError
from ingest.sources.file import HEAD_BYTES, LocalFile
from ingest.state import unpack


def holds(file: LocalFile, checkpoint: Checkpoint) -> bool:
    """Whether the file still holds what the checkpoint says was read."""
    return (
        file.size() >= checkpoint.byte_offset
        and file.fingerprint(checkpoint.fingerprint_len) == checkpoint.fingerprint
        and file.tail_hash(checkpoint.byte_offset) == checkpoint.tail_hash
    )


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where reading a file begins."""

    last: Checkpoint | None  # go on from here; None: a generation never read
    seq: int  # the highest under the path
    previous: Checkpoint | None = None  # another content that was read under the path before


def resume_point(
    con: duckdb.DuckDBPyConnection,
    file: LocalFile,
    *,
    adopt_copies: bool,
    taken: Collection[str] = (),
) -> ResumePoint:
    """Find what was read of this file, by its path and by its content.

    A file that moved is known by its whole head and goes on where it was. A copy of a file that
    is still in place is the same content once more: an import takes it as known, while a follower
    must not, since the two may grow apart. Nor is a generation of `taken` adopted: another reader
    is at it.
    """
    path = str(file.path)
    seq = checkpoints.last_seq(con, path)
    previous = checkpoints.last_under_path(con, path)
    if previous is not None:
        previous = _whole(con, previous)
        if previous.file_id not in taken and holds(file, previous):
            return ResumePoint(previous, seq)
    if file.size() >= HEAD_BYTES:
        for other in checkpoints.with_head(con, file.fingerprint(HEAD_BYTES), HEAD_BYTES):
            if other.file_id in taken or not holds(file, other):
                continue
            if adopt_copies or not _in_place(other, file):
                return ResumePoint(_whole(con, other), max(seq, other.seq), previous)
    return ResumePoint(None, seq, previous)


def _whole(con: duckdb.DuckDBPyConnection, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with the long texts back in its state."""
    return replace(checkpoint, state=unpack(checkpoint.state, checkpoints.texts(con)))


def rotated_file(previous: Checkpoint) -> LocalFile | None:
    """The file that was rotated away while nobody read it, if it still lies beside its path."""
    try:
        file = LocalFile(Path(previous.path + ".1"))
    except SourceError:
        return None
    if holds(file, previous):
        file.path = Path(previous.path)  # read on under the name it had: a crash goes on here
        return file
    file.close()
    return None


def _in_place(checkpoint: Checkpoint, file: LocalFile) -> bool:
    """Whether another file still stands under the checkpoint's path with its content."""
    path = Path(checkpoint.path)
    if file.is_at(path):
        return False
    try:
        other = LocalFile(path)
    except SourceError:
        return False
    try:
        return holds(other, checkpoint)
    finally:
        other.close()
