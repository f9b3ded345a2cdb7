"""Contestants: whole processes that take turns, so that a busy moment hits all of them."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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


def take_turns(
    contestants: Sequence[Step],
    repeats: int,
    before: Callable[[], object],
    after: Callable[[Step], object],
) -> None:
    """Let each run once a turn; `before` and `after` each one."""
    for turn in range(1, repeats + 1):
        for step in contestants:
            print(f"Turn {turn} of {repeats}: {step.name}", file=sys.stderr)
            before()
            step.run()
            after(step)


def table(contestants: Sequence[Step], lines: int, size_mb: float) -> Iterator[str]:
    """The measured times as a Markdown table; all are compared with the first."""
    base = contestants[0].median
    yield "| whole process | median s | all s | million lines/s | MB/s | times the loop | peak MB |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: |"
    for step in contestants:
        every = ", ".join(f"{seconds:.2f}" for seconds in step.seconds)
        yield (
            f"| {step.name} | {step.median:.2f} | {every} | {lines / step.median / 1e6:.2f} "
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
        f"Python {platform.python_version()}, {packages}; page cache warm; load "
        f"{os.getloadavg()[0]:.1f} before it began"
    )
