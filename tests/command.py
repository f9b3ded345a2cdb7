"""The real command line in processes of its own: forks of one that has loaded the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests import nursery
from tests.nursery import Process

ROOT = nursery.ROOT
COMMAND = [sys.executable, "-m", "servescope"]


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    words = [*map(str, arguments)]
    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
        code = start(words, out, err, cwd=cwd).wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def start(
    arguments: Sequence[str | Path],
    out: IO[str] | IO[bytes],
    err: IO[str] | IO[bytes],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    loaded: Sequence[str] = (),
) -> Process:
    """Run a command that prints into these files; its standard input is empty."""
    with open(os.devnull) as nothing:
        return Process(
            [*map(str, arguments)], cwd=cwd or ROOT, env={**os.environ, **(env or {})},
            files=(nothing, out, err), loaded=loaded,
        )  # fmt: skip


@contextmanager
def started(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    loaded: Sequence[str] = nursery.UP,
) -> Iterator[tuple[Process, IO[str]]]:
    """A command until the block ends, at the latest, and what it prints."""
    reads, writes = os.pipe()
    with os.fdopen(reads) as said:
        with os.fdopen(writes, "w") as out:
            process = start(arguments, out, out, cwd=cwd, env=env, loaded=loaded)
        try:
            yield process, said
        finally:
            process.kill()
            process.wait()


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
    process: Process


@contextmanager
def up(*arguments: str | Path) -> Iterator[Up]:
    """Run `servescope up` on a free port until the block ends, then end it like Ctrl-C."""
    with started("up", *arguments, "--port", "0") as (process, said):
        line = said.readline()
        assert line.startswith("Servescope: http://127.0.0.1:"), line
        try:
            yield Up(line.split()[1], process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
