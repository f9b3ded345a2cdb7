"""Blocks are whole lines: every byte once, lines over the limit skipped, memory bounded."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest import blocks
from ingest.blocks import Block, BlockReader
from ingest.sources import stdin

LIMIT = 40
LINES = st.lists(st.integers(0, 3 * LIMIT).map(lambda size: b"x" * size + b"\n"), max_size=30)
TAIL = st.integers(0, 2 * LIMIT).map(lambda size: b"y" * size)


class Memory:
    """A file that grows."""

    def __init__(self) -> None:
        self.data = b""
        self.largest = 0

    def read(self, offset: int, size: int) -> bytes:
        self.largest = max(self.largest, size)
        return self.data[offset : offset + size]


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LINE_MAX_BYTES", LIMIT)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4 * LIMIT)
    monkeypatch.setattr(stdin, "LINE_MAX_BYTES", LIMIT)
    monkeypatch.setattr(stdin, "_READ_BYTES", 2 * LIMIT)


def check(found: Iterable[Block], text: bytes) -> None:
    """The blocks hold every line of the text in order, and skip just those that are too long."""
    at = 0
    for block in found:
        piece = text[at : at + block.size]
        if block.skipped:
            assert len(piece) > LIMIT
            assert piece.count(b"\n", 0, -1) == 0
        else:
            assert block.data == piece
            assert max(map(len, block.data.splitlines(keepends=True))) <= LIMIT
        at += block.size
        assert text[at - 1 : at] == b"\n" or at == len(text)
    assert at == len(text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, TAIL, st.data())
def test_growing_file(lines: list[bytes], tail: bytes, data: st.DataObject) -> None:
    text = b"".join(lines) + tail
    file, found = Memory(), []
    reader = BlockReader(file, 0)
    while len(file.data) < len(text):
        file.data = text[: len(file.data) + data.draw(st.integers(1, 5 * LIMIT))]
        while (block := reader.next()) is not None:
            found.append(block)
        # What may still grow is never handed out.
        assert reader.offset == file.data.rfind(b"\n") + 1
    while (block := reader.next(final=True)) is not None:
        found.append(block)
    check(found, text)
    assert file.largest <= 4 * LIMIT


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, TAIL, st.lists(st.integers(1, 3 * LIMIT), min_size=1))
def test_pipe(lines: list[bytes], tail: bytes, sizes: list[int]) -> None:
    text = b"".join(lines) + tail
    reading, writing = os.pipe()

    def write() -> None:
        at = 0
        while at < len(text):
            size = sizes[at % len(sizes)]
            os.write(writing, text[at : at + size])
            at += size
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        check(stdin.blocks(reading), text)
    finally:
        os.close(reading)
        writer.join()
