"""A source that catches up with gigabytes does not hold up the live lines of another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from data.store import Store
from ingest.feed import Feed
from ingest.ledger import Append
from ingest.pipeline import SourceInfo
from ingest.reading import Reading
from ingest.sources.file import LocalFile
from ingest.status import StatusBoard
from ingest.writer import QUEUE_BYTES, TRANSACTION_BYTES, Writer
from tests.growing import append, decodes, sglang_boot
from tests.waiting import until

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
    far = [Source(tmp_path / f"far{number}.log", 100 * number) for number in range(5)]
    live = [Source(tmp_path / f"live{number}.log", 1000 + 100 * number) for number in range(3)]
    order: list[str] = []
    full = QUEUE_BYTES // BLOCK + 1

    def told(name: str) -> Callable[[], object]:
        return lambda: order.append(name)

    with Store.open(tmp_path / "s.duckdb") as store:
        writer = Writer(store, retry=True)
        with store._turn:  # the disk is slow: the first block is on its way for long
            writer.put(far[0].step(BLOCK), told("far"))
            until(lambda: writer._busy)
            for source in far[1 : 1 + full - 1]:
                writer.put(source.step(BLOCK), told("far"))
            assert writer._bytes >= QUEUE_BYTES
            for source in live:  # into a full queue, and this thread does not stand still
                writer.put(source.step(), told("live"))
            assert order == []
        writer.stop()
        with store.cursor() as con:
            assert con.execute("SELECT count(*) FROM samples").fetchone() == (10 * (full + 3),)
    assert order.count("far") == full
    # One transaction was on its way; the live lines are in the next one, with one block at most.
    assert order.index("live") <= 1 + TRANSACTION_BYTES // BLOCK
    assert order[order.index("live") :][:3] == ["live"] * 3


def test_small_appends_of_a_file_do_not_pile_up(tmp_path: Path) -> None:
    source = Source(tmp_path / "server.log", 0)
    with Store.open(tmp_path / "s.duckdb") as store:
        writer = Writer(store, retry=True)

        made = [source.step() for _ in range(5)]  # else the writer is faster than the reader

        def follow() -> None:
            for step in made:
                writer.put(step, lambda: None)

        with store._turn:
            reader = threading.Thread(target=follow)
            reader.start()
            until(lambda: writer._busy and len(writer._queue) == 1)
            reader.join(0.2)
            assert reader.is_alive()
            assert len(writer._queue) == 1
        reader.join()
        writer.stop()
        with store.cursor() as con:
            assert con.execute("SELECT count(*) FROM samples").fetchone() == (50,)


def test_a_new_source_does_not_wait_for_an_empty_queue(tmp_path: Path) -> None:
    """Others put one append after another: there is never a moment without any."""
    busy, fresh = Source(tmp_path / "busy.log", 0), Source(tmp_path / "fresh.log", 500)
    with Store.open(tmp_path / "s.duckdb") as store:
        writer = Writer(store, retry=True)
        over = threading.Event()

        def again() -> None:
            if not over.is_set():
                writer.put(busy.step(), again)  # when one is stored the next is there already

        writer.put(busy.step(), again)
        writer.put(fresh.step(), lambda: None)
        waits = threading.Thread(target=writer.flush, daemon=True)
        waits.start()
        waits.join(60)
        assert not waits.is_alive()
        over.set()
        writer.flush()
        with store.cursor() as con:
            source = str(tmp_path / "fresh.log")
            count = "SELECT count(*) FROM samples WHERE source_id = $source"
            assert con.execute(count, {"source": source}).fetchone() == (10,)
        writer.stop()


def test_a_look_ends_where_the_file_ended_when_it_began(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(sglang_boot(0) + decodes(0, 10))

    class Printing(Writer):
        """A server prints on whenever something is queued; after a hundred times it is enough."""

        printed = 10

        def put(self, append_: Append, done: Callable[[], object]) -> None:
            super().put(append_, done)
            if self.printed < 1000:
                append(log, decodes(self.printed, 10))
                self.printed += 10

    with Store.open(tmp_path / "s.duckdb") as store:
        writer = Printing(store, retry=True)
        reading = Reading(SourceInfo(str(log)), LocalFile(log), None)
        feed = Feed(writer, StatusBoard(str(log), None), threading.Event())
        size = log.stat().st_size
        assert feed.read_on(reading)[0] == reading.offset == size
        assert writer.printed == 20
        feed.read_on(reading)  # what came since, and no more
        assert writer.printed == 30
        feed.read_on(reading, final=True)  # nobody comes back to this one
        assert reading.offset == log.stat().st_size
        writer.stop()


def test_what_waits_for_company_is_left_alone(tmp_path: Path) -> None:
    """No clock can make it due: a writer that looked at one would never stand still."""
    source = Source(tmp_path / "server.log", 0)
    with Store.open(tmp_path / "s.duckdb") as store:
        writer = Writer(store, retry=True, gather=1 << 20)
        writer.put(source.step(), lambda: None)
        with writer._change:
            assert writer._queue
            assert writer._left_s() is None
        writer.flush()
        assert not writer._queue
        writer.stop()
