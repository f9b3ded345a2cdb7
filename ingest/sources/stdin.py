"""Lines from a pipe, handed on as they come."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ingest.blocks import LINE_MAX_BYTES, Block

_READ_BYTES = 1 << 20


def blocks(fd: int) -> Iterator[Block]:
    """Whole lines until the pipe is closed; the last one may lack its newline."""
    rest = b""
    skipped = 0  # bytes of an over-long line that has not ended yet
    while data := os.read(fd, _READ_BYTES):
        rest += data
        if skipped or len(rest) > LINE_MAX_BYTES:
            first = rest.find(b"\n") + 1
            if skipped + (first or len(rest)) > LINE_MAX_BYTES:
                if not first:
                    skipped, rest = skipped + len(rest), b""
                    continue
                yield Block(b"", skipped + first)
                skipped, rest = 0, rest[first:]
        end = rest.rfind(b"\n") + 1
        if end:
            yield Block(rest[:end])
            rest = rest[end:]
    if skipped:
        yield Block(b"", skipped)
    elif rest:
        yield Block(rest)
