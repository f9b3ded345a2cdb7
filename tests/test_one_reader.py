"""A file has one reader at a time, whatever it is called: no line is stored twice."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from data.checkpoints import Checkpoint
from data.errors import ConflictError
from data.store import Store
from ingest.claims import Claims
from ingest.commands import Commands
from ingest.config import SourceSpec
from ingest.importer import import_logs
from ingest.pipeline import SourceInfo
from ingest.reading import Reading
from ingest.sources.file import LocalFile
from ingest.supervisor import Supervisor
from ingest.writer import Writer
from tests.following import following, numbers
from tests.frames import Frames, decode, samples
from tests.growing import append, decodes, sglang_boot
from tests.waiting import until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(sglang_boot() + decodes(0, 50))
    return path


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_import_of_a_followed_file_by_another_name(
    store: Store, log: Path, tmp_path: Path, link: object
) -> None:
    other = tmp_path / "other.log"
    os.symlink(log, other) if link is os.symlink else os.link(log, other)
    with following(store, log) as supervisor:
        until(lambda: len(numbers(store)) == 50)
        report = Commands(store, supervisor).import_logs([str(other)], None, None)
        append(log, decodes(50, 5))
        until(lambda: len(numbers(store)) >= 55)
    assert report["notes"] == [f"{other}: is being followed as {log}, so it is stored as it grows"]
    assert numbers(store) == list(range(55))


def test_import_of_a_copy_that_is_ahead_of_the_followed_file(
    store: Store, log: Path, tmp_path: Path
) -> None:
    ahead = tmp_path / "ahead.log"
    ahead.write_bytes(log.read_bytes() + decodes(50, 100))
    with following(store, log) as supervisor:
        until(lambda: len(numbers(store)) == 50)
        report = Commands(store, supervisor).import_logs([str(ahead)], None, None)
        append(log, decodes(50, 100))
        until(lambda: len(numbers(store)) >= 150)
    assert report["notes"] == [f"{ahead}: is being followed as {log}, so it is stored as it grows"]
    assert numbers(store) == list(range(150))


def test_import_of_a_log_that_parted_from_the_followed_one(
    store: Store, log: Path, tmp_path: Path
) -> None:
    parted = tmp_path / "parted.log"
    parted.write_bytes(log.read_bytes() + decodes(1000, 10))
    with following(store, log) as supervisor:
        until(lambda: len(numbers(store)) == 50)
        append(log, decodes(50, 10))
        until(lambda: len(numbers(store)) == 60)
        report = Commands(store, supervisor).import_logs([str(parted)], None, None)
        append(log, decodes(60, 10))
        until(lambda: len(numbers(store)) >= 130)
    assert report["samples"] == 60
    assert numbers(store) == sorted([*range(50), *range(70), *range(1000, 1010)])


def test_follower_waits_for_an_import_and_goes_on_from_it(store: Store, log: Path) -> None:
    supervisor = Supervisor(store, [SourceSpec(str(log))])
    importing = LocalFile(log)
    assert supervisor.claims.take(importing, None) is None
    supervisor.start()
    try:
        until(lambda: supervisor.status()[0].state == "waiting for file")
        assert numbers(store) == []
        supervisor.claims.release(importing)
        importing.close()
        until(lambda: len(numbers(store)) == 50)
    finally:
        supervisor.stop()


def test_claims_know_generations_and_end_with_their_release(log: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(log, tmp_path / "copy.log"))
    claims, one, two = Claims(), LocalFile(log), LocalFile(copy)
    assert claims.take(one, "source") is None
    claims.tell(one, "f1")
    assert (claims.others(two), claims.others(one)) == ({"f1"}, set())
    found = claims.take(two, None)
    assert found is not None
    assert found.source_id == "source"
    assert claims.take(two, "another source") is None  # the two may grow apart
    claims.release(two)
    claims.release(one)
    assert claims.take(two, None) is None
    for file in (one, two):
        file.close()


@pytest.mark.parametrize(("seq", "after"), [(2, None), (1, None), (5, 1), (5, 3), (5, 0)])
def test_an_append_that_does_not_go_on_is_refused(store: Store, seq: int, after: int) -> None:
    def checkpoint(seq: int, after: int | None) -> Checkpoint:
        return Checkpoint("s", "f", "/log", seq, seq * 10, 1, "ab", 10, "cd", "{}", after=after)

    store.append(samples([decode(1)]), checkpoint(1, 0))
    store.append(Frames(), checkpoint(2, 1))
    with pytest.raises(ConflictError, match="another reader"):
        store.append(samples([decode(2)]), checkpoint(seq, after))
    with store.cursor() as con:
        assert con.execute("SELECT count(*) FROM samples").fetchone() == (1,)
        assert con.execute("SELECT max(seq) FROM checkpoints").fetchone() == (2,)
    store.append(samples([decode(2)]), checkpoint(7, 2))


def test_refusal_holds_after_the_store_was_opened_again(tmp_path: Path) -> None:
    first = Checkpoint("s", "f", "/log", 4, 10, 1, "ab", 10, "cd", "{}", after=0)
    with Store.open(tmp_path / "s.duckdb") as store:
        store.append(Frames(), first)
    with Store.open(tmp_path / "s.duckdb") as store, pytest.raises(ConflictError):
        store.append(samples([decode(1)]), first)


def test_writer_drops_only_what_another_reader_has_stored(
    store: Store, log: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.log"
    other.write_bytes(sglang_boot(900) + decodes(1000, 5))
    import_logs(store, [str(log)])
    with store.cursor() as con:
        con.execute("SELECT file_id FROM checkpoints LIMIT 1")
        [known] = con.fetchall()[0]
    late, fresh = (Reading(SourceInfo(str(p)), LocalFile(p), None) for p in (log, other))
    late.file_id = known
    writer = Writer(store, retry=True)
    stored: list[Path] = []
    for reading in (late, fresh):
        step = reading.step()
        assert step is not None
        writer.put(step, partial(stored.append, Path(reading.file.name)))
    writer.flush()
    assert (writer.refused(known), writer.refused(known)) == (True, False)
    assert not writer.refused(fresh.file_id)
    writer.stop()
    assert stored == [other]
    assert numbers(store) == [*range(50), *range(1000, 1005)]
    for reading in (late, fresh):
        reading.file.close()
