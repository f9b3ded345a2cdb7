"""A full disk: told in one line, nothing half stored, and reading goes on once there is room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from data.store import Store
from ingest.supervisor import SourceSpec, Supervisor
from tests.command import fails, run
from tests.growing import decodes, sglang_boot, until

MEGABYTES = 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Use up the whole disk with one file."""
    room = os.statvfs(disk)
    filler = disk / "filler"
    filler.write_bytes(bytes(room.f_bavail * room.f_bsize))
    return filler


def test_import_says_so_and_the_store_can_still_be_read(small_disk: Path, tmp_path: Path) -> None:
    log, store = tmp_path / "server.log", small_disk / "s.duckdb"
    log.write_bytes(sglang_boot() + decodes(0, 20_000))
    Store.open(store).close()
    fill(small_disk)
    line = fails("import", log, "--store", store)
    assert line.startswith(f"servescope: {store}: the disk is full; free some space")
    done = run("runs", "--store", store)
    assert (done.returncode, done.stderr) == (0, "")


def test_following_goes_on_when_there_is_room_again(small_disk: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with Store.open(small_disk / "s.duckdb") as store, store.cursor() as con:
        filler = fill(small_disk)
        log.write_bytes(sglang_boot() + decodes(0, 2000))
        supervisor = Supervisor(store, [SourceSpec(str(log))])
        supervisor.start()
        try:
            until(lambda: supervisor.status()[0].state == "error")
            assert "the disk is full" in (supervisor.status()[0].error or "")
            assert con.execute("SELECT count(*) FROM samples").fetchone() == (0,)
            filler.unlink()
            count = "SELECT count(*), count(DISTINCT kv_tokens) FROM samples"
            until(lambda: con.execute(count).fetchone() == (2000, 2000))
            until(lambda: supervisor.status()[0].state == "following")
        finally:
            supervisor.stop()
