"""Kills a follower at random moments while a server writes, and counts what was stored.

Used by the test (a few dozen kills) and by tests/soak/kill.py (a thousand).
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.store import Store
from ingest.supervisor import SourceSpec, Supervisor
from tests.growing import append, decodes, sglang_boot, until

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

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.written = 0
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
            count = self._rng.randint(1, 30)
            data = decodes(self.written, count)
            cut = self._rng.randrange(len(data))
            append(self._path, data[:cut])
            self._stop.wait(self._rng.random() * 0.02)
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
        for _ in range(kills):
            filled = [part.format(log=log, store=store) for part in command]
            _live_and_die(filled, rng.uniform(0.0, longest_s))
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


def _stored(store: Path) -> int:
    with Store.open(store) as opened, opened.cursor() as con:
        row = con.execute("SELECT count(*) FROM samples").fetchone()
    return int(row[0]) if row else 0


def _count(log: Path, path: Path, seed: int, kills: int, written: int, middle: int) -> Outcome:
    """Let a follower read the rest in peace, then compare line by line."""
    with Store.open(path) as store:
        supervisor = Supervisor(store, [SourceSpec(str(log))])
        supervisor.start()
        try:
            with store.cursor() as con:
                until(
                    lambda: con.execute(
                        "SELECT max(byte_offset) FROM checkpoints"
                    ).fetchone() == (log.stat().st_size,),
                    60,
                )  # fmt: skip
        finally:
            supervisor.stop()
        with store.cursor() as con:
            found = [row[0] for row in con.execute("SELECT kv_tokens FROM samples").fetchall()]
            runs = con.execute("SELECT count(*) FROM runs").fetchone()
    return Outcome(
        seed=seed, kills=kills, written=written, stored=len(found),
        missing=len(set(range(written)) - set(found)), repeated=len(found) - len(set(found)),
        runs=runs[0] if runs else 0, resumed_in_the_middle=middle,
    )  # fmt: skip


_FOLLOW = """
import signal, sys
import pyarrow.dataset  # what the first commit loads: kills should come while it works
from data.store import Store
from ingest.supervisor import SourceSpec, Supervisor
supervisor = Supervisor(Store.open(sys.argv[2]), [SourceSpec(sys.argv[1])])
supervisor.start()
print("following", flush=True)
signal.pause()
"""
FOLLOW = [sys.executable, "-c", _FOLLOW, "{log}", "{store}"]
UP = [sys.executable, "-m", "servescope", "up", "{log}", "--store", "{store}", "--port", "0"]
