"""The demo: logs of real servers written again, line by line, as if the servers ran now.

`plan` turns a finished log into steps (how long to wait, which line), `restamp` moves the
stamps of a line to another moment; both are pure. `Replay` writes the steps into growing files,
one thread a file, over and over: each round is one more start of the same server. Nothing else
knows of the demo; the files are followed like any other.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

from data.store import Store
from ingest.imports import import_paths

SAMPLES: Final = Path(__file__).parents[1] / "data" / "samples"
SERVERS: Final = {
    "sglang-ngram.log": SAMPLES / "sglang-0.5.23-ngram" / "server.log",
    "sglang-base.log": SAMPLES / "sglang-0.5.23-base" / "server.log",
    "vllm-ngram.log": SAMPLES / "vllm-0.32.0-ngram" / "server.log",
}
MAX_GAP_S: Final = 5.0
STARTUP_S: Final = 3.0  # loading weights is no spectacle: the page must move soon

_READY: Final = (b"fired up and ready to roll", b"Application startup complete")
# A year before the date (SGLang's prefix, a JSON record's asctime), or a log level (vLLM's).
_STAMP: Final = re.compile(
    rb"(?P<before>(?:\[|\"asctime\": \")(?P<year>[0-9]{4})-"
    rb"|\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) )"
    rb"(?P<month>[0-9]{2})-(?P<day>[0-9]{2}) "
    rb"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
    rb"(?:(?P<mark>[.,])(?P<fraction>[0-9]{3,6}))?"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a log and the wait before it."""

    delay_s: float
    line: bytes


def plan(log: bytes) -> tuple[Step, ...]:
    """The steps that repeat this log: order and delays kept, silences and start-up shortened."""
    lines = [line + b"\n" for line in log.removesuffix(b"\n").split(b"\n")]
    moments = _moments(lines)
    delays = [0.0] + [
        min(max(after - before, 0.0), MAX_GAP_S) for before, after in pairwise(moments)
    ]
    ready = _ready_line(lines)
    startup_s = sum(delays[: ready + 1])
    factor = min(1.0, STARTUP_S / startup_s) if startup_s else 1.0
    return tuple(
        Step(delay * factor if index <= ready else delay, line)
        for index, (delay, line) in enumerate(zip(delays, lines, strict=True))
    )


def restamp(line: bytes, now: datetime) -> bytes:
    """The line with each stamp set to this moment, in the form and precision it was printed."""

    def replace(match: re.Match[bytes]) -> bytes:
        text = now.strftime("%m-%d %H:%M:%S").encode()
        if match["fraction"]:
            digits = f"{now.microsecond:06d}"[: len(match["fraction"])]
            text += match["mark"] + digits.encode()
        before = match["before"]
        if match["year"]:
            before = before.replace(match["year"] + b"-", now.strftime("%Y-").encode())
        return before + text

    return _STAMP.sub(replace, line)


def bring_past(store: Path) -> None:
    """Store the bundled runs with their benchmarks, so that no page of the demo is empty."""
    with Store.open(store, bulk=True) as opened:
        import_paths(opened, [str(SAMPLES)])


class Replay:
    """Writes growing logs into a folder until it is stopped."""

    def __init__(
        self, folder: Path, speed: float = 1.0, servers: Mapping[str, Path] = SERVERS
    ) -> None:
        self._speed = speed
        self._stopped = threading.Event()
        self._logs = {folder / name: sample for name, sample in servers.items()}
        self._threads: list[threading.Thread] = []

    @property
    def paths(self) -> Sequence[Path]:
        """The files that grow: what to follow."""
        return list(self._logs)

    def start(self) -> None:
        """Create the files and begin to write."""
        for path, sample in self._logs.items():
            path.touch()
            steps = plan(sample.read_bytes())
            thread = threading.Thread(
                target=self._write, args=(path, steps), name=f"replay {path.name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Stop writing; the files stay."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _write(self, path: Path, steps: Sequence[Step]) -> None:
        with path.open("ab", buffering=0) as file:
            while not self._stopped.is_set():
                due = time.monotonic()
                for step in steps:
                    due += step.delay_s / self._speed
                    if self._stopped.wait(max(0.0, due - time.monotonic())):
                        return
                    file.write(restamp(step.line, datetime.now()))
                self._stopped.wait(MAX_GAP_S / self._speed)


def _moments(lines: Sequence[bytes]) -> list[float]:
    """When each line was printed, in seconds from the first stamp.

    Lines that share a whole second are spread over it; a line without a stamp belongs to the
    line before.
    """
    seconds: list[float] = []
    first: datetime | None = None
    for line in lines:
        stamp = _printed(line)
        if stamp is None:
            seconds.append(seconds[-1] if seconds else 0.0)
            continue
        first = first or stamp
        seconds.append(max((stamp - first).total_seconds(), seconds[-1] if seconds else 0.0))
    return _spread(seconds)


def _spread(seconds: Sequence[float]) -> list[float]:
    spread: list[float] = []
    for second, group in groupby(seconds):
        size = sum(1 for _ in group)
        whole = second % 1 == 0
        spread += [second + index / size if whole else second for index in range(size)]
    return spread


def _printed(line: bytes) -> datetime | None:
    match = _STAMP.search(line)
    if match is None:
        return None
    month, day, hour, minute, second = (
        int(match[name]) for name in ("month", "day", "hour", "minute", "second")
    )
    micros = int((match["fraction"] or b"0").ljust(6, b"0"))
    # Only differences count; a leap year stands in where no year is printed.
    return datetime(int(match["year"] or 2000), month, day, hour, minute, second, micros)


def _ready_line(lines: Sequence[bytes]) -> int:
    """The last line of the start-up; -1 where the log shows none."""
    for mark in _READY:
        for index, line in enumerate(lines):
            if mark in line:
                return index
    return -1
