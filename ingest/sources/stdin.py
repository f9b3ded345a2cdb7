"""Lines from a pipe, handed on as they come."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable, Iterator

from data.errors import SourceError
from ingest.blocks import LINE_MAX_BYTES, Block, whole_lines, whole_messages

_READ_BYTES = 1 << 20


def blocks(fd: int) -> Iterator[Block]:
    """Whole lines until the pipe is closed; the last one may lack its newline."""
    return cut(iter(lambda: _read(fd), b""))


def cut(chunks: Iterable[bytes], *, keep_rest: bool = True) -> Iterator[Block]:
    """Blocks of whole lines of bytes that come in any pieces.

    `keep_rest`: what has no newline when the pieces end is a line; else it will come again.
    """
    rest = b""
    skipped = 0  # bytes of an over-long line that has not ended yet
    for data in chunks:
        rest += data
        end = rest.rfind(b"\n") + 1
        end = whole_messages(rest[:end]) if end else 0
        if not end:
            if skipped or len(rest) > LINE_MAX_BYTES:
                skipped, rest = skipped + len(rest), b""
            continue
        whole, rest = rest[:end], rest[end:]
        if skipped:
            first = whole.index(b"\n") + 1
            yield Block(b"", skipped + first)
            skipped, whole = 0, whole[first:]
        yield from whole_lines(whole)
    if not keep_rest:
        return
    if skipped or len(rest) > LINE_MAX_BYTES:
        yield Block(b"", skipped + len(rest))
    elif rest:
        yield Block(rest)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_BYTES)
    except OSError as error:
        raise SourceError(f"standard input: cannot be read ({error.strerror})") from error


class PipeOutput:
    """A pipe as the output of a command that we did not start."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, wait_s: float) -> bytes | None:
        """What came; b"" when the other end was closed, None when nothing came in time."""
        return _read(self._fd) if select.select([self._fd], [], [], wait_s)[0] else None

    def end(self) -> int | None:
        """It is not ours to end."""
        return None
