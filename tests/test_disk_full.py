"""A full disk: told in one line, nothing half stored, and reading goes on once there is room."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from data.checkpoints import Checkpoint
from data.errors import StoreError
from data.store import Store
from tests.command import fails, run
from tests.following import following
from tests.frames import decode, samples
from tests.growing import decodes, sglang_boot
from tests.postgres import Postgres
from tests.waiting import until

MEGABYTES = 4


class Disk:
    """A place with room for a few megabytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Use up all there is."""
        room = os.statvfs(self.folder)
        (self.folder / "filler").write_bytes(bytes(room.f_bavail * room.f_bsize))

    def free(self) -> None:
        """Make room again."""
        (self.folder / "filler").unlink()


class Limit(Disk):
    """The same for an account without the right to mount: no file may grow beyond a size."""

    def fill(self) -> None:
        """Let no file of this process and its children grow beyond that of the store."""
        sizes = [path.stat().st_size for path in self.folder.iterdir()]
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes), most))

    def free(self) -> None:
        """As before."""
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@pytest.fixture(params=["disk", "limit"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A small file system, or, also where none may be mounted, a limit on the size of files."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    if request.param == "disk" and subprocess.run(mount, capture_output=True).returncode == 0:
        try:
            yield Disk(folder)
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    limit = Limit(folder)
    try:
        yield limit
    finally:
        limit.free()


def test_import_says_so_and_the_store_can_still_be_read(small_disk: Disk, tmp_path: Path) -> None:
    log, store = tmp_path / "server.log", small_disk.folder / "s.duckdb"
    log.write_bytes(sglang_boot() + decodes(0, 20_000))
    Store.open(store).close()
    small_disk.fill()
    line = fails("import", log, "--store", store)
    assert line.startswith(f"servescope: {store}: the disk is full; free some space")
    done = run("runs", "--store", store)
    assert (done.returncode, done.stderr) == (0, "")


def test_following_goes_on_when_there_is_room_again(small_disk: Disk, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with Store.open(small_disk.folder / "s.duckdb") as store, store.cursor() as con:
        log.write_bytes(sglang_boot() + decodes(0, 2000))
        small_disk.fill()
        with following(store, log) as supervisor:
            until(lambda: supervisor.status()[0].state == "error")
            assert "the disk is full" in (supervisor.status()[0].error or "")
            assert con.execute("SELECT count(*) FROM samples").fetchone() == (0,)
            small_disk.free()
            count = "SELECT count(*), count(DISTINCT kv_tokens) FROM samples"
            until(lambda: con.execute(count).fetchone() == (2000, 2000))
            until(lambda: supervisor.status()[0].state == "following")


def test_an_append_to_a_full_folder_of_many_machines_is_told_and_repeated(
    small_disk: Disk, postgres: Postgres
) -> None:
    lines = samples(decode(second) for second in range(5000))  # too many for the catalog alone
    after = Checkpoint("h:/log", "f", "h:/log", 1, 10, 1, "ab", 10, "cd", "{}", after=0)
    count = "SELECT count(*), (SELECT count(*) FROM checkpoints) FROM samples"
    with Store.open(postgres.lake(small_disk.folder / "files")) as store, store.cursor() as con:
        small_disk.fill()
        for _ in range(2):
            with pytest.raises(StoreError, match=r"the disk of data_path is full; free some space"):
                store.append(lines, after)
        assert con.execute(count).fetchone() == (0, 0)
        small_disk.free()
        store.append(lines, after)
        assert con.execute(count).fetchone() == (5000, 1)
