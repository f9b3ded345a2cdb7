"""A small model of a log that is written, rotated and lost, and the real follower beside it.

A sequence is a list of steps that a seed draws. The model is the list of the lines written, with
those marked that were gone before the follower could look. Used by tests/test_tailer_model.py
and, for thousands of sequences, by tests/soak/model.py.
"""

from __future__ import annotations

import gzip
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from data.store import Store
from ingest.claims import Claims
from ingest.follower import Follower
from ingest.pipeline import SourceInfo
from ingest.sources.places import place_of
from ingest.status import StatusBoard
from ingest.writer import Writer
from tests.growing import append, decode, sglang_boot

SAFE = (
    "write", "write", "half", "poll", "poll", "restart", "kill", "rename", "copytruncate", "pack",
    "relink", "boot", "pause",
)  # fmt: skip
LOSING = ("truncate", "recreate", "delete", "shorter")
KEPT_TURNS = 12  # logrotate throws away what is older; here nothing is
_TOLD = {"truncated", "rewritten", "rotated"}


@dataclass(slots=True)
class World:
    """A log, what was written to it, and the follower of it.

    Attributes:
        log: the file.
        store: where its lines go; may hold those of other worlds.
        location: the log as the follower names it: a path, or an address that leads there.
        base: of the numbers in its lines.
        written: lines so far.
    """

    log: Path
    store: Store
    location: str
    base: int = 0
    written: int = 0
    at_risk: set[int] = field(default_factory=set)  # may be missing
    _seen: int = 0  # lines that a look has surely found
    _half: bytes = b""
    _boots: int = 0
    _turns: int = 0
    _paused: bool = False
    _writer: Writer = field(init=False)
    _follower: Follower = field(init=False)

    def __post_init__(self) -> None:
        self.log.parent.mkdir(parents=True)
        self._write(sglang_boot(model=f"org/{self.log.parent.name}"))
        self._begin()
        self._writer.flush()

    def _begin(self) -> None:
        place = place_of(self.location)
        source = SourceInfo(place.source_id, zone="UTC", salt=self.store.salt)
        self._writer = Writer(self.store, retry=True)
        board = StatusBoard(place.source_id, None)
        self._follower = Follower(source, place, self.store, self._writer, board, Claims())
        self._follower._zone_asked = True
        self.poll()

    def _write(self, data: bytes) -> None:
        append(self.log, data)

    def _lines(self, count: int) -> bytes:
        """The next lines; no other log of the store prints the same: what is equal is one."""
        numbers = range(self.written, self.written + count)
        return b"".join(decode(number / 2, self.base + number) for number in numbers)

    def write(self) -> None:
        """Five lines, after the rest of a half one."""
        self._end_line()
        self._write(self._lines(5))
        self.written += 5

    def half(self) -> None:
        """A line whose end comes later."""
        self._end_line()
        line = self._lines(1)
        self._write(line[:70])
        self._half = line[70:]

    def _end_line(self) -> None:
        if self._half:
            self._write(self._half)
            self._half = b""
            self.written += 1

    def boot(self) -> None:
        """The server starts again and goes on in the same file."""
        self._end_line()
        self._boots += 1  # no two starts print the same: what is equal is the same to us
        name = f"org/{self.log.parent.name}-{self._boots}"
        self._write(sglang_boot(self.written / 2, name))

    def poll(self) -> None:
        """One look."""
        if not self._paused:
            before = self.written
            self._follower.poll()
            self._follower.poll()  # after a change the first one only finds that out
            self._seen = before

    def pause(self) -> None:
        """Nobody looks, until we start anew."""
        self._paused = True

    def restart(self) -> None:
        """We end and begin anew; what was queued is stored."""
        self._paused = False
        self._follower._let_go()
        self._writer.stop()
        self._begin()

    def kill(self) -> None:
        """We are gone with all that was read and not stored, and begin anew."""
        self._paused = False
        with self._writer._change:
            self._writer._queue.clear()
        self._follower._let_go()
        self._writer.stop()
        self._begin()

    def _turn(self) -> Path:
        self._end_line()
        self._turns += 1
        for number in range(KEPT_TURNS + 8, 0, -1):
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
        for old in self.log.parent.glob("server.log.*[0-9]"):
            if old.name != "server.log.1":
                old.with_name(old.name + ".gz").write_bytes(gzip.compress(old.read_bytes()))
                old.unlink()

    def relink(self) -> None:
        """The same content in another file: an editor, or a restored copy."""
        self._end_line()
        fresh = self.log.with_name("fresh")
        fresh.write_bytes(self.log.read_bytes())
        fresh.rename(self.log)

    def _lose(self) -> None:
        self._end_line()
        # What a kill took back was not yet stored, so all of it counts from the last look only if
        # that was stored: a kill in between reads it again, if it is still there.
        stored = set(self.numbers())
        self.at_risk |= set(range(self.written)) - stored

    def truncate(self) -> None:
        """`> server.log` while the server goes on."""
        self._lose()
        os.truncate(self.log, 0)

    def shorter(self) -> None:
        """Something shorter stands there instead."""
        self._lose()
        self.log.write_bytes(f"# {self.base + self.written} cut by hand\n".encode())

    def recreate(self) -> None:
        """Deleted, and made anew."""
        self._lose()
        self.log.unlink()
        self.boot()

    def delete(self) -> None:
        """Deleted; the server writes on into a new file a look later."""
        self._lose()
        self.log.unlink()
        self.poll()
        self.boot()

    def numbers(self) -> list[int]:
        """What is stored of this log."""
        self._writer.flush()
        with self.store.cursor() as con:
            rows = con.execute(
                "SELECT kv_tokens FROM samples WHERE source_id = $source ORDER BY kv_tokens",
                {"source": self._follower._source.source_id},
            ).fetchall()
        return [row[0] - self.base for row in rows]

    def told(self) -> bool:
        """Whether the store says that something happened to the file."""
        with self.store.cursor() as con:
            rows = con.execute(
                "SELECT DISTINCT kind FROM ingest_log WHERE source_id = $source",
                {"source": self._follower._source.source_id},
            ).fetchall()
        return bool(_TOLD & {kind for (kind,) in rows})

    def close(self) -> None:
        """The end."""
        self._follower._let_go()
        self._writer.stop()


def wrong(seed: int, folder: Path, store: Store, location: str = "{log}") -> str | None:
    """Run one sequence; what is wrong with what was stored, None if nothing is.

    `location`: how the follower reaches the log.
    """
    rng = random.Random(seed)
    kinds = (*SAFE, *LOSING) if seed % 3 == 0 else SAFE
    steps = [rng.choice(kinds) for _ in range(rng.randint(4, 12))]
    log = folder / f"s{seed}" / "server.log"
    world = World(log, store, location.format(log=log), base=seed << 16)
    try:
        for step in steps:
            getattr(world, step)()
        world._paused = False
        world.write()
        world.poll()
        world.poll()
        found, told = world.numbers(), world.told()
    finally:
        world.close()
    missing = set(range(world.written)) - set(found)
    if len(found) != len(set(found)):
        return f"seed {seed}, {steps}: lines stored twice"
    if missing - world.at_risk:
        return f"seed {seed}, {steps}: {sorted(missing - world.at_risk)} are missing"
    if missing and not told:
        return f"seed {seed}, {steps}: {sorted(missing)} were lost and nothing is said"
    return None
