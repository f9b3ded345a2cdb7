"""A source that catches up with gigabytes does not hold up the live lines of another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from data.store import Store
from ingest.ledger import Append
from ingest.pipeline import SourceInfo
from ingest.reading import Reading
from ingest.sources.file import LocalFile
from ingest.writer import QUEUE_BYTES, TRANSACTION_BYTES, Writer
from tests.growing import append, decodes, sglang_boot, until

BLOCK = 14 << 20


class Source:
    """A log, of which each step gives one append."""

    def __init__(self, path: Path, at: int) -> None:
        self._path, self._at = path, at
        path.write_bytes(sglang_boot(at))
        self._reading = Reading(SourceInfo(str(path)), LocalFile(path), None)

    def step(self, size: int | None = None) -> Append:
        """Ten lines more; as if they were of so many bytes."""
        append(self._path, decodes(self._at, 10))
        self._at += 10
        found = self._reading.step()
        assert found is not None
        return replace(found, size=size or found.size)


def test_live_lines_are_stored_before_blocks_that_came_earlier(tmp_path: Path) -> None:
    far, live = Source(tmp_path / "far.log", 0), Source(tmp_path / "live.log", 500)
    order: list[str] = []

    def told(name: str) -> Callable[[], object]:
        return lambda: order.append(name)

    with Store.open(tmp_path / "s.duckdb") as store:
        writer = Writer(store, retry=True)
        full = QUEUE_BYTES // BLOCK + 2

        def catch_up() -> None:
            for _ in range(full):
                writer.put(far.step(BLOCK), told("far"))

        reader = threading.Thread(target=catch_up)
        with store._turn:  # the disk is slow: the first block is on its way for long
            writer.put(far.step(BLOCK), told("far"))
            until(lambda: writer._busy)
            reader.start()
            until(lambda: writer._bytes >= QUEUE_BYTES)
            for _ in range(3):  # into a full queue, and this thread does not stand still
                writer.put(live.step(), told("live"))
            assert order == []
        reader.join()
        writer.stop()
        with store.cursor() as con:
            assert con.execute("SELECT count(*) FROM samples").fetchone() == (10 * (full + 4),)
    assert order.count("far") == full + 1
    # One transaction was on its way; the live lines are in the next one, with one block at most.
    assert order.index("live") <= 1 + TRANSACTION_BYTES // BLOCK
    assert order[order.index("live") :][:3].count("live") == 3
