"""Any order of writes, turns, copies and restarts: what is stored is what was written.

The real follower reads real files; the model is the list of the lines that were written.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from data.store import Store
from ingest.claims import Claims
from ingest.follower import Follower
from ingest.pipeline import SourceInfo
from ingest.sources.places import place_of
from ingest.status import StatusBoard
from ingest.writer import Writer
from tests.growing import append, decodes, sglang_boot

STEPS = ("write", "half", "poll", "restart", "rename", "copytruncate", "pack", "relink", "boot")
KEPT_TURNS = 12  # logrotate throws away what is older; here nothing is


class World:
    """A log, what was written to it, and the follower of it."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "logs" / "server.log"
        self.log.parent.mkdir()
        self.log.write_bytes(sglang_boot())
        self.written = 0
        self._half = b""
        self._boots = 0
        self.store = Store.open(folder / "s.duckdb")
        self.writer = Writer(self.store, retry=True)
        self.follower = self._new_follower()
        self.follower.poll()

    def _new_follower(self) -> Follower:
        place = place_of(str(self.log))
        source = SourceInfo(place.source_id, salt=self.store.salt)
        board = StatusBoard(place.source_id, None)
        return Follower(source, place, self.store, self.writer, board, Claims())

    def write(self) -> None:
        """Five lines, after the rest of a half one."""
        self._end_line()
        append(self.log, decodes(self.written, 5))
        self.written += 5

    def half(self) -> None:
        """A line whose end comes later."""
        self._end_line()
        line = decodes(self.written, 1)
        append(self.log, line[:70])
        self._half = line[70:]

    def _end_line(self) -> None:
        if self._half:
            append(self.log, self._half)
            self._half = b""
            self.written += 1

    def boot(self) -> None:
        """The server starts again and goes on in the same file."""
        self._end_line()
        self._boots += 1  # no two starts print the same: what is equal is the same to us
        append(self.log, sglang_boot(self.written / 2, f"org/model-{self._boots}"))

    def poll(self) -> None:
        """One look."""
        self.follower.poll()

    def restart(self) -> None:
        """We end and begin anew; what was queued is stored."""
        self.follower._let_go()
        self.writer.flush()
        self.follower = self._new_follower()

    def _turn(self) -> Path:
        self._end_line()
        for number in range(KEPT_TURNS, 0, -1):
            for end in ("", ".gz"):
                old = self.log.with_name(f"server.log.{number}{end}")
                if old.exists():
                    old.rename(self.log.with_name(f"server.log.{number + 1}{end}"))
        return self.log.with_name("server.log.1")

    def rename(self) -> None:
        """logrotate with `create`."""
        self.log.rename(self._turn())
        self.log.touch()

    def copytruncate(self) -> None:
        """logrotate with `copytruncate`."""
        copy = self._turn()
        copy.write_bytes(self.log.read_bytes())
        os.truncate(self.log, 0)

    def pack(self) -> None:
        """logrotate with `delaycompress`: all but the last turn."""
        for number in range(2, KEPT_TURNS + 1):
            old = self.log.with_name(f"server.log.{number}")
            if old.exists():
                old.with_name(old.name + ".gz").write_bytes(gzip.compress(old.read_bytes()))
                old.unlink()

    def relink(self) -> None:
        """The same content in another file: an editor, or a restored copy."""
        self._end_line()
        fresh = self.log.with_name("fresh")
        fresh.write_bytes(self.log.read_bytes())
        fresh.rename(self.log)

    def numbers(self) -> list[int]:
        """What is stored."""
        self.writer.flush()
        with self.store.cursor() as con:
            rows = con.execute("SELECT kv_tokens FROM samples ORDER BY kv_tokens").fetchall()
        return [row[0] for row in rows]

    def close(self) -> None:
        """The end."""
        self.follower._let_go()
        self.writer.stop()
        self.store.close()


@settings(max_examples=20)
@given(st.lists(st.sampled_from(STEPS), min_size=4, max_size=16))
def test_what_is_stored_is_what_was_written(steps: list[str]) -> None:
    turns = sum(step in ("rename", "copytruncate") for step in steps)
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        try:
            for step in steps:
                getattr(world, step)()
            world.write()
            for _ in range(3):
                world.poll()
            assert turns > KEPT_TURNS or world.numbers() == list(range(world.written))
        finally:
            world.close()
