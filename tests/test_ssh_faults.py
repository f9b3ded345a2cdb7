"""A log on another host while packets are lost, and while our own disk is full.

Both need root: a network namespace and a mounted file system. A machine that refuses them fails
these tests and says why; they are not skipped.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from data.store import Store
from ingest import backoff
from ingest.sources import ssh
from tests.following import following, numbers, state
from tests.growing import append, decodes, sglang_boot
from tests.sshd import serving
from tests.waiting import until

OURS, THEIRS = "10.231.77.1", "10.231.77.2"
MEGABYTES = 4


def must(*command: str) -> None:
    """Run a command; where the machine refuses it the test fails with what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        pytest.fail(f"this test needs `{command[0]}`: {error.strerror}")
    if done.returncode:
        pytest.fail(f"this machine refuses `{' '.join(command)}`: {done.stderr.strip()}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines of seconds, not of a quarter of a minute."""
    for name, seconds in (("ANSWER_S", 0.5), ("CONNECT_S", 1.0), ("LOGIN_S", 3.0)):
        monkeypatch.setattr(ssh, name, seconds)
    monkeypatch.setattr(backoff, "FIRST_S", 0.05)
    monkeypatch.setattr(backoff, "MOST_S", 0.5)


class Network:
    """A network of two ends, ours and one in a namespace of its own."""

    def __init__(self, keeper: subprocess.Popen[bytes]) -> None:
        self.within = ["nsenter", f"--net=/proc/{keeper.pid}/ns/net"]
        cable = f"svc{os.getpid()}"
        must("ip", "link", "add", cable, "type", "veth", "peer", "name", f"{cable}p")
        must("ip", "link", "set", f"{cable}p", "netns", str(keeper.pid))
        must("ip", "address", "add", f"{OURS}/30", "dev", cable)
        must("ip", "link", "set", cable, "up")
        must(*self.within, "ip", "address", "add", f"{THEIRS}/30", "dev", f"{cable}p")
        must(*self.within, "ip", "link", "set", f"{cable}p", "up")

    def drop(self) -> None:
        """No packet from the host arrives any more, and nobody is told."""
        must(*self.within, "ip", "route", "add", "blackhole", f"{OURS}/32")

    def pass_on(self) -> None:
        """Packets arrive again."""
        must(*self.within, "ip", "route", "delete", "blackhole", f"{OURS}/32")


@contextmanager
def network() -> Iterator[Network]:
    must("unshare", "--net", "true")
    keeper = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 600"],
                              stdout=subprocess.PIPE)  # fmt: skip
    with keeper:
        try:
            assert keeper.stdout is not None
            keeper.stdout.readline()
            yield Network(keeper)  # both ends go with the namespace
        finally:
            keeper.kill()


def test_packets_that_are_lost_lose_no_line(tmp_path: Path, own_home: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with ExitStack() as stack:
        net = stack.enter_context(network())
        host = stack.enter_context(
            serving(tmp_path / "sshd", own_home, address=THEIRS, within=net.within)
        )
        store = stack.enter_context(Store.open(tmp_path / "s.duckdb"))
        supervisor = stack.enter_context(following(store, host.url(log)))
        until(lambda: len(numbers(store)) == 10)
        for first in (10, 30):
            net.drop()
            append(log, decodes(first, 10))
            until(lambda: state(supervisor) == "reconnecting")
            assert "no answer in time" in (supervisor.status()[0].error or "")
            assert len(numbers(store)) == first
            append(log, decodes(first + 10, 10))
            net.pass_on()
            until(lambda first=first: len(numbers(store)) == first + 20)  # type: ignore[misc]
            until(lambda: state(supervisor) == "following")
        assert numbers(store) == list(range(50))
        with store.cursor() as con:
            kinds = con.execute("SELECT DISTINCT kind FROM ingest_log").fetchall()
        assert kinds == [("reconnected",)]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    must("mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_here_loses_no_line_there(tmp_path: Path, own_home: Path, small: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with (
        serving(tmp_path / "sshd", own_home) as host,
        Store.open(small / "s.duckdb") as store,
        following(store, host.url(log)) as supervisor,
    ):
        until(lambda: len(numbers(store)) == 10)
        room = os.statvfs(small)
        (small / "filler").write_bytes(bytes(room.f_bavail * room.f_bsize))
        append(log, decodes(10, 40))
        until(lambda: state(supervisor) == "error")
        assert "the disk is full" in (supervisor.status()[0].error or "")
        host.signal_sessions(signal.SIGKILL)  # and the connection breaks as well
        append(log, decodes(50, 10))
        log.rename(tmp_path / "server.log.1")
        log.write_bytes(decodes(60, 10))
        assert numbers(store) == list(range(10))
        (small / "filler").unlink()
        until(lambda: len(numbers(store)) == 70)
        until(lambda: state(supervisor) == "following")
        assert numbers(store) == list(range(70))
        with store.cursor() as con:
            assert con.execute("SELECT count(*) FROM runs").fetchone() == (1,)
