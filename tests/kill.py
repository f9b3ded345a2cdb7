"""Kills a follower at random moments while a server writes, and counts what was stored.

Used by the test (a few dozen kills) and by tests/soak/kill.py (a thousand).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from data.store import Store
from tests.following import following
from tests.growing import append, decodes, sglang_boot
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the kills did to the lines."""

    seed: int
    kills: int
    written: int
    stored: int
    missing: int
    repeated: int
    runs: int
    resumed_in_the_middle: int  # kills that came after some but not all lines were stored

    @property
    def exact(self) -> bool:
        """Each line is stored exactly once, and as one run."""
        return not self.missing and not self.repeated and self.runs == 1


class Server:
    """Writes numbered lines in pieces that end anywhere, until it is stopped."""

    def __init__(self, path: Path, rng: random.Random, pause_s: float = 0.05) -> None:
        self.written = 0
        self._pause_s = pause_s
        self._path = path
        self._rng = rng
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        append(path, sglang_boot())
        self._thread.start()

    def stop(self) -> None:
        """Finish the line that is being written."""
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.is_set():
            count = self._rng.randint(1, 6)
            data = decodes(self.written, count)
            cut = self._rng.randrange(len(data))
            append(self._path, data[:cut])
            self._stop.wait(self._rng.random() * self._pause_s)
            append(self._path, data[cut:])
            self.written += count


def kill_often(
    command: Sequence[str], folder: Path, kills: int, seed: int, longest_s: float = 1.2
) -> Outcome:
    """Start the command again and again, each time killed after a random moment.

    `{log}` and `{store}` in the command stand for the paths.
    """
    rng = random.Random(seed)
    log, store = folder / "server.log", folder / "s.duckdb"
    server = Server(log, rng)
    middle, before = 0, 0
    try:
        filled = [part.format(log=log, store=store) for part in command]
        with ExitStack() as stack:
            nursery = stack.enter_context(nursery_of(filled)) if command is FOLLOW else None
            for _ in range(kills):
                seconds = rng.uniform(0.0, longest_s)
                if nursery is None:
                    _live_and_die(filled, seconds)
                else:
                    born_and_die(nursery, seconds)
                stored = _stored(store)
                middle += before < stored < server.written
                before = stored
    finally:
        server.stop()
    return _count(log, store, seed, kills, server.written, middle)


def _live_and_die(command: list[str], seconds: float) -> None:
    """The time runs from the moment at which the process follows."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline(), "the process ended by itself"
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)


@contextmanager
def nursery_of(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process with everything loaded; for each line it starts a follower."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process


def born_and_die(nursery: subprocess.Popen[str], seconds: float) -> None:
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write("\n")
    nursery.stdin.flush()
    follower = nursery.stdout.readline()
    assert follower.strip().isdigit(), f"the follower ended by itself: {follower}"
    time.sleep(seconds)
    os.kill(int(follower), signal.SIGKILL)
    assert nursery.stdout.readline() == "ended\n"


def _stored(store: Path) -> int:
    with Store.open(store) as opened, opened.cursor() as con:
        row = con.execute("SELECT count(*) FROM samples").fetchone()
    return int(row[0]) if row else 0


def _count(log: Path, path: Path, seed: int, kills: int, written: int, middle: int) -> Outcome:
    """Let a follower read the rest in peace, then compare line by line."""
    with Store.open(path) as store:
        with following(store, log), store.cursor() as con:
            reached = "SELECT max(byte_offset) FROM checkpoints"
            until(lambda: con.execute(reached).fetchone() == (log.stat().st_size,), 60)
        with store.cursor() as con:
            found = [row[0] for row in con.execute("SELECT kv_tokens FROM samples").fetchall()]
            runs = con.execute("SELECT count(*) FROM runs").fetchone()
    return Outcome(
        seed=seed, kills=kills, written=written, stored=len(found),
        missing=len(set(range(written)) - set(found)), repeated=len(found) - len(set(found)),
        runs=runs[0] if runs else 0, resumed_in_the_middle=middle,
    )  # fmt: skip


_FOLLOW = """
import os, signal, sys
import pyarrow.dataset  # what the first commit loads: kills should come while it works
from data.store import Store
from ingest.config import SourceSpec
from ingest.supervisor import Supervisor
# Loaded once: each line asks for a new process, which nothing but SIGKILL ends.
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        specs = [SourceSpec(log) for log in sys.argv[2:]]
        supervisor = Supervisor(Store.open(sys.argv[1]), specs)
        supervisor.start()
        print(os.getpid(), flush=True)
        signal.pause()
    os.waitpid(child, 0)
    print("ended", flush=True)
"""
FOLLOW = [sys.executable, "-c", _FOLLOW, "{store}", "{log}"]
UP = [sys.executable, "-m", "servescope", "up", "{log}", "--store", "{store}", "--port", "0"]
