"""Many sources at once: `python -m tests.soak.many [MINUTES] [SOURCES] [LINES_PER_SECOND]`.

Ten minutes, 50 sources and 20 lines a second each by default. A process of its own writes the
logs; this one follows them, as `up` does, and looks twice a second: how old is the oldest line
that is written and not stored, and how much memory is taken. The exit code is 1 if a line is
missing or stored twice, if the lag passes 2 s in more than one look of twenty, or if memory grew
by more than a tenth after the first quarter.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from data.store import Store
from ingest.config import SourceSpec
from ingest.supervisor import Supervisor
from tests.growing import append, decode, sglang_boot

LAG_S = 2.0
GROWTH = 1.1
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def write(folder: Path, minutes: float, sources: int, rate: int) -> None:
    """The servers: a line more in each log, `rate` times a second, and when each was written."""
    logs = [folder / f"{number}.log" for number in range(sources)]
    begun, total = time.time(), int(minutes * 60 * rate)
    for line in range(total):
        for number, log in enumerate(logs):
            append(log, decode(line / rate, line * sources + number))
        append(folder / "written", f"{time.time()} {line}\n".encode())
        time.sleep(max(0.0, begun + (line + 1) / rate - time.time()))


def memory_mb() -> float:
    """What this process holds in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KB / 1024


class Looks:
    """What was seen of the follower while the logs grew."""

    def __init__(self, folder: Path, store: Store, sources: int) -> None:
        self.lag_s: list[float] = []
        self.memory_mb: list[float] = []
        self._sources = sources
        self._written: list[float] = []  # when each line was in all logs
        self._file = (folder / "written").open()
        self._con = store.cursor()

    def look(self) -> None:
        """Once."""
        row = self._con.execute(
            "SELECT min(n) FROM (SELECT coalesce(sum(n_decode), 0) AS n FROM run_summary_parts "
            "GROUP BY run_id)"
        ).fetchone()
        now = time.time()
        self._written += [float(line.split()[0]) for line in self._file]
        stored = int(row[0] or 0) if row else 0  # of the source that is furthest behind
        waiting = self._written[stored:][:1]
        self.lag_s.append(now - waiting[0] if waiting else 0.0)
        self.memory_mb.append(memory_mb())


def main() -> int:
    """Write, follow and look; prints one line of result."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    sources = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    rate = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    with tempfile.TemporaryDirectory(prefix="servescope-soak-") as name:
        folder = Path(name)
        for number in range(sources):
            (folder / f"{number}.log").write_bytes(sglang_boot(model=f"org/model-{number}"))
        (folder / "written").touch()
        specs = [SourceSpec(str(folder / f"{number}.log")) for number in range(sources)]
        with Store.open(folder / "s.duckdb") as store:
            supervisor = Supervisor(store, specs)
            supervisor.start()
            looks = Looks(folder, store, sources)
            begun, used = time.monotonic(), time.process_time()
            command = [sys.executable, "-m", "tests.soak.many", "write", name]
            with subprocess.Popen([*command, str(minutes), str(sources), str(rate)]) as writer:
                while writer.poll() is None:
                    time.sleep(0.5)
                    looks.look()
            share = (time.process_time() - used) / (time.monotonic() - begun)
            print(f"{share:.0%} of a core used; load average {os.getloadavg()[0]:.0f}")
            deadline = time.monotonic() + 60
            wanted = int(minutes * 60 * rate) * sources
            while _stored(store)[0] < wanted and time.monotonic() < deadline:
                time.sleep(0.2)
            supervisor.stop()
            stored, distinct = _stored(store)
    return _judge(looks, wanted, stored, distinct, f"{sources} sources, {rate} lines/s each")


def _stored(store: Store) -> tuple[int, int]:
    with store.cursor() as con:
        row = con.execute("SELECT count(*), count(DISTINCT kv_tokens) FROM samples").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _judge(looks: Looks, wanted: int, stored: int, distinct: int, what: str) -> int:
    lag = statistics.quantiles(looks.lag_s, n=20)[-1]
    quarter = len(looks.memory_mb) // 4
    early, late = max(looks.memory_mb[quarter : 2 * quarter]), max(looks.memory_mb[-quarter:])
    exact = stored == distinct == wanted
    flat = late <= GROWTH * early
    print(
        f"{what}, {len(looks.lag_s)} looks: {wanted:,} lines written, {stored:,} stored, "
        f"{distinct:,} of them different; lag median {statistics.median(looks.lag_s):.2f} s, 95th "
        f"percentile {lag:.2f} s, longest {max(looks.lag_s):.2f} s (bar {LAG_S:.0f} s); memory "
        f"{looks.memory_mb[0]:.0f} MB at first, at most {early:.0f} MB in the second quarter and "
        f"{late:.0f} MB in the last"
    )
    return 0 if exact and flat and lag <= LAG_S else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        sys.exit(0)
    sys.exit(main())
