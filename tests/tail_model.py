"""A small model of a log that is written, rotated and lost, and the real follower beside it.

A sequence is a list of steps that a seed draws. The model is the list of the lines written, with
those marked that were gone before the follower could look. Many sequences share a store and a
writer, as the sources of one process do, and are stepped side by side; now and then that process
dies, with all of them. Used by tests/test_tailer_model.py and tests/soak/model.py.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from data.literal import literal
from data.store import NO_NETWORK, Store
from ingest.claims import Claims
from ingest.follower import Follower
from ingest.pipeline import SourceInfo
from ingest.sources.places import place_of
from ingest.status import StatusBoard
from ingest.writer import Writer
from tests.log_model import Log

SAFE = (
    "write", "write", "half", "poll", "poll", "restart", "kill", "rename", "copytruncate", "pack",
    "relink", "boot", "pause",
)  # fmt: skip
LOSING = ("truncate", "recreate", "delete", "shorter")
MOST_STEPS = 12
DEATHS = 16  # of a process: one in so many steps
SLOW_BYTES = 1 << 20  # that wait for a commit in a process whose disk is slow
SIDE_BY_SIDE = 16  # threads
_TOLD = {"truncated", "rewritten", "rotated"}


class Process:
    """What all followers of a process share: its store and its writer.

    `gather`: bytes that wait in memory until somebody needs them stored, as before a slow disk;
    0: each append is committed as soon as the one before is.
    """

    def __init__(self, path: Path, gather: int = 0) -> None:
        self._path = path
        self._gather = gather
        self._start()

    def _start(self) -> None:
        # A second thread of DuckDB only takes turns over tables of so few rows: a seventh of all.
        with patch.dict(NO_NETWORK, threads=1):
            self.store = Store.open(self._path)
        self.writer = Writer(self.store, retry=True, gather=self._gather)

    def forget(self, source_id: str | None = None) -> None:
        """What is queued, of a source or of all, never was."""
        writer = self.writer
        with writer._change:
            for _ in range(len(writer._queue)):
                entry = writer._queue.popleft()
                if source_id in (None, entry[0].checkpoint.source_id):
                    writer._waiting.discard(entry[2])
                    writer._bytes -= entry[0].size
                else:
                    writer._queue.append(entry)
            writer._change.notify_all()

    def die(self) -> None:
        """Gone, with all that was not committed, and started again."""
        self.forget()
        self.close()
        self._start()

    def close(self) -> None:
        """The orderly end: what is queued is committed."""
        self.writer.stop()
        self.store.close()


@dataclass(kw_only=True)
class World(Log):
    """A log, what was written to it, and the follower of it.

    Attributes:
        process: in which it is followed, with other logs.
        location: the log as the follower names it: a path, or an address that leads there.
        at_risk: lines that may be missing.
    """

    process: Process
    location: str
    at_risk: set[int] = field(default_factory=set)
    _seen: int = 0  # lines that a look has surely found
    _cuts: int = 0
    _paused: bool = False
    _follower: Follower = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.begin()

    @property
    def source_id(self) -> str:
        """Names the log in the store."""
        return self._follower._source.source_id

    def begin(self) -> None:
        """A follower begins, at the latest checkpoint."""
        self._paused = False
        place, store = place_of(self.location), self.process.store
        source = SourceInfo(place.source_id, zone="UTC", salt=store.salt)
        board = StatusBoard(place.source_id, None)
        self._follower = Follower(source, place, store, self.process.writer, board, Claims())
        self._follower._zone_asked = True
        self.poll()

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
        """The follower ends and begins anew; what was queued is stored."""
        self.end()
        self.process.writer.flush()
        self.begin()

    def kill(self) -> None:
        """It is gone with all that was read and not stored, and begins anew."""
        self.process.forget(self.source_id)
        self.end()
        self.begin()

    def _lose(self) -> None:
        self._end_line()
        # What a kill took back was not yet stored, so all of it counts from the last look only if
        # that was stored: a kill in between reads it again, if it is still there.
        self.process.writer.flush()
        self.at_risk |= set(range(self.written)) - self._stored_rows()

    def _stored_rows(self) -> set[int]:
        """As `numbers`, of the table alone: the view over all kinds takes most of a step."""
        with closing(self.process.store.cursor()) as con:
            rows = con.execute(
                "SELECT kv_tokens FROM decode_rows JOIN sample_groups USING (group_id) "
                f"WHERE source_id = {literal(self.source_id)}"
            ).fetchall()
        return {number - self.base for (number,) in rows}

    def truncate(self) -> None:
        """`> server.log` while the server goes on."""
        self._lose()
        os.truncate(self.log, 0)

    def shorter(self) -> None:
        """Something shorter stands there instead."""
        self._lose()
        self._cuts += 1  # no two are the same: what is equal is one to us
        text = f"# {self.base + self.written} cut by hand, {self._cuts}\n"
        self.log.write_bytes(text.encode())

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
        self.process.writer.flush()
        return stored(self.process.store, [self])[0]

    def finish(self) -> None:
        """The last lines, and the last looks."""
        self._paused = False
        self.write()
        self.poll()
        self.poll()

    def end(self) -> None:
        """Nobody follows any more."""
        self._follower._let_go()
        self._follower._place.close()


def stored(store: Store, worlds: Iterable[World]) -> list[list[int]]:
    """The numbers of the lines that are stored of each log."""
    found: dict[str, list[int]] = {world.source_id: [] for world in worlds}
    with closing(store.cursor()) as con:
        rows = con.execute(
            "SELECT source_id, kv_tokens FROM samples WHERE source_id IN (SELECT unnest($all))",
            {"all": list(found)},
        ).fetchall()
    for source_id, number in rows:
        found[source_id].append(number)
    return [sorted(n - world.base for n in found[world.source_id]) for world in worlds]


def told(store: Store) -> set[str]:
    """The sources of which the store says that something happened to the file."""
    with closing(store.cursor()) as con:
        rows = con.execute("SELECT DISTINCT source_id, kind FROM ingest_log").fetchall()
    return {source_id for source_id, kind in rows if kind in _TOLD}


def steps_of(seed: int) -> list[str]:
    """The sequence that a seed draws; in a third of them lines may be lost."""
    rng = random.Random(seed)
    kinds = (*SAFE, *LOSING) if seed % 3 == 0 else SAFE
    return [rng.choice(kinds) for _ in range(rng.randint(4, MOST_STEPS))]


def first_seed(part: int) -> int:
    """Where the sequences of a part begin: others each time, but the same where a change is
    judged by them (CI)."""
    if "CI" in os.environ:
        return 1_000_000 * part
    return random.SystemRandom().randrange(1 << 30)


def wrong(
    seeds: Sequence[int], folder: Path, location: str = "{log}", threads: int = SIDE_BY_SIDE
) -> list[str]:
    """Run the sequences of these seeds in one process; what is wrong with what was stored.

    `location`: how the follower reaches the log; `threads`: 1 where all share one session.
    """
    rng = random.Random(seeds[0])
    path = folder / f"{seeds[0]}.duckdb"
    process = Process(path, gather=rng.choice((0, SLOW_BYTES)))

    def begin(seed: int) -> World:
        log = folder / f"s{seed}" / "server.log"
        return World(log, base=seed << 16, process=process, location=location.format(log=log))

    with closing(process), ThreadPoolExecutor(threads) as pool:
        worlds = [*pool.map(begin, seeds)]
        process.writer.flush()  # of what nobody has ever stored, nobody could say that it is lost
        try:
            for row in zip(*(_padded(steps_of(seed)) for seed in seeds), strict=True):
                [*pool.map(_step, worlds, row)]
                if rng.randrange(DEATHS) == 0:
                    [*pool.map(World.end, worlds)]
                    process.die()
                    [*pool.map(World.begin, worlds)]
            [*pool.map(World.finish, worlds)]
            process.writer.flush()
            found, noted = stored(process.store, worlds), told(process.store)
        finally:
            for world in worlds:
                world.end()
    judged = (
        _judge(seed, world, numbers, world.source_id in noted)
        for seed, world, numbers in zip(seeds, worlds, found, strict=True)
    )
    return [f"{text} (of {len(seeds)} from {seeds[0]})" for text in judged if text]


def _padded(steps: list[str]) -> list[str]:
    return steps + [""] * (MOST_STEPS - len(steps))


def _step(world: World, step: str) -> None:
    if step:
        getattr(world, step)()


def _judge(seed: int, world: World, found: list[int], noted: bool) -> str | None:
    missing = set(range(world.written)) - set(found)
    if len(found) != len(set(found)):
        text = "lines stored twice"
    elif missing - world.at_risk:
        text = f"{sorted(missing - world.at_risk)} are missing"
    elif missing and not noted:
        text = f"{sorted(missing)} were lost and nothing is said"
    else:
        return None
    return f"seed {seed}, {steps_of(seed)}: {text}"
