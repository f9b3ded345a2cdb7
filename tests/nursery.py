"""The process that the commands of the tests are forks of: it has loaded the program.

Loading it costs more than most commands. It runs as `python -m tests.nursery`, with a socket as
its standard input, and ends when the other end of that is closed. A request is a letter with five
files: what is asked (JSON), the command's standard input, output and errors, and the pipe that is
told its number, and when it has ended its exit status.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
_NUMBER = struct.Struct("=q")
_FILES = 5
# What commands that run to their end load, what `up` loads, and what its first visitor has loaded.
_COMMANDS = (
    "servescope", "pyarrow", "data.bench_link", "data.export", "data.file_store",
    "data.findings.rules", "ingest.commands", "ingest.comparing", "ingest.control",
    "ingest.imports", "ingest.pipeline",
)  # fmt: skip
UP = (*_COMMANDS, "dashboard.app", "dashboard.waiting", "dashboard.web", "ingest.bench_watch")
PAGES = ("pandas", *(f"dashboard.pages.{path.stem}" for path in ROOT.glob("dashboard/pages/*.py")))


class Process:
    """A command that runs: the part of `subprocess.Popen` that tests need."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        files: Sequence[IO[Any]],
        loaded: Sequence[str] = (),
    ) -> None:
        """`files`: its standard input, output and errors; `loaded`: modules that it finds there."""
        asked = {
            "arguments": list(arguments), "cwd": str(cwd), "environment": dict(env),
            "file_size": resource.getrlimit(resource.RLIMIT_FSIZE),  # a test stands for a full disk
            "loaded": list(loaded),
        }  # fmt: skip
        reads, letter = os.pipe()  # no file: a test may forbid large ones
        self._told, tells = os.pipe()
        with os.fdopen(letter, "w") as text:
            try:
                numbers = [reads, *(file.fileno() for file in files), tells]
                socket.send_fds(_door(), [b"\n"], numbers)
            finally:
                os.close(reads)
                os.close(tells)
            json.dump(asked, text)
        self.returncode: int | None = None
        self.pid = self._number()

    def _number(self) -> int:
        told = os.read(self._told, _NUMBER.size)
        assert told, "the process that commands are forks of has ended"
        return int(_NUMBER.unpack(told)[0])

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status; TimeoutExpired if it has not come within these seconds."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = self._number()
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing happens when it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Without any warning."""
        self.send_signal(signal.SIGKILL)


@cache
def _door() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        _all.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.nursery"], cwd=ROOT, stdin=theirs.fileno()
            )
        )
    return ours


_all: list[subprocess.Popen[bytes]] = []  # kept: it ends after this process


def _serve(door: socket.socket) -> None:
    """Fork a command for each letter; returns in the process that is to run it, never elsewhere."""
    _load(_COMMANDS)
    # Of each command that runs: the file that shows its end, its number, the pipe to tell.
    ends: dict[int, tuple[int, int]] = {}
    while True:
        for ready in select.select([door.fileno(), *ends], [], [])[0]:
            if ready in ends:
                number, tells = ends.pop(ready)
                status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
                _tell(tells, status)
                os.close(tells)
                os.close(ready)
                continue
            _, files, _, _ = socket.recv_fds(door, 1, _FILES)
            if not files:
                os._exit(0)
            with os.fdopen(files[0]) as letter:
                asked = json.load(letter)
            _load(asked["loaded"])
            if (child := os.fork()) == 0:
                door.close()
                for file in [files[-1], *ends, *(tells for _, tells in ends.values())]:
                    os.close(file)
                _become(asked, files[1:-1])
                return
            for file in files[1:-1]:
                os.close(file)
            _tell(files[-1], child)
            ends[os.pidfd_open(child)] = child, files[-1]


def _load(modules: Sequence[str]) -> None:
    for module in modules:
        import_module(module)
    gc.freeze()  # what is loaded stays, and is shared with all forks


def _tell(pipe: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(pipe, _NUMBER.pack(number))


def _become(asked: Mapping[str, Any], files: Sequence[int]) -> None:
    """This process is the command from now on."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0)  # noqa: SIM115 (it stays open)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    resource.setrlimit(resource.RLIMIT_FSIZE, asked["file_size"])
    sys.argv = ["servescope", *asked["arguments"]]


def _run() -> None:
    import servescope

    code: int | str = 0
    try:
        servescope.main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the end does
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # Those of the libraries were not forked, and their ends would wait for them.
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # the tests run in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _serve(socket.socket(fileno=os.dup(0)))
    _run()
