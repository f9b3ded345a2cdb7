"""How far an import is, and that Ctrl-C loses and repeats nothing."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.interrupts import between_steps
from ingest.terminal import progress_line
from tests.command import ROOT, run
from tests.growing import decodes, sglang_boot

# Many small commits, so that there is something to interrupt.
SCRIPT = (
    "import sys; from ingest import blocks, importer, reading\n"
    "importer.OPEN_BYTES = 1 << 18; blocks.BULK_BYTES = 1 << 18\n"
    "import servescope; servescope.main()\n"
)


def test_an_interrupted_import_goes_on_where_it_stopped(tmp_path: Path) -> None:
    log, store = tmp_path / "server.log", tmp_path / "s.duckdb"
    log.write_bytes(sglang_boot() + decodes(0, 150_000))
    os.utime(log, (1e9, 1e9))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", SCRIPT, "import", str(log), "--store", str(store)]
    with subprocess.Popen(command, cwd=ROOT, stderr=theirs, stdout=subprocess.DEVNULL) as process:
        os.close(theirs)
        shown = b""
        while b"MB" not in shown:  # something is stored
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        while b"interrupted" not in shown:
            shown += os.read(ours, 4096)
        assert process.wait(60) == 130
    os.close(ours)
    assert b"the same command goes on from there" in shown
    count = ("SELECT count(*), count(DISTINCT kv_tokens) FROM samples", "--format", "csv")

    def stored() -> list[int]:
        done = run("sql", *count, "--store", store)
        return [int(number) for number in done.stdout.split()[-1].split(",")]

    rows, distinct = stored()
    assert 0 < rows == distinct < 150_000
    assert run("import", log, "--store", store).returncode == 0
    assert stored() == [150_000, 150_000]


def test_progress_tells_speed_and_time_left() -> None:
    assert progress_line(0, 3_000_000, 0, 5.0) == "0 of 3 MB"
    assert progress_line(1_000_000, 3_000_000, 8_000, 0.5) == "1 of 3 MB"
    assert progress_line(1_000_000, 3_000_000, 8_000, 4.0) == "1 of 3 MB, 2,000 lines/s, 8 s left"


def test_ctrl_c_waits_for_the_end_of_a_step_and_the_second_one_does_not() -> None:
    done: list[str] = []
    before = signal.getsignal(signal.SIGINT)  # ignored where the tests run in the background

    def work(signals: int) -> None:
        with between_steps() as check:
            check()
            for _ in range(signals):
                signal.raise_signal(signal.SIGINT)
            done.append(f"step with {signals}")
            check()
            done.append("next step")

    for signals in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            work(signals)
    assert done == ["step with 1"]
    assert signal.getsignal(signal.SIGINT) is before
