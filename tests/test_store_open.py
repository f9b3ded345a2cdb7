"""Opening a store: created, upgraded, or refused in one clear line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from data import migrate
from data.errors import StoreError
from data.store import Store
from tests.frames import decode, samples


def one_line(error: pytest.ExceptionInfo[StoreError], path: Path) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_new_folder_and_store_are_created_and_open_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "s.duckdb"
    with Store.open(path) as store:
        store.append(samples([decode(1)]), None)
    with Store.open(path) as store, store.cursor() as con:
        assert con.execute("SELECT count(*) FROM samples").fetchone() == (1,)


def test_second_process_is_told_who_holds_the_store(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys; from data.store import Store\n"
         "store = Store.open(sys.argv[1]); store.announce('http://127.0.0.1:8501')\n"
         "print('open', flush=True); sys.stdin.read()", str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=migrate.HERE.parent,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StoreError) as error:
            Store.open(path)
        holder.kill()
    text = one_line(error, path)
    assert f"process {holder.pid} (servescope up at http://127.0.0.1:8501)" in text
    Store.open(path).close()  # the lock died with its holder


def test_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    Store.open(path).close()
    with duckdb.connect(str(path)) as con:
        con.execute("INSERT INTO schema_version VALUES (999, now() AT TIME ZONE 'UTC')")
    before = path.read_bytes()
    with pytest.raises(StoreError) as error:
        Store.open(path)
    assert "newer Servescope (schema 999" in one_line(error, path)
    assert path.read_bytes() == before


def test_older_store_is_upgraded_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        store.append(samples([decode(1)]), None)
    steps = tmp_path / "steps"
    steps.mkdir()
    newest = migrate.newest_version()
    for number, sql in enumerate(
        ["CREATE TABLE later (a INTEGER)", "INSERT INTO later SELECT count(*) FROM samples"],
        start=newest + 1,
    ):
        (steps / f"{number:03}_step.sql").write_text(sql)
    monkeypatch.setattr(migrate, "MIGRATIONS", steps)
    for _ in range(2):  # the second opening repeats no step
        with Store.open(path) as store, store.cursor() as con:
            assert con.execute("SELECT a FROM later").fetchall() == [(1,)]
            assert migrate.stored_version(con) == newest + 2


def test_failing_step_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.duckdb"
    Store.open(path).close()
    steps = tmp_path / "steps"
    steps.mkdir()
    version = migrate.newest_version()
    (steps / f"{version + 1:03}_bad.sql").write_text("CREATE TABLE later (a INT); SELECT nonsense")
    with monkeypatch.context() as patched:
        patched.setattr(migrate, "MIGRATIONS", steps)
        with pytest.raises(StoreError) as error:
            Store.open(path)
        one_line(error, path)
    with Store.open(path) as store, store.cursor() as con:
        assert migrate.stored_version(con) == version
        found = con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'later'").fetchall()
        assert found == []


@pytest.mark.parametrize(
    "content",
    [
        b"short",
        b"[2026-03-01 12:00:00] not a database\n" * 100,
        b"SQLite format 3\0" + bytes(4080),
    ],
)
def test_file_that_is_no_store_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(content)
    with pytest.raises(StoreError) as error:
        Store.open(path)
    assert "not a DuckDB file" in one_line(error, path)
    assert path.read_bytes() == content


def test_duckdb_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE theirs (a INT)")
    with pytest.raises(StoreError) as error:
        Store.open(path)
    assert "another program" in one_line(error, path)


def test_table_of_another_program_with_a_name_of_ours_is_refused(tmp_path: Path) -> None:
    for number, columns in enumerate(["name VARCHAR", "version VARCHAR", "version INTEGER"]):
        path = tmp_path / f"other{number}.duckdb"
        with duckdb.connect(str(path)) as con:
            con.execute(f"CREATE TABLE schema_version ({columns})")
            con.execute("CREATE TABLE run_facts (a INT); CREATE TABLE checkpoints (a INT)")
            if number < 2:
                con.execute("INSERT INTO schema_version VALUES ('abc')")
        with pytest.raises(StoreError) as error:
            Store.open(path)
        assert "another program" in one_line(error, path)


@pytest.mark.parametrize(
    "damage",
    [
        *("DROP TABLE ingest_log", "DROP TABLE views_version", "DROP TABLE store_facts"),
        "DELETE FROM views_version; ALTER TABLE decode_rows DROP COLUMN gen_tok_s",
        "DELETE FROM schema_version; INSERT INTO schema_version VALUES (1, '2026-11-01 00:00:00')",
    ],
)
def test_store_of_a_build_between_releases_is_told_and_kept(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        store.append(samples([decode(1)]), None)
    with duckdb.connect(str(path)) as con:
        con.execute(damage)
    before = path.read_bytes()
    for _ in range(2):  # the first refusal leaves no lock
        with pytest.raises(StoreError) as error:
            Store.open(path)
        text = one_line(error, path)
        assert "of an unreleased build" in text
        assert "import the logs into another --store" in text
    assert path.read_bytes() == before


def test_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    path.touch()
    with Store.open(path) as store:
        store.append(samples([decode(1)]), None)
    with Store.open(path) as store, store.cursor() as con:
        assert con.execute("SELECT count(*) FROM samples").fetchone() == (1,)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_store_that_was_cut_off_is_told_with_advice(tmp_path: Path, share: float) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        store.append(samples([decode(second) for second in range(2000)]), None)
    with duckdb.connect(str(path)) as con:
        con.execute("CHECKPOINT")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(StoreError) as error:
        Store.open(path)
    assert "damaged or cut off; restore a copy" in one_line(error, path)


def test_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(StoreError) as error:
        Store.open(path)
    assert "not a regular file" in one_line(error, path)


def test_no_extension_is_ever_fetched(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store, store.cursor() as con:
        settings = con.execute(
            "SELECT value FROM duckdb_settings() WHERE name IN "
            "('autoinstall_known_extensions', 'autoload_known_extensions')"
        ).fetchall()
    assert settings == [("false",), ("false",)]


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as error:
        Store.open(tmp_path)
    assert "folder" in one_line(error, tmp_path)


def test_store_cannot_reach_other_files(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store, store.cursor() as con:
        for query in (
            f"COPY samples TO '{tmp_path / 'out.csv'}'",
            "SELECT * FROM read_text('/etc/passwd')",
            f"ATTACH '{tmp_path / 'b.duckdb'}'",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                con.execute(query)
    assert not (tmp_path / "out.csv").exists()
