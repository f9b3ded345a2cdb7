"""Following a file: every line once, whatever happens to the file."""

from __future__ import annotations

import errno
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from data.store import Store
from ingest import supervisor
from ingest.importer import import_logs
from ingest.supervisor import Supervisor
from tests.following import following, kinds, numbers
from tests.growing import START, append, decodes, sglang_boot
from tests.waiting import until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder / "server.log"


def test_lines_are_stored_as_they_come(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log) as supervisor:
        until(lambda: len(numbers(store)) == 10)
        append(log, decodes(10, 5))
        until(lambda: len(numbers(store)) == 15)
        until(lambda: supervisor.status()[0].lines_read == 16)
        [status] = supervisor.status()
        assert (status.state, status.lag_bytes) == ("following", 0)
        assert status.run_id is not None
        assert status.last_line_at is not None
        assert len(supervisor.tail(status.source_id, 3)) == 3
        assert "canary" not in "".join(supervisor.tail(status.source_id, 2000))
    assert numbers(store) == list(range(15))


def test_half_a_line_is_not_stored_before_its_end(store: Store, log: Path) -> None:
    line = decodes(1, 1)
    log.write_bytes(sglang_boot() + decodes(0, 1) + line[:90])
    with following(store, log) as supervisor:
        until(lambda: numbers(store) == [0])
        until(lambda: supervisor.status()[0].unfinished_line)
        append(log, line[90:])
        until(lambda: numbers(store) == [0, 1])


def test_a_restart_goes_on_at_the_byte(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
    append(log, decodes(10, 10))
    with following(store, log) as supervisor:
        until(lambda: len(numbers(store)) == 20)
        until(lambda: supervisor.status()[0].lines_read == 10)
        assert len(supervisor.tail(str(log), 2000)) >= 20  # those before the restart too
    assert numbers(store) == list(range(20))
    with store.cursor() as con:
        assert con.execute("SELECT count(DISTINCT run_id) FROM runs").fetchone() == (1,)


def test_a_quiet_server_is_as_quiet_after_a_restart(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log) as supervisor:
        until(lambda: supervisor.status()[0].lines_read == 11)
    wrote = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=7)
    os.utime(log, (wrote.timestamp(), wrote.timestamp()))
    with following(store, log) as supervisor:
        until(lambda: supervisor.status()[0].state == "following")
        assert supervisor.status()[0].last_line_at == wrote
        append(log, decodes(10, 1))
        until(lambda: supervisor.status()[0].lines_read == 1)
        came = supervisor.status()[0].last_line_at
        assert came is not None
        assert came > wrote + timedelta(minutes=6)


def test_a_log_of_yesterday_is_not_told_as_new(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    wrote = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=20)
    os.utime(log, (wrote.timestamp(), wrote.timestamp()))
    with following(store, log) as supervisor:
        until(lambda: supervisor.status()[0].lines_read == 11)
        assert supervisor.status()[0].last_line_at == wrote
        append(log, decodes(10, 1))
        os.utime(log, (wrote.timestamp(), wrote.timestamp()))  # a server of files with a late clock
        until(lambda: supervisor.status()[0].lines_read == 12)
        came = supervisor.status()[0].last_line_at
        assert came is not None
        assert came > wrote + timedelta(hours=19)


def test_truncation_begins_a_new_generation(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
        os.truncate(log, 0)
        append(log, sglang_boot(100, "org/other") + decodes(10, 2))
        until(lambda: len(numbers(store)) == 12)
    assert kinds(store) == ["truncated"]
    with store.cursor() as con:
        assert con.execute("SELECT count(DISTINCT file_id) FROM samples").fetchone() == (2,)


def test_same_size_rewrite_is_noticed(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(10, 40))
    with following(store, log):
        until(lambda: len(numbers(store)) == 40)
        with log.open("r+b") as file:  # same inode, same size, same first 1,024 bytes
            file.seek(-len(decodes(10, 1)), os.SEEK_END)
            file.write(decodes(99, 1))
        until(lambda: numbers(store).count(99) == 1)
    assert kinds(store) == ["rewritten"]


@pytest.mark.parametrize("compressed_later", [False, True])
def test_rotation_reads_the_old_file_to_its_end(
    store: Store, log: Path, compressed_later: bool
) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    old = log.with_name("server.log.1")
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
        with log.open("ab", buffering=0) as server:
            log.rename(old)
            log.touch()
            server.write(decodes(10, 3))  # still writes to the old file, then reopens
        until(lambda: len(numbers(store)) == 13)
        if compressed_later:
            old.unlink()
        append(log, decodes(13, 3))
        until(lambda: len(numbers(store)) == 16)
    assert numbers(store) == list(range(16))
    assert kinds(store) == ["rotated"]


def test_rotation_while_stopped_reads_the_rest_of_the_old_file(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
    append(log, decodes(10, 3))
    log.rename(log.with_name("server.log.1"))
    log.write_bytes(sglang_boot(50) + decodes(13, 3))
    with following(store, log):
        until(lambda: len(numbers(store)) == 16)
    assert numbers(store) == list(range(16))


def test_copytruncate_loses_and_repeats_nothing(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
        shutil.copy(log, log.with_name("server.log.1"))
        os.truncate(log, 0)
        append(log, decodes(10, 3))
        until(lambda: len(numbers(store)) == 13)
    assert numbers(store) == list(range(13))


def test_a_renamed_file_is_known_by_its_content(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 20))
    with following(store, log):
        until(lambda: len(numbers(store)) == 20)
    moved = log.with_name("moved.log")
    log.rename(moved)
    append(moved, decodes(20, 2))
    with following(store, moved):
        until(lambda: len(numbers(store)) == 22)
    assert numbers(store) == list(range(22))
    assert kinds(store) == ["renamed"]


def test_a_copy_that_grows_apart_is_a_file_of_its_own(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 20))
    copy = log.with_name("copy.log")
    with following(store, log):
        until(lambda: len(numbers(store)) == 20)
        shutil.copy(log, copy)
    append(log, decodes(20, 1))
    append(copy, decodes(30, 1))
    with following(store, log, copy):
        until(lambda: len(numbers(store)) == 42)
    assert set(numbers(store)) == {*range(21), 30}


def test_a_line_too_long_is_skipped_and_told(store: Store, log: Path) -> None:
    long = b"x" * (9 << 20) + b"\n"
    log.write_bytes(sglang_boot() + decodes(0, 2) + long + decodes(2, 2) + long[-(2 << 20) :])
    append(log, decodes(4, 2))
    with following(store, log):
        until(lambda: len(numbers(store)) == 6)
    assert kinds(store) == ["too_long", "too_long"]
    text = log.read_bytes()
    with store.cursor() as con:
        rows = con.execute("SELECT kv_tokens, byte_offset, line_no FROM samples").fetchall()
    for number, offset, line_no in rows:
        assert text[offset:].startswith(decodes(number, 1))
        assert text[:offset].count(b"\n") + 1 == line_no


def test_missing_file_is_waited_for_and_a_vanished_one_too(store: Store, log: Path) -> None:
    def state(supervisor: Supervisor) -> Any:
        return supervisor.status()[0].state

    with following(store, log) as supervisor:
        until(lambda: state(supervisor) == "waiting for file")
        log.write_bytes(sglang_boot() + decodes(0, 3))
        until(lambda: state(supervisor) == "following" and len(numbers(store)) == 3)
        log.unlink()
        until(lambda: state(supervisor) == "waiting for file")
        log.write_bytes(sglang_boot(9) + decodes(3, 3))
        until(lambda: len(numbers(store)) == 6)


def test_folder_is_followed_to_its_newest_file(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 3))
    with following(store, log.parent):
        until(lambda: len(numbers(store)) == 3)
        append(log, decodes(3, 1))
        log.with_name("later.log").write_bytes(sglang_boot(30) + decodes(4, 3))
        until(lambda: len(numbers(store)) == 7)
    assert numbers(store) == list(range(7))


def test_unreadable_source_is_an_error_in_words(store: Store, log: Path) -> None:
    os.mkfifo(log)
    with following(store, log) as supervisor:
        until(lambda: supervisor.status()[0].state == "error")
        assert "not a regular file" in (supervisor.status()[0].error or "")


def test_one_file_under_two_names_is_read_once(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 5))
    with following(store, log, log.parent) as supervisor:
        until(lambda: {entry.state for entry in supervisor.status()} == {"following", "error"})
        append(log, decodes(5, 5))
        until(lambda: len(numbers(store)) == 10)
    assert numbers(store) == list(range(10))


def test_a_run_that_was_imported_while_it_ran_goes_on(store: Store, log: Path) -> None:
    def runs() -> list[tuple[Any, ...]]:
        with store.cursor() as con:
            return con.execute(
                "SELECT end_state, ended_at, model FROM runs ORDER BY started_at"
            ).fetchall()

    log.write_bytes(sglang_boot() + decodes(0, 50))
    import_logs(store, [str(log)])
    lost = ("lost", START + timedelta(seconds=24), "org/model")
    assert runs() == [lost]
    with following(store, log) as supervisor:
        until(lambda: supervisor.status()[0].state == "following")
        assert runs() == [lost]
        append(log, decodes(50, 10))
        until(lambda: runs() == [("running", None, "org/model")])
        append(log, sglang_boot(60, "org/next"))
        until(lambda: len(runs()) == 2)
    assert runs() == [
        ("lost", START + timedelta(seconds=29), "org/model"),
        ("running", None, "org/next"),
    ]


def test_without_inotify_a_log_is_polled(
    log: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user may have 128 instances of it; using them all up here would disturb other programs."""

    def none_left() -> None:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    monkeypatch.setattr(supervisor, "Observer", none_left)
    log.write_bytes(sglang_boot() + decodes(0, 2))
    with following(store, log):
        until(lambda: numbers(store) == [0, 1], 60)
        append(log, decodes(2, 1))
        until(lambda: numbers(store) == [0, 1, 2], 60)
