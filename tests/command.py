"""The real command line in processes of its own.

Commands that run to their end are forks of a process that has loaded the program: loading it costs
more than most of them.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "servescope"]


_FORKS = """
import json, os, resource, sys, time, traceback
import servescope, data.export, data.file_store, ingest.commands, ingest.control, ingest.imports
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    os._exit(0)
for number, name in enumerate([os.devnull, asked["out"], asked["err"]]):
    os.dup2(os.open(name, os.O_RDWR), number)
sys.stdin = open(0)
os.chdir(asked["cwd"])
os.environ.clear()
os.environ.update(asked["environment"])
time.tzset()
resource.setrlimit(resource.RLIMIT_FSIZE, asked["file_size"])
sys.argv = ["servescope", *asked["arguments"]]
code = 0
try:
    servescope.main()
except SystemExit as end:
    code = end.code or 0
except BaseException:
    traceback.print_exc()
    code = 1
for stream in (sys.stdout, sys.stderr):
    stream.flush()
os._exit(code)  # threads of the libraries were not forked, and their ends would wait for them
"""
_nursery = threading.local()  # a command may wait for another one


def _forks() -> subprocess.Popen[str]:
    if getattr(_nursery, "process", None) is None:
        _nursery.process = subprocess.Popen(
            [sys.executable, "-c", _FORKS], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
    process: subprocess.Popen[str] = _nursery.process
    return process


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    words = [*map(str, arguments)]
    forks = _forks()
    assert forks.stdin is not None
    assert forks.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        out.touch()
        err.touch()
        asked = {
            "arguments": words, "cwd": str(cwd or ROOT), "out": str(out), "err": str(err),
            "environment": dict(os.environ),
            "file_size": resource.getrlimit(resource.RLIMIT_FSIZE),  # a test stands for a full disk
        }  # fmt: skip
        forks.stdin.write(json.dumps(asked) + "\n")
        forks.stdin.flush()
        code = int(forks.stdout.readline())
        return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())


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
