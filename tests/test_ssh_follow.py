"""A log on another host, over a real sshd: every line once, whatever happens to the connection."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from data.store import Store
from ingest import backoff
from ingest.sources import ssh
from tests.following import following, kinds, numbers, state
from tests.growing import append, decodes, sglang_boot
from tests.kill import nursery_of
from tests.sshd import Sshd, serving
from tests.waiting import until


@pytest.fixture
def host(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    monkeypatch.setattr(backoff, "FIRST_S", 0.05)
    monkeypatch.setattr(backoff, "MOST_S", 0.5)
    with serving(tmp_path / "sshd", own_home) as server:
        yield server


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "server.log"


def test_lines_are_stored_as_they_come(host: Sshd, store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, host.url(log)) as supervisor:
        until(lambda: len(numbers(store)) == 10)
        append(log, decodes(10, 5))
        until(lambda: len(numbers(store)) == 15)
        until(lambda: state(supervisor) == "following")
        [status] = supervisor.status()
        assert status.path == host.url(log)
        assert status.lag_bytes == 0
        assert len(supervisor.tail(status.source_id, 3)) == 3
    append(log, decodes(15, 5))
    with following(store, host.url(log)):
        until(lambda: len(numbers(store)) == 20)
    assert numbers(store) == list(range(20))


def test_a_cut_connection_loses_and_repeats_nothing(host: Sshd, store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot())
    with following(store, host.url(log)) as supervisor:
        until(lambda: state(supervisor) == "following")
        for first in range(0, 100, 20):
            append(log, decodes(first, 10))
            until(lambda first=first: len(numbers(store)) >= first + 10)  # type: ignore[misc]
            assert host.signal_sessions(signal.SIGKILL) > 0
            append(log, decodes(first + 10, 10))
        until(lambda: len(numbers(store)) == 100)
        until(lambda: state(supervisor) == "following")
    assert numbers(store) == list(range(100))
    assert "reconnected" in kinds(store)


def test_a_cut_in_the_middle_of_a_large_read(host: Sshd, store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 200_000))
    with following(store, host.url(log)) as supervisor:
        for least in (1, 60_000, 120_000):
            until(lambda least=least: len(numbers(store)) >= least, 60)  # type: ignore[misc]
            host.signal_sessions(signal.SIGKILL)
        until(lambda: len(numbers(store)) == 200_000, 60)
        until(lambda: state(supervisor) == "following")
    assert numbers(store) == list(range(200_000))


def test_a_host_that_goes_down_and_comes_back(host: Sshd, store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, host.url(log)) as supervisor:
        until(lambda: len(numbers(store)) == 10)
        host.stop()
        until(lambda: state(supervisor) == "reconnecting")
        [status] = supervisor.status()
        assert status.retry_at is not None
        assert "Connection refused" in (status.error or "") or "closed" in (status.error or "")
        append(log, decodes(10, 10))
        log.rename(log.with_name("server.log.1"))
        log.write_bytes(sglang_boot(60) + decodes(20, 10))
        host.start()
        until(lambda: len(numbers(store)) == 30)
        until(lambda: state(supervisor) == "following" and supervisor.status()[0].error is None)
    assert numbers(store) == list(range(30))


def test_a_frozen_host_is_given_up_and_tried_again(
    host: Sshd, store: Store, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "ANSWER_S", 0.5)
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, host.url(log)) as supervisor:
        until(lambda: len(numbers(store)) == 10)
        assert host.signal_sessions(signal.SIGSTOP) > 0
        append(log, decodes(10, 10))
        until(lambda: len(numbers(store)) == 20)  # over a new connection
        until(lambda: state(supervisor) == "following")
    assert numbers(store) == list(range(20))


_COUNTS = """
import os, sys, threading
from data.store import Store
from ingest.config import SourceSpec
from ingest.supervisor import Supervisor
# Loaded once: each line asks for a new process, which tells its number and then what is stored.
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        store = Store.open(sys.argv[1])
        Supervisor(store, [SourceSpec(sys.argv[2])]).start()
        while True:
            with store.cursor() as con:
                print(con.execute('SELECT count(*) FROM samples').fetchone()[0], flush=True)
            threading.Event().wait(0.05)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


def test_we_are_killed_and_started_again(
    host: Sshd, tmp_path: Path, log: Path, own_home: Path
) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 1000))
    store = tmp_path / "k.duckdb"
    with nursery_of([sys.executable, "-c", _COUNTS, str(store), host.url(log)]) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        for wanted in (1000, 2000, 3000):
            nursery.stdin.write("\n")
            nursery.stdin.flush()
            follower = int(nursery.stdout.readline())
            while int(nursery.stdout.readline()) < wanted - 900:
                pass
            append(log, decodes(wanted, 1000))
            os.kill(follower, signal.SIGKILL)
            while nursery.stdout.readline() != "ended\n":
                pass
    with Store.open(store) as opened, following(opened, host.url(log)), opened.cursor() as con:
        count = "SELECT count(*), count(DISTINCT kv_tokens) FROM samples"
        until(lambda: con.execute(count).fetchone() == (4000, 4000))


def test_rotation_and_copytruncate_are_seen(host: Sshd, store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    old = log.with_name("server.log.1")
    with following(store, host.url(log)):
        until(lambda: len(numbers(store)) == 10)
        with log.open("ab", buffering=0) as server:
            log.rename(old)
            log.touch()
            server.write(decodes(10, 3))
        until(lambda: len(numbers(store)) == 13)
        append(log, sglang_boot(50) + decodes(13, 3))
        until(lambda: len(numbers(store)) == 16)
        old.write_bytes(log.read_bytes())
        os.truncate(log, 0)
        append(log, decodes(16, 1))
        until(lambda: len(numbers(store)) == 17)
        log.unlink()
        log.write_bytes(decodes(17, 1))
        until(lambda: len(numbers(store)) == 18)
    assert numbers(store) == list(range(18))


def test_same_size_rewrite_within_a_second_is_noticed(host: Sshd, store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(10, 40))
    with following(store, host.url(log)):
        until(lambda: len(numbers(store)) == 40)
        changed = log.stat()
        with log.open("r+b") as file:
            file.seek(-len(decodes(10, 1)), os.SEEK_END)
            file.write(decodes(99, 1))
        os.utime(log, ns=(changed.st_atime_ns, changed.st_mtime_ns))
        until(lambda: numbers(store).count(99) == 1)
    assert kinds(store) == ["rewritten"]


def test_a_folder_is_followed_to_its_newest_file(host: Sshd, store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 3))
    os.utime(log, (1e9, 1e9))
    with following(store, host.url(log.parent)):
        until(lambda: len(numbers(store)) == 3)
        log.with_name("later.log").write_bytes(sglang_boot(30) + decodes(3, 3))
        until(lambda: len(numbers(store)) == 6)
    assert numbers(store) == list(range(6))


def test_the_zone_of_the_host_is_asked(host: Sshd, store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 3))
    target = os.readlink("/etc/localtime").rpartition("zoneinfo/")[2]
    with following(store, host.url(log)) as supervisor, store.cursor() as con:
        until(lambda: state(supervisor) == "following")
        zone = 'SELECT zone, kind FROM sources ORDER BY "at" DESC LIMIT 1'
        assert con.execute(zone).fetchone() == (target, "ssh")
