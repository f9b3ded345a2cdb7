"""A store of many machines: who may do what, and that nothing is stored twice or lost."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import duckdb
import psycopg
import pytest

from data import lake, lake_session, lake_store, lake_upkeep
from data.checkpoints import Checkpoint
from data.errors import ConflictError, StoreError
from data.lake_place import LakePlace
from data.migrate import HERE
from data.store import Store
from data.summary import LATE_INTERVALS
from parsers import records
from tests.frames import Frames, decode, facts, samples
from tests.postgres import Postgres
from tests.waiting import until

FIRST = Checkpoint("gpu1:/log", "f1", "gpu1:/log", 1, 10, 1, "ab", 10, "cd", "{}", after=0)
SECOND = replace(FIRST, seq=2, byte_offset=20, after=1)


@pytest.fixture(scope="module")
def location(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake that the tests of this module share, each with files and runs of its own."""
    return postgres.lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def two(location: str) -> Iterator[tuple[Store, Store]]:
    """Two processes' stores in it."""
    with Store.open(location) as one, Store.open(location) as other:
        yield one, other


def count(store: Store, run_id: str) -> int:
    with store.cursor() as con:
        row = con.execute("SELECT count(*) FROM samples WHERE run_id = ?", [run_id]).fetchone()
    assert row is not None
    return int(row[0])


def mine(name: str, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint for a file of this name."""
    return replace(checkpoint, file_id=name, path=f"gpu1:/{name}", source_id=f"gpu1:/{name}")


def test_what_one_stores_the_other_reads(two: tuple[Store, Store]) -> None:
    one, other = two
    before = other.revision
    one.append(samples([decode(1, run_id="read")]), mine("read", FIRST))
    assert count(other, "read") == 1
    with other.cursor() as con:
        assert con.execute("SELECT max(id) > ? FROM lake.current_snapshot()", [before]).fetchone()


def test_a_commit_that_does_not_go_on_from_what_is_stored_is_refused(
    two: tuple[Store, Store],
) -> None:
    one, other = two
    one.append(samples([decode(1, run_id="fence")]), mine("fence", FIRST))
    other.append(samples([decode(2, run_id="fence")]), mine("fence", SECOND))
    # The first one's memory says that its own checkpoint is still the latest.
    with pytest.raises(ConflictError, match="gpu1:/fence: another reader has stored") as error:
        one.append(samples([decode(2, run_id="fence")]), mine("fence", SECOND))
    assert error.value.file_id == "fence"
    assert count(one, "fence") == 2
    third = replace(mine("fence", SECOND), seq=3, byte_offset=30, after=2)
    one.append(samples([decode(3, run_id="fence")]), third)
    assert count(other, "fence") == 3


def test_two_that_begin_one_file_are_told_apart_by_its_path(two: tuple[Store, Store]) -> None:
    one, other = two
    one.append(samples([decode(1, run_id="path")]), mine("path", FIRST))
    twin = replace(mine("path", FIRST), file_id="another")
    with pytest.raises(ConflictError) as error:
        other.append(samples([decode(1, run_id="path")]), twin)
    assert error.value.file_id == "another"
    assert count(one, "path") == 1


def test_appends_at_once_are_all_stored(two: tuple[Store, Store]) -> None:
    def fill(store: Store, name: str) -> None:
        for seq in range(1, 11):
            step = replace(mine(name, FIRST), seq=seq, after=seq - 1, byte_offset=seq)
            store.append(samples([decode(seq, run_id="at once")]), step)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(fill, store, f"at{n}") for n, store in enumerate(two)]:
            done.result()
    assert count(two[0], "at once") == 20


def test_a_source_has_one_collector(
    two: tuple[Store, Store], postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_store, "HELD_S", 0.0)  # a lock is looked after each time
    one, other = two
    one.hold("gpu1:/held")
    one.hold("gpu1:/held")
    other.hold("gpu2:/held")
    with pytest.raises(StoreError, match=r"gpu1:/held: process \d+ on .* follows it"):
        other.hold("gpu1:/held")
    one.let_go("gpu1:/held")
    other.hold("gpu1:/held")
    # Whoever loses the connection loses the source, and takes it again if nobody else has.
    postgres.execute(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_locks WHERE locktype = 'advisory'"
    )
    one.hold("gpu1:/held")
    with pytest.raises(StoreError, match=r"gpu1:/held: process \d+ on .* follows it"):
        other.hold("gpu1:/held")


def test_upkeep_changes_no_answer(two: tuple[Store, Store]) -> None:
    one, other = two
    for seq in range(1, 6):
        step = replace(mine("upkeep", FIRST), seq=seq, after=seq - 1)
        one.append(samples([decode(seq, run_id="upkeep")]), step)
    with other.upkeep():
        other.shrink()
    assert count(one, "upkeep") == 5
    with one.cursor() as con:
        rows = con.execute("SELECT n_decode FROM run_summary WHERE run_id = 'upkeep'").fetchall()
    assert rows == [(5,)]
    assert one.size_bytes() > 0


def test_a_clock_that_is_ahead_deletes_nothing_too_early(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(hours=1)

    with Store.open(location) as store, store.cursor() as con:
        assert isinstance(store, lake_store.LakeStore)
        snapshots = "SELECT count(*), min(snapshot_id) FROM lake.snapshots()"
        store.append(samples([decode(1, run_id="clock")]), None)
        before = con.execute(snapshots).fetchall()[0]
        monkeypatch.setattr(lake, "datetime", Ahead)
        store.tidy()
        count, first = con.execute(snapshots).fetchall()[0]
        assert count >= before[0]
        assert first == before[1]


def test_one_process_is_elected_for_upkeep(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    busy: list[threading.Thread] = []
    told = threading.Event()

    def once(upkeep: lake_upkeep.Upkeep) -> None:
        busy.append(threading.current_thread())
        if len(busy) >= 4:
            told.set()

    monkeypatch.setattr(lake_upkeep, "EVERY_S", 0.1)
    monkeypatch.setattr(lake_upkeep.Upkeep, "_once", once)
    with Store.open(location), Store.open(location):
        assert told.wait(60)
        assert len(set(busy)) == 1


def test_who_is_elected_leaves_others_their_turn(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    monkeypatch.setattr(lake_upkeep, "EVERY_S", 0.01)
    monkeypatch.setattr(lake_upkeep.Upkeep, "_once", lambda upkeep: done.set())
    with Store.open(location), Store.open(location) as other:
        assert done.wait(60)
        with other.upkeep():  # as `servescope compact` does while a collector runs
            pass


def test_who_waits_too_long_is_told_for_whom(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_session, "LOCK_WAIT_S", 0.2)
    monkeypatch.setattr(lake, "contents", lambda: "1 other views")  # something is to be upgraded
    place = LakePlace.parse(location)
    with (
        contextlib.closing(lake_session.LakeSession(place)) as frozen,
        frozen.alone(lake_session.MIGRATING),
        pytest.raises(StoreError) as error,
    ):
        Store.open(location)
    text = str(error.value)
    assert "\n" not in text
    pid = rf"process {os.getpid()} on \S+ \(connection \d+, since \d\d:\d\d:\d\d UTC\)"
    assert re.search(f"{pid} has been opening or upgrading the store for 0.2 s", text)
    monkeypatch.undo()
    Store.open(location).close()


def test_opening_waits_for_no_commit(location: str) -> None:
    """A process that stands still in mid-commit keeps nobody from opening, and is given up."""
    place = LakePlace.parse(location)
    with psycopg.connect(place.conninfo) as commit:
        commit.execute(
            "INSERT INTO ducklake_snapshot_changes SELECT -1, NULL, 'x', 'x', '[{\"servescope\": "
            '"file frozen", "seq": 1, "after": 0, "schema": 999}]\''
        )
        assert commit.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("15s",)
        with Store.open(location) as store:
            assert store.revision > 0
        commit.rollback()
        assert commit.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)


_WRITER = """
import sys
from data.store import Store
from data.summary import LATE_INTERVALS
from parsers import records
from tests.frames import decode, samples
from tests.test_lake import FIRST, mine
store = Store.open(sys.argv[1])
print("open", file=sys.stderr)  # standard output may hold DuckDB's progress
sys.stdin.readline()
store.append(samples([decode(1, run_id="killed")]), mine("killed", FIRST))
"""


def test_a_writer_that_is_killed_in_mid_commit_stores_all_or_nothing(
    location: str, postgres: Postgres
) -> None:
    database = dict(LakePlace.parse(location).words)["dbname"]
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, location], cwd=HERE.parent,
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with writer, psycopg.connect(LakePlace.parse(location).conninfo) as door:
        assert writer.stderr is not None
        assert writer.stdin is not None
        assert writer.stderr.readline() == b"open\n"
        door.execute("LOCK TABLE ducklake_snapshot_changes IN SHARE MODE")
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
        until(lambda: postgres.execute(waits, database) != [], 240)
        writer.kill()
        writer.wait()
    with Store.open(location) as store, store.cursor() as con:
        with contextlib.suppress(ConflictError):  # the server may have ended what it was told
            store.append(samples([decode(1, run_id="killed")]), mine("killed", FIRST))
        assert count(store, "killed") == 1
        rows = con.execute("SELECT count(*) FROM checkpoints WHERE file_id = 'killed'").fetchone()
        assert rows == (1,)


def test_nothing_but_the_lake_is_in_reach(location: str, tmp_path: Path) -> None:
    outside = tmp_path / "secret.csv"
    outside.write_text("a\n1\n")
    extension = tmp_path / "mine.duckdb_extension"  # those of the lake were loaded unsigned
    extension.touch()
    with Store.open(location) as store, store.cursor() as con:
        for statement in (
            f"LOAD '{extension}'",
            f"SELECT * FROM '{outside}'",
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
            f"ATTACH '{tmp_path}/other.duckdb'",
            "INSTALL httpfs",
            "SET allowed_directories = ['/']",
        ):
            with pytest.raises(duckdb.Error, match=r"disabled|locked|configuration"):
                con.execute(statement).fetchall()


def test_no_password_can_be_shown(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "sesame-4711")
    with Store.open(location) as store, store.cursor() as con:
        for catalog in ("duckdb_databases()", "duckdb_secrets()", "duckdb_settings()"):
            assert "sesame" not in str(con.execute(f"SELECT * FROM {catalog}").fetchall())
    with pytest.raises(StoreError) as error:
        Store.open(f"{location} password='sesame-4711'")
    assert "sesame" not in str(error.value)
    assert "PGPASSFILE" in str(error.value)


def test_a_role_that_may_only_read_is_enough_for_a_dashboard(
    location: str, postgres: Postgres
) -> None:
    database = dict(LakePlace.parse(location).words)["dbname"]
    with Store.open(location) as store:
        store.append(samples([decode(1, run_id="seen")]), mine("seen", FIRST))
    for statement in (
        "CREATE ROLE viewer LOGIN",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO viewer",
    ):
        postgres.execute(statement, database)
    with Store.open(postgres.words(database, "viewer")) as store:
        assert store.read_only
        assert count(store, "seen") == 1
        with pytest.raises(StoreError, match="may only read"):
            store.append(samples([decode(2)]), mine("seen", SECOND))
        with pytest.raises(StoreError, match="may only read"):
            store.transact(lambda con: True)


def test_several_processes_make_the_store_at_once(postgres: Postgres, tmp_path: Path) -> None:
    words = f"{postgres.words(postgres.empty())} data_path={tmp_path}/files"
    with pytest.raises(StoreError, match=r"no store in this database yet.* data_path="):
        Store.open(words.partition(" data_path")[0])

    def make(number: int) -> None:
        with Store.open(words) as store:
            name = f"made{number}"
            store.append(facts({"seq": 1, "run_id": name}), mine(name, FIRST))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(4)))
    with Store.open(words) as store, store.cursor() as con:
        assert con.execute("SELECT count(*) FROM schema_version").fetchone() == (1,)
        assert con.execute("SELECT count(*) FROM runs").fetchone() == (4,)
        assert con.execute("SELECT count(*) FROM store_facts").fetchone() == (1,)
    with pytest.raises(StoreError, match="its files lie in "):
        Store.open(words.replace("/files", "/elsewhere"))


def test_a_server_that_was_away_is_found_again(tmp_path: Path) -> None:
    server = Postgres()
    try:
        with Store.open(server.lake(tmp_path)) as store:
            store.append(samples([decode(1, run_id="r")]), mine("away", FIRST))
            server.stop("immediate")
            with pytest.raises(StoreError, match="ducklake:postgres:"):
                store.append(samples([decode(2, run_id="r")]), mine("away", SECOND))
            with pytest.raises(StoreError, match="ducklake:postgres:"):
                store.hold("gpu1:/away")
            server.start()
            store.append(samples([decode(2, run_id="r")]), mine("away", SECOND))
            store.hold("gpu1:/away")
            assert count(store, "r") == 2
            # Of a commit whose answer was lost the second attempt is refused, not stored again.
            with pytest.raises(ConflictError):
                store.append(samples([decode(2, run_id="r")]), mine("away", SECOND))
            assert count(store, "r") == 2
    finally:
        server.close()


def test_statistics_of_a_table_are_asked_for_once(postgres: Postgres, tmp_path: Path) -> None:
    """Also of an empty one, of which DuckLake by itself does not remember that it has none."""
    location = postgres.lake(tmp_path)
    database = dict(LakePlace.parse(location).words)["dbname"]
    postgres.execute(f"ALTER DATABASE {database} SET log_statement = 'all'")
    log = postgres.folder / "log"
    with Store.open(location) as store, store.cursor() as con:
        for seconds in (1, 2):  # statistics that are there grow with what is stored
            store.append(samples([decode(seconds, kv_tokens=seconds)]), None)
        before = log.stat().st_size
        assert con.execute("SELECT count(*) FROM samples").fetchone() == (2,)
    asked = log.read_bytes()[before:].count(b'FROM "public"."ducklake_table_stats"')
    tables = postgres.execute("SELECT count(*) FROM ducklake_table", database)
    assert 0 < asked <= int(str(tables[0][0]))
    bounds = postgres.execute(
        "SELECT min_value, max_value FROM ducklake_table_column_stats "
        "JOIN ducklake_column USING (table_id, column_id) JOIN ducklake_table USING (table_id) "
        "WHERE table_name = 'decode_rows' AND column_name = 'kv_tokens'",
        database,
    )
    assert bounds == [("1", "2")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ducklake:mysql:host=x", "takes a PostgreSQL catalog"),
        ("ducklake:postgres:host=db nonsense", "give words such as host=db"),
        ("ducklake:postgres:dbname=x data_path=relative", "must be absolute"),
        ("ducklake:postgres:dbname=x password=abc", "others can read a command line"),
        ("ducklake:postgres:postgresql://me:abc@db/x", "postgresql://…: give words such as"),
        ("ducklake:postgres:dbname=postgresql://me:abc@db/x", "dbname=postgresql://…: no URL"),
    ],
)
def test_a_place_that_is_none_is_told(text: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as error:
        LakePlace.parse(text)
    assert "abc" not in str(error.value)


def test_a_place_keeps_its_words() -> None:
    place = LakePlace.parse("ducklake:postgres:host=db dbname='my lake' data_path=s3://b/p")
    assert place.words == (("host", "db"), ("dbname", "my lake"))
    assert place.data_path == "s3://b/p/"
    assert place.name == "ducklake:postgres:host=db dbname='my lake'"
    assert LakePlace.parse(place.name).local == place.local


def test_a_late_correction_reads_the_files_of_its_run_alone(
    postgres: Postgres, tmp_path: Path
) -> None:
    late = records.frame(
        [{"run_id": "r1", "file_id": "f1", "byte_offset": 700, "interval_s": 2.5}],
        records.INTERVALS,
    )
    values = "'r1' AS run_id, 'f1' AS file_id, 700 AS byte_offset, 2.5 AS interval_s"
    with Store.open(postgres.lake(tmp_path)) as store:
        for hour in range(3):
            names = {"run_id": f"r{hour}", "file_id": f"f{hour}"}
            rows = [decode(3600 * hour + n, **names, byte_offset=n) for n in range(1200)]
            store.append(samples(rows), None)
        bounds = store._bounds(late)
        with store.cursor() as con:
            con.execute("BEGIN TRANSACTION")
            query = LATE_INTERVALS.format(late=values, bounds=bounds)
            plan = con.execute(f"EXPLAIN ANALYZE {query}").fetchall()[0][1]
            con.execute("ROLLBACK")
        assert sum(map(int, re.findall(r"Total Files Read:? *(\d+)", plan))) == 1
        store._recent.forget()
        store.append(Frames(intervals=late), None)
        with store.cursor() as con:
            asked = "SELECT run_id, gen_tokens FROM run_summary ORDER BY run_id"
            assert con.execute(asked).fetchall() == [
                ("r0", 120_000.0), ("r1", 120_150.0), ("r2", 120_000.0),
            ]  # fmt: skip
