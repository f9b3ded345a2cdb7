"""How fast a log on another host is caught up with: over SFTP, and packed on its way.

A real OpenSSH sshd serves the log on the loopback; `servescope import ssh://...` reads and stores
it, as a process of its own. Once the account may do nothing but SFTP, once it may run commands.

    python speed/ssh_catch_up.py LOG [REPEATS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.sshd import Sshd, serving  # noqa: E402

BAR_MB_S = 25.0
WAYS = {"SFTP": "ForceCommand internal-sftp", "packed by a command there": ""}


def seconds(host: Sshd, log: Path, home: Path) -> tuple[float, float]:
    """What one import of the log takes, with start-up and commit: by the clock, and of it the
    processor's on this side."""
    store = home / "store.duckdb"
    store.unlink(missing_ok=True)
    command = [sys.executable, "-m", "servescope", "import", host.url(log), "--store", str(store)]
    start, before = time.perf_counter(), os.times()
    subprocess.run(
        command, check=True, cwd=ROOT, env={**os.environ, "HOME": str(home)}, capture_output=True
    )
    after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    return time.perf_counter() - start, used


def table(log: Path, repeats: int) -> Iterator[str]:
    """The rates as a Markdown table."""
    size_mb = log.stat().st_size / 1e6
    yield "| the log comes by | median s | all s | processor s here | MB/s | bar MB/s |"
    yield "| --- | ---: | --- | ---: | ---: | ---: |"
    for way, extra in WAYS.items():
        with tempfile.TemporaryDirectory(prefix="servescope-speed-") as folder:
            home = Path(folder)
            with serving(home / "sshd", home, extra) as host:
                taken = [seconds(host, log, home) for _ in range(repeats)]
        middle = statistics.median(clock for clock, _ in taken)
        used = statistics.median(processor for _, processor in taken)
        every = ", ".join(f"{clock:.2f}" for clock, _ in taken)
        rate = size_mb / middle
        yield f"| {way} | {middle:.2f} | {every} | {used:.2f} | {rate:.0f} | {BAR_MB_S:.0f} |"


def main() -> int:
    """Measure and print."""
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print("\n".join(table(Path(sys.argv[1]), repeats)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
