"""Which file is this? Known by content: the head's fingerprint and the bytes before the offset.

Inodes are no help: they are reused, and a restored or copied file has another one.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from data import checkpoints
from data.checkpoints import Checkpoint
from data.errors import SourceError
from ingest.sources.file import HEAD_BYTES, LocalFile


def holds(file: LocalFile, checkpoint: Checkpoint) -> bool:
    """Whether the file still holds what the checkpoint says was read."""
    return (
        file.size() >= checkpoint.byte_offset
        and file.fingerprint(checkpoint.fingerprint_len) == checkpoint.fingerprint
        and file.tail_hash(checkpoint.byte_offset) == checkpoint.tail_hash
    )


def resume_point(
    con: duckdb.DuckDBPyConnection, file: LocalFile, *, adopt_copies: bool
) -> tuple[Checkpoint | None, int]:
    """The checkpoint to go on from (None: a new generation) and the path's highest seq.

    A file that moved is known by its whole head and goes on where it was. A copy of a file that
    is still in place is the same content once more: an import takes it as known, while a follower
    must not, since the two may grow apart.
    """
    path = str(file.path)
    seq = checkpoints.last_seq(con, path)
    last = checkpoints.last_under_path(con, path)
    if last is not None and holds(file, last):
        return last, seq
    if file.size() < HEAD_BYTES:
        return None, seq
    for other in checkpoints.with_head(con, file.fingerprint(HEAD_BYTES), HEAD_BYTES):
        if holds(file, other) and (adopt_copies or not _in_place(other, file)):
            return other, max(seq, other.seq)
    return None, seq


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
