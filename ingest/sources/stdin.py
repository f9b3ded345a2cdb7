"""Lines from a pipe, handed on as they come."""

from __future__ import annotations

import os
from collections.abc import Iterator

from data.errors import SourceError
from ingest.blocks import LINE_MAX_BYTES, Block, whole_lines, whole_messages

_READ_BYTES = 1 << 20


def blocks(fd: int) -> Iterator[Block]:
    """Whole lines until the pipe is closed; the last one may lack its newline."""
    rest = b""
    skipped = 0  # bytes of an over-long line that has not ended yet
    while data := _read(fd):
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
    if skipped or len(rest) > LINE_MAX_BYTES:
        yield Block(b"", skipped + len(rest))
    elif rest:
        yield Block(rest)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_BYTES)
    except OSError as error:
        raise SourceError(f"standard input: cannot be read ({error.strerror})") from error
