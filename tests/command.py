"""The real command line in processes of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "servescope"]


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True, text=True, timeout=60, cwd=cwd or ROOT, env=environment,
    )  # fmt: skip


def fails(*arguments: str | Path) -> str:
    """Run a command that must fail: its one line on standard error."""
    done = run(*arguments)
    assert done.returncode != 0, done.stdout
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@dataclass(frozen=True, slots=True)
class Up:
    """A running `servescope up`."""

    url: str
    process: subprocess.Popen[str]


@contextmanager
def up(*arguments: str | Path) -> Iterator[Up]:
    """Run `servescope up` on a free port until the block ends, then end it like Ctrl-C."""
    command = [*COMMAND, "up", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Servescope: http://127.0.0.1:"), line
            yield Up(line.split()[1], process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
