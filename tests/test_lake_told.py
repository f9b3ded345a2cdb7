"""What is wrong with a lake is told in one line that says what to do."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import duckdb
import pytest

from data import lake_told
from data.errors import AwayError, StoreError
from data.lake_place import LakePlace
from data.migrate import newest_version
from data.store import Store
from ingest.collecting import collect
from ingest.writer import Writer
from tests.frames import decode, samples
from tests.postgres import Postgres
from tests.test_fair import Source
from tests.waiting import until


def database(location: str) -> str:
    return dict(LakePlace.parse(location).words)["dbname"]


def test_a_right_that_is_taken_away_and_given_back(postgres: Postgres, tmp_path: Path) -> None:
    location = postgres.lake(tmp_path / "files")
    lake = database(location)
    postgres.execute("CREATE ROLE writer LOGIN")
    postgres.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO writer", lake)
    theirs = postgres.words(lake, "writer")
    with Store.open(theirs) as store:
        store.append(samples([decode(1, run_id="r")]), None)
        postgres.execute(
            "REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public FROM writer", lake
        )
        with pytest.raises(StoreError, match=r"does not give this role the right .*; GRANT it"):
            store.append(samples([decode(2, run_id="r")]), None)
        with pytest.raises(StoreError, match=r"may only read; a collector needs one that may"):
            collect(theirs, [])
        postgres.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM writer", lake)
        with pytest.raises(duckdb.Error) as error:
            store.cursor()
        assert store.advice(error.value).startswith("GRANT it ")
        postgres.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO writer", lake)
        store.append(samples([decode(2, run_id="r")]), None)
        with store.cursor() as con:
            assert con.execute("SELECT count(*) FROM samples").fetchone() == (2,)


def test_a_folder_that_is_not_mounted_is_not_written_to(postgres: Postgres, tmp_path: Path) -> None:
    files = tmp_path / "files"
    location = postgres.lake(files)
    with Store.open(location) as store:
        rows = [decode(second, run_id="r") for second in range(1200)]  # too many for the catalog
        store.append(samples(rows), None)
    files.rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"files are not in .*; mount the shared folder"):
        Store.open(location)
    files.mkdir()  # an empty mount point
    with pytest.raises(StoreError, match=r"files are not in .*; mount the shared folder"):
        Store.open(location)
    files.rmdir()  # nothing was written
    (tmp_path / "elsewhere").rename(files)
    with Store.open(location) as store, store.cursor() as con:
        for file in files.rglob("*.parquet"):
            file.unlink()
        with pytest.raises(duckdb.Error) as error:
            con.execute("SELECT max(kv_usage) FROM samples").fetchall()
        assert "a file of it is missing" in str(store.failure(error.value))
        assert store.advice(error.value).startswith("Mount the folder of data_path, or restore")


def test_a_folder_that_is_unmounted_while_others_write_is_not_written_to(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, away = tmp_path / "files", tmp_path / "away"
    lines = samples(
        decode(second, run_id="r") for second in range(1200)
    )  # too many for the catalog
    told = (
        r"ducklake:postgres:.*: its files are not in .* \(no .*\.parquet\); mount the shared folder"
    )

    def unmount(_: object) -> bool:
        files.rename(away)
        files.mkdir()
        return True

    with Store.open(postgres.lake(files)) as store, store.cursor() as con:
        store.append(lines, None)
        unmount(None)
        for write in (partial(store.append, lines, None), store.shrink):
            with pytest.raises(StoreError, match=told):
                write()
        files.rmdir()  # nothing was written
        with pytest.raises(StoreError, match=told):
            store.append(lines, None)
        shutil.copytree(away, files)  # mounted again: to the system another folder
        shutil.rmtree(away)
        store.append(lines, None)
        monkeypatch.setattr(store, "_insert_checkpoints", unmount)  # in the midst of an append
        for write in (partial(store.append, lines, None), partial(store.transact, unmount)):
            with pytest.raises(StoreError, match=told):
                write()
            shutil.rmtree(files)
            away.rename(files)
        monkeypatch.undo()
        store.append(lines, None)
        count = "SELECT count(*), count(DISTINCT ts) FROM samples"
        assert con.execute(count).fetchone() == (3600, 1200)


def test_a_collector_tells_each_reason_why_nothing_is_stored_once_and_when_it_goes_on(
    postgres: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = tmp_path / "files"
    location = postgres.lake(files)

    def admit(schema: int) -> None:
        sql = f"UPDATE servescope_positions SET seq = {schema} WHERE name = 'schema'"
        postgres.execute(sql, database(location))

    with Store.open(location) as store, store.cursor() as con:
        writer = Writer(store, retry=True)
        admit(999)
        writer.put(Source(tmp_path / "server.log", 0).step(), lambda: None)
        until(lambda: "has upgraded it to schema 999" in caplog.text, 60)
        files.rename(tmp_path / "away")
        admit(newest_version())
        until(lambda: "mount the shared folder" in caplog.text, 60)
        (tmp_path / "away").rename(files)
        writer.flush()
        writer.stop()
        assert con.execute("SELECT count(*) FROM samples").fetchone() == (10,)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING"]
    assert "goes on after" in caplog.records[-1].message


def test_a_catalog_of_another_release(postgres: Postgres, tmp_path: Path) -> None:
    location = postgres.lake(tmp_path / "files")
    lake = database(location)
    newest = newest_version()
    with Store.open(location) as store, store.cursor() as con:
        con.execute(f"INSERT INTO schema_version VALUES ({newest + 1}, TIMESTAMP '2026-11-30')")
    postgres.execute("COMMENT ON FUNCTION servescope_fence() IS 'of that release'", lake)
    postgres.execute("CREATE ROLE reader LOGIN")
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", lake)
    with pytest.raises(StoreError, match=r"a newer Servescope .*upgrade Servescope"):
        Store.open(location)
    with pytest.raises(StoreError, match=f"schema {newest + 1}, .* {newest}; upgrade this one"):
        Store.open(postgres.words(lake, "reader"))
    postgres.execute("UPDATE ducklake_metadata SET value = '9.9' WHERE key = 'version'", lake)
    with pytest.raises(StoreError, match=r"of DuckLake 9\.9, this Servescope knows 1\.0; use"):
        Store.open(location)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('IO Error: Could not write file "/f/a.parquet": No space left on device',
         "the disk of data_path is full; free some space"),
        ('ERROR: could not extend file "base/16385/2619": No space left on device',
         "the disk of the PostgreSQL server is full; free some space there"),
        ('IO Error: Cannot open file "/f/a.parquet": Read-only file system',
         "/f/a.parquet cannot be opened (Read-only file system); give this user the right"),
        ("Invalid Input Error: No magic bytes found at end of file '/f/a.parquet'",
         "a file of it is damaged (Invalid"),
        ('Binder Error: Failed to query most recent snapshot for DuckLake: relation "x" does not '
         "exist", "its catalog is damaged, or of another program"),
        ("Something that nobody has seen", "Something that nobody has seen"),
    ],
)  # fmt: skip
def test_each_cause_has_its_sentence(text: str, said: str) -> None:
    error = lake_told.explain("ducklake:x", f"{text}\nmore")
    assert str(error).startswith(f"ducklake:x: {said}")
    assert not isinstance(error, AwayError)
    assert lake_told.cause(text).advice.endswith(".")


@pytest.mark.parametrize(
    "text",
    [
        'IO Error: Unable to connect to Postgres at "host=db": Connection refused',
        "IO Error: Failed to query most recent snapshot for DuckLake: Unable to connect to X",
        "server closed the connection unexpectedly",
        "FATAL:  terminating connection due to administrator command",
        'TransactionContext Error: Failed to commit: Failed to execute query "ROLLBACK": ',
    ],
)
def test_a_server_that_is_away_is_told_from_damage(text: str) -> None:
    error = lake_told.explain("ducklake:x", text)
    assert isinstance(error, AwayError)
    assert "PostgreSQL does not answer; it is tried again" in str(error)
    assert "comes back by itself" in lake_told.cause(text).advice
