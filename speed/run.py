#!/usr/bin/env python3
"""Import speed against a plain Python loop, DuckDB and ripgrep, in one run. `make speed`

The steps take turns and each is repeated, so that a busy moment of the machine hits all of them.
Every step is a whole process: start-up and, for the import, the commit are in its time.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import duckdb

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
REPORT = ROOT / "docs" / "performance.md"
SSH_CATCH_UP = HERE / "ssh_catch_up.py"
LIVE_LATENCY = HERE / "live_latency.py"
LINES = 1_200_000
REPEATS = 3
BAR = 4.0  # times the plain loop
RECORDS = {"decode": 419_355, "prefill": 240_835}  # what genlog.py writes into LINES lines


@dataclass
class Step:
    """One contestant and what its runs took."""

    name: str
    command: list[str]
    seconds: list[float] = field(default_factory=list)
    peak_mb: float = 0.0

    @property
    def median(self) -> float:
        """The middle of the repeated times."""
        return statistics.median(self.seconds)

    def run(self) -> str:
        """Run once as a process of its own; gives its standard output."""
        start = time.perf_counter()
        with subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
            assert child.stdout is not None
            out = child.stdout.read()
            # wait4 alone tells the peak memory of this one child.
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        self.seconds.append(time.perf_counter() - start)
        self.peak_mb = max(self.peak_mb, usage.ru_maxrss / 1024)
        if child.returncode != 0:
            sys.exit(f"{self.name} failed with exit code {child.returncode}")
        return out


def generated_log() -> Path:
    """The generated log, made once and kept in the temporary folder."""
    generator = HERE / "genlog.py"
    name = hashlib.sha256(generator.read_bytes()).hexdigest()[:12]
    path = Path(tempfile.gettempdir()) / "servescope-speed" / f"{name}-{LINES}.log"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        print(f"Generating {LINES:,} lines ...", file=sys.stderr)
        unfinished = path.with_suffix(f".{os.getpid()}")
        subprocess.run([sys.executable, generator, str(LINES), unfinished], check=True)
        unfinished.rename(path)
    return path


def steps(log: Path, store: Path) -> list[Step]:
    """The contestants; the plain loop first, since the others are measured against it."""
    python = sys.executable
    found = [
        Step("plain Python `re` loop", [python, str(HERE / "re_loop.py"), str(log)]),
        Step(
            "**`servescope import`**",
            [python, "-m", "servescope", "import", str(log), "--store", str(store)],
        ),
        Step("DuckDB `regexp_extract`", [python, str(HERE / "duckdb_regex.py"), str(log)]),
    ]
    if ripgrep := shutil.which("rg"):
        found.append(Step("`rg -c 'Decode batch'`", [ripgrep, "-c", "Decode batch", str(log)]))
    return found


def measure(log: Path) -> list[Step]:
    """Let the contestants take turns, and see that the import stored every record."""
    with tempfile.TemporaryDirectory(prefix="servescope-speed-") as folder:
        store = Path(folder) / "store.duckdb"
        contestants = steps(log, store)
        for turn in range(1, REPEATS + 1):
            for step in contestants:
                print(f"Turn {turn} of {REPEATS}: {step.name}", file=sys.stderr)
                for old in Path(folder).iterdir():
                    old.unlink()
                step.run()
                if "import" in step.command:
                    _check_records(store)
    return contestants


def _check_records(store: Path) -> None:
    with duckdb.connect(str(store), read_only=True) as con:
        stored = dict(con.sql("select kind, count(*) from samples group by kind").fetchall())
    if stored != RECORDS:
        sys.exit(f"The store holds {stored}; the log has {RECORDS}")


def table(contestants: list[Step], size_mb: float) -> Iterator[str]:
    """The measured times as a Markdown table."""
    base = contestants[0].median
    yield "| whole process | median s | all s | million lines/s | MB/s | times the loop | peak MB |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: |"
    for step in contestants:
        every = ", ".join(f"{seconds:.2f}" for seconds in step.seconds)
        yield (
            f"| {step.name} | {step.median:.2f} | {every} | {LINES / step.median / 1e6:.2f} "
            f"| {size_mb / step.median:.0f} | {base / step.median:.1f} | {step.peak_mb:.0f} |"
        )


def machine() -> str:
    """What the times were measured on."""
    model, memory = "unknown processor", 0
    if (cpu := Path("/proc/cpuinfo")).exists():
        names = [line for line in cpu.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("polars", "duckdb"))
    return (
        f"{model}, {os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {packages}; page cache warm"
    )


def ssh_catch_up(log: Path) -> Iterator[str]:
    """The same log over SSH on the loopback: its way included, read and stored."""
    print("Catching up over SSH ...", file=sys.stderr)
    out = Step("ssh catch-up", [sys.executable, str(SSH_CATCH_UP), str(log), str(REPEATS)]).run()
    yield from ("", "## Catching up with a log on another host", "", out.strip())


def live_latency() -> Iterator[str]:
    """The time from a line on disk to its value on the page, measured in a browser."""
    if LIVE_LATENCY.exists():
        print("Live latency ...", file=sys.stderr)
        out = Step("live latency", [sys.executable, str(LIVE_LATENCY)]).run()
        yield from ("", "## From a line on disk to its value on the page", "", out.strip())


def report(contestants: list[Step], log: Path) -> Iterator[str]:
    """Everything that was measured, as Markdown."""
    size_mb = log.stat().st_size / 1e6
    ratio = contestants[0].median / contestants[1].median
    yield "# Performance"
    yield ""
    yield f"Measured by `make speed` on {datetime.now(UTC):%Y-%m-%d}: {machine()}."
    yield ""
    yield "## Import"
    yield ""
    yield (
        f"A generated SGLang log of {LINES:,} lines ({size_mb:.0f} MB): {RECORDS['decode']:,} "
        f"decode and {RECORDS['prefill']:,} prefill records. The steps took turns, "
        f"{REPEATS} times each. The loop only builds records in memory; the import also stores "
        "and commits them; ripgrep only counts lines."
    )
    yield ""
    yield from table(contestants, size_mb)
    yield ""
    yield f"The bar is {BAR:.0f} times the loop; reached: **{ratio:.1f} times**."
    yield from ssh_catch_up(log)
    yield from live_latency()


def main() -> int:
    """Measure and print; 1 when the import is below the bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"store in {REPORT.name} too")
    options = parser.parse_args()
    log = generated_log()
    contestants = measure(log)
    text = "\n".join(report(contestants, log)) + "\n"
    print(text)
    if options.write:
        REPORT.write_text(text, encoding="utf-8")
    return 0 if contestants[0].median / contestants[1].median >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
