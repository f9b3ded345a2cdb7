"""Cuts a growing file into blocks of whole lines, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from parsers import partials
from parsers.lines import wide_encoding

BLOCK_BYTES = 12 << 20
BULK_BYTES = 22 << 20  # of a plain file that is imported: each block has its price
FIRST_BYTES = 4 << 20  # of a file: the next block is read while the one before is scanned
PEEK_BYTES = 1 << 14
LINE_MAX_BYTES = 1 << 20
PIECES_MAX_BYTES = 2 * LINE_MAX_BYTES
HEAD_BYTES = 4096  # of a file, where its encoding shows


class Bytes(Protocol):
    """Where bytes come from."""

    def read(self, offset: int, size: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, or one line that is too long to keep."""

    data: bytes
    skipped: int = 0  # bytes of the over-long line, its newline included

    @property
    def size(self) -> int:
        """How far the block leads on in the file."""
        return len(self.data) + self.skipped


class BlockReader:
    """Reads from an offset on. The offset never rests inside a line."""

    def __init__(self, file: Bytes, offset: int, largest: int | None = None) -> None:
        """`largest`: bytes of a block."""
        self._file = file
        self.offset = offset
        self._largest = largest or BLOCK_BYTES
        self._size = min(FIRST_BYTES, self._largest)
        self._searched = 0  # bytes after offset known to hold no newline

    def next(self, *, final: bool = False) -> Block | None:
        """The next block; None when no whole line is left. `final`: the file will not grow."""
        block = self._find(final)
        if block is not None:
            self.offset += block.size
            self._searched = 0
            full = block.size > self._size // 2
            self._size = min(4 * self._size if full else FIRST_BYTES, self._largest)
        return block

    def _find(self, final: bool) -> Block | None:
        if self._searched > LINE_MAX_BYTES:
            return self._skip(final)
        size = self._whole_size()
        data = self._file.read(self.offset, size)
        end = self._end_of_line(data)
        if not end:
            if len(data) > LINE_MAX_BYTES:
                self._searched = len(data)
                return self._skip(final)
            return Block(data) if final and data else None
        whole = whole_messages(data[:end] if end < len(data) else data)
        if not whole:
            return None
        if final and len(data) < size and end == len(data):
            whole = end  # what is missing of a message will not come any more
        if whole < len(data):
            data = data[:whole]
        return next(whole_lines(data))

    def _whole_size(self) -> int:
        """How much to read so that a large block ends with a line: cutting it would copy it."""
        if self._size <= FIRST_BYTES:
            return self._size
        peek = min(PEEK_BYTES, self._size)
        last = self._file.read(self.offset + self._size - peek, peek)
        return self._size - len(last) + last.rfind(b"\n") + 1 if len(last) == peek else self._size

    def _end_of_line(self, data: bytes) -> int:
        """Where the last newline ends; in UTF-16 of Windows it has a second half."""
        end = data.rfind(b"\n") + 1
        if end and data[end : end + 1] == b"\0":
            head = self._file.read(0, HEAD_BYTES)
            end += wide_encoding(head) == "utf-16-le" and not (self.offset + end - 1) % 2
        return end

    def _skip(self, final: bool) -> Block | None:
        """The over-long line at the offset, once its newline is there."""
        while data := self._file.read(self.offset + self._searched, BLOCK_BYTES):
            newline = data.find(b"\n")
            if newline >= 0:
                return Block(b"", self._searched + newline + 1)
            self._searched += len(data)
        return Block(b"", self._searched) if final else None


def whole_messages(data: bytes) -> int:
    """The length of the messages in `data` (whole lines) that are there to their end: a container
    runtime cuts a long one into several lines. 0: not even the first one is."""
    whole = partials.whole_until(data)
    if len(data) - whole > PIECES_MAX_BYTES:  # more than any message has: what follows was lost
        return len(data)
    return whole


def whole_lines(data: bytes) -> Iterator[Block]:
    """Blocks of whole lines in memory, with each over-long line apart."""
    while data:
        start = _long_line(data)
        if start is None:
            yield Block(data)
            return
        if start:
            yield Block(data[:start])
        end = data.index(b"\n", start) + 1
        yield Block(b"", end - start)
        data = data[end:]


def _long_line(data: bytes) -> int | None:
    """Where the first line over the limit begins.

    Such a line covers at least one aligned window of half the limit, so looking into each window
    for a newline (found at once in any ordinary log) is enough to know that there is none.
    """
    half = LINE_MAX_BYTES // 2
    start = 0
    for at in range(0, len(data), half):
        if data.find(b"\n", at, at + half) >= 0:
            continue
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        if end < 0 or end + 1 - start > LINE_MAX_BYTES:
            return start
    return None
