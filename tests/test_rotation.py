"""Rotated, packed, copied and moved logs: every line once, in the order it was written."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest
import zstandard

from data.store import Store
from ingest.importer import import_logs
from ingest.sources import names
from ingest.sources.log_file import Entry
from tests.following import following, kinds, numbers
from tests.growing import append, decodes, sglang_boot
from tests.waiting import until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder / "server.log"


def pack(path: Path, suffix: str) -> Path:
    """Pack a file as logrotate does: another file, with the time of the first."""
    packed = path.with_name(path.name + suffix)
    data, then = path.read_bytes(), path.stat()
    packed.write_bytes(gzip.compress(data) if suffix == ".gz" else zstandard.compress(data))
    os.utime(packed, ns=(then.st_atime_ns, then.st_mtime_ns))
    path.unlink()
    return packed


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_several_turns_while_nobody_read(store: Store, log: Path, suffix: str) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
    append(log, decodes(10, 3))
    for number, first in ((3, 13), (2, 16), (1, 19)):
        turned = log.rename(log.with_name(f"server.log.{number}"))
        if suffix and number > 1:
            pack(turned, suffix)
        log.write_bytes(decodes(first, 3))
    with following(store, log):
        until(lambda: len(numbers(store)) == 22)
        append(log, decodes(22, 3))
        until(lambda: len(numbers(store)) == 25)
    assert numbers(store) == list(range(25))
    with following(store, log) as supervisor:
        until(lambda: supervisor.status()[0].state == "following")
    assert numbers(store) == list(range(25))


def test_dated_turns_while_nobody_read(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
    for day, first in (("20260301", 10), ("20260302", 13)):
        log.rename(log.with_name(f"server.log-{day}"))
        log.write_bytes(decodes(first, 3))
    with following(store, log):
        until(lambda: len(numbers(store)) == 16)
    assert numbers(store) == list(range(16))


def test_two_turns_between_two_looks(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
        append(log, decodes(10, 3))
        log.rename(log.with_name("server.log.2"))
        log.with_name("server.log.1").write_bytes(decodes(13, 3))
        log.write_bytes(decodes(16, 3))
        until(lambda: len(numbers(store)) == 19)
    assert numbers(store) == list(range(19))


@pytest.mark.parametrize("live", [True, False])
def test_copytruncate_before_all_was_read(store: Store, log: Path, live: bool) -> None:
    def turn() -> None:
        copy = log.with_name("server.log.1")
        copy.write_bytes(log.read_bytes() + decodes(10, 3))  # came between our look and the copy
        os.truncate(log, 0)
        append(log, decodes(13, 3))

    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
        if live:
            turn()
            until(lambda: len(numbers(store)) == 16)
    if not live:
        turn()
        with following(store, log):
            until(lambda: len(numbers(store)) == 16)
    assert numbers(store) == list(range(16))


def test_a_symbolic_link_that_moves(store: Store, log: Path) -> None:
    first, second = log.with_name("run-1"), log.with_name("run-2")
    first.write_bytes(sglang_boot() + decodes(0, 5))
    log.symlink_to(first)
    with following(store, log):
        until(lambda: len(numbers(store)) == 5)
        append(first, decodes(5, 2))
        second.write_bytes(sglang_boot(20) + decodes(7, 5))
        fresh = log.with_name("link")
        fresh.symlink_to(second)
        fresh.rename(log)
        until(lambda: len(numbers(store)) == 12)
    assert numbers(store) == list(range(12))


@pytest.mark.parametrize("by_glob", [True, False])
def test_a_new_log_for_each_start(store: Store, log: Path, by_glob: bool) -> None:
    def start(number: int, data: bytes) -> Path:
        path = log.with_name(f"run-{number}.log")
        path.write_bytes(data)
        os.utime(path, (1e9 + number, 1e9 + number))
        return path

    where = log.with_name("run-*.log") if by_glob else log.parent
    start(0, sglang_boot(-9) + decodes(90, 3))  # of before: only the newest is followed
    first = start(1, sglang_boot() + decodes(0, 5))
    with following(store, where):
        until(lambda: len(numbers(store)) == 5)
    append(first, decodes(5, 2))
    os.utime(first, (1e9 + 1, 1e9 + 1))
    for number in (2, 3, 4):
        start(number, sglang_boot(number * 10) + decodes(2 * number + 3, 2))
    with following(store, where):
        until(lambda: len(numbers(store)) == 13)
    assert numbers(store) == list(range(13))


def test_deleted_and_made_anew_while_nobody_read(store: Store, log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 10))
    with following(store, log):
        until(lambda: len(numbers(store)) == 10)
    log.unlink()
    log.write_bytes(sglang_boot(50, "org/next") + decodes(10, 3))
    with following(store, log):
        until(lambda: len(numbers(store)) == 13)
    assert kinds(store) == ["rotated"]
    with store.cursor() as con:
        rows = con.execute("SELECT model, end_state FROM runs ORDER BY started_at").fetchall()
    assert rows == [("org/model", "lost"), ("org/next", "running")]


@pytest.mark.parametrize("lines", [1, 3])
def test_a_short_log_under_two_names_is_stored_once(store: Store, log: Path, lines: int) -> None:
    log.write_bytes(sglang_boot() + decodes(0, lines))
    assert log.stat().st_size < 1024
    os.utime(log, (1e9, 1e9))
    copy = Path(shutil.copy2(log, log.with_name("copy.log")))
    report = import_logs(store, [str(log), str(copy)])
    assert numbers(store) == list(range(lines))
    assert report.notes == [f"{copy}: already stored as {log}"]
    packed = pack(copy, ".gz")
    assert import_logs(store, [str(packed)]).samples == 0
    append(log, decodes(lines, 40))
    grown = Path(shutil.copy2(log, log.with_name("grown.log")))
    import_logs(store, [str(grown), str(log)])
    assert numbers(store) == list(range(lines + 40))


def test_a_rotated_set_is_imported_in_the_order_it_was_written(store: Store, log: Path) -> None:
    parts = {"server.log.10": 0, "server.log.2": 5, "server.log.1": 10, "server.log": 15}
    for name, first in parts.items():
        path = log.with_name(name)
        path.write_bytes((sglang_boot() if not first else b"") + decodes(first, 5))
        os.utime(path, (1e9, 1e9))  # copied without their times: the numbers tell
        if name.endswith(".2"):
            pack(path, ".zst")
        if name.endswith(".10"):
            pack(path, ".gz")
    places = []
    import_logs(store, [str(log.parent)])
    with store.cursor() as con:
        places = con.execute(
            'SELECT path FROM checkpoints GROUP BY path ORDER BY min("at")'
        ).fetchall()
    assert [Path(path).name for (path,) in places] == [
        "server.log.10.gz", "server.log.2.zst", "server.log.1", "server.log",
    ]  # fmt: skip
    assert numbers(store) == list(range(20))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_packed_log_that_is_cut_off_gives_what_is_there(
    store: Store, log: Path, suffix: str
) -> None:
    log.write_bytes(sglang_boot() + b"".join(decodes(n * 7919 % 30_000, 1) for n in range(30_000)))
    packed = pack(log, suffix)
    os.truncate(packed, packed.stat().st_size // 2)
    report = import_logs(store, [str(packed)])
    found = numbers(store)
    assert 1000 < len(found) == len(set(found)) < 30_000
    assert report.notes[0].startswith(f"{packed}: is cut off or damaged; the ")
    assert "damaged" in kinds(store)


def test_packed_pieces_one_after_another(store: Store, log: Path) -> None:
    parts = [sglang_boot() + decodes(0, 5), decodes(5, 5)]
    two = log.with_name("two.log.gz")
    two.write_bytes(b"".join(map(gzip.compress, parts)) + bytes(512))
    import_logs(store, [str(two)])
    assert numbers(store) == list(range(10))


def test_names_of_rotated_files() -> None:
    yes = ["s.log.1", "s.log.12.gz", "s.log-20260301", "s.log-20260301.zst", "s.log.2026-03-01",
           "s.log.2026-03-01_10-00", "s.1.log", "s-20260301.log", "s.log.gz"]  # fmt: skip
    no = ["s.log", "s.log.bak", "t.log.1", "s.log.1.txt", "s.log2", "s-new.log"]
    assert [name for name in yes if not names.rotated_from(name, "s.log")] == []
    assert [name for name in no if names.rotated_from(name, "s.log")] == []
    found = [Entry(f"/d/s.log.{n}", 1, 1) for n in ("10", "2.gz", "1")]
    assert [e.name for e in names.latest_first(found)] == [
        "/d/s.log.1",
        "/d/s.log.2.gz",
        "/d/s.log.10",
    ]
