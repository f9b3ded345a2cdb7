"""Lines of a log for the eye: the last ones, and those around a place. Secrets are redacted."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache

from data import checkpoints
from data.checkpoints import Checkpoint
from data.errors import SourceError
from data.store import Store
from ingest.sources import host
from ingest.sources.address import SSH
from ingest.sources.command import is_command
from ingest.sources.log_file import LogFile, Place
from ingest.sources.places import place_of
from parsers.server_args import redact_text

_SHOWN_CHARS = 4000  # of a line
_KEPT_BYTES = 4 * _SHOWN_CHARS
_TEXTS = 4096  # lines whose text is remembered: a page shows nearly the same ones every second
_BEFORE_BYTES = 48 << 10
_AFTER_BYTES = 96 << 10
_ROTATED = 4  # earlier files that are looked into


@dataclass(frozen=True, slots=True)
class Line:
    """One line and where it stands.

    Attributes:
        raw: its bytes as they came. Most lines are kept and never looked at, so that it is `text`
            that takes the secrets out; nothing but that may leave here.
    """

    raw: bytes = field(repr=False)
    file_id: str | None = None  # None: not known
    line_no: int | None = None  # from 1

    @property
    def text(self) -> str:
        """The line for the eye, secrets redacted."""
        return _shown(self.raw)


def cut(data: bytes, most: int, file_id: str | None, next_line: int | None) -> list[Line]:
    """The last lines of a block.

    Args:
        next_line: the number of the line that begins behind the block; None: not known.
    """
    lines = data.rstrip(b"\n").rsplit(b"\n", most)[-most:]
    is_open = not data.endswith(b"\n")
    first = None if next_line is None else next_line + is_open - len(lines)
    return [
        Line(line[:_KEPT_BYTES], file_id, None if first is None else first + nth)
        for nth, line in enumerate(lines)
    ]


def around(store: Store, file_id: str, byte_offset: int, line_no: int) -> list[Line]:
    """The lines around the one that begins at this byte, out of the file as it lies.

    SourceError, in words for the page, if the file is gone or holds something else.
    """
    with store.cursor() as con:
        checkpoint = checkpoints.latest(con, file_id)
    if checkpoint is None or checkpoint.path == "-" or is_command(checkpoint.path):
        raise SourceError("This log came from a command or a pipe; it cannot be read again.")
    if not checkpoint.path.startswith(SSH) and not host.is_here(checkpoint.path):
        raise SourceError(f"{checkpoint.path}: lies on that machine; its lines are read there.")
    with closing(place_of(checkpoint.path)) as place, closing(_same(place, checkpoint)) as file:
        start = max(0, byte_offset - _BEFORE_BYTES)
        before = file.read(start, byte_offset - start)
        after = file.read(byte_offset, _AFTER_BYTES)
    if start:
        before = before.partition(b"\n")[2]
    if len(after) == _AFTER_BYTES:
        after = after.rpartition(b"\n")[0]
    first = line_no - before.count(b"\n")
    lines = (before + after).removesuffix(b"\n").split(b"\n")
    return [Line(line[:_KEPT_BYTES], file_id, first + nth) for nth, line in enumerate(lines)]


def _same(place: Place, checkpoint: Checkpoint) -> LogFile:
    """The file that was read, under its name or one that rotation gave it since."""
    earlier = [entry.name for entry in place.before(checkpoint.path)[:_ROTATED]]
    for name in (checkpoint.path, *earlier):
        if place.size_of(name) is None:
            continue
        file = place.open(name)
        known = file.fingerprint(checkpoint.fingerprint_len) == checkpoint.fingerprint
        if known and file.reaches(checkpoint.byte_offset):
            return file
        file.close()
    raise SourceError(f"{checkpoint.path}: is gone or was written anew; its lines are not kept.")


@lru_cache(_TEXTS)
def _shown(line: bytes) -> str:
    return redact_text(line.decode(errors="replace"))[:_SHOWN_CHARS]
