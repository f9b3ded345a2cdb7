"""A lake is upgraded while processes of the older release write into it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from data import migrate
from data.errors import StoreError
from data.migrate import HERE, MIGRATIONS
from data.store import Store
from tests.frames import decode, samples
from tests.postgres import Postgres
from tests.test_lake import FIRST, mine
from tests.waiting import until

_OLDER = """
import sys
from dataclasses import replace
from data.errors import StoreError
from data.store import Store
from tests.frames import decode, samples
from tests.test_lake import FIRST, mine
name = sys.argv[2]
with Store.open(sys.argv[1]) as store:
    try:
        for seq in range(1, 10_000):
            step = replace(mine(name, FIRST), seq=seq, after=seq - 1, byte_offset=seq)
            store.append(samples([decode(seq, run_id=name, kv_tokens=seq)]), step)
            print("stored", seq, file=sys.stderr, flush=True)  # standard output: DuckDB's progress
    except StoreError as error:
        print("refused", error, file=sys.stderr, flush=True)
"""


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """This process is of a release whose migration copies a table; a row that came after the copy
    would be lost in it. The version of its schema."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    version = migrate.newest_version() + 1
    (folder / f"{version:03}_copies.sql").write_text(
        "CREATE TABLE copied AS SELECT group_id, byte_offset, kv_tokens FROM decode_rows;\n"
    )
    monkeypatch.setattr(migrate, "MIGRATIONS", folder)
    return version


@pytest.mark.timeout(900)
def test_an_upgrade_under_writers_loses_and_doubles_nothing(
    postgres: Postgres, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    location = postgres.lake(tmp_path / "files")
    names = ("older1", "older2")
    said = {name: tmp_path / name for name in names}
    with contextlib.ExitStack() as stack:
        writers = []
        for name, path in said.items():
            errors = stack.enter_context(path.open("wb"))
            writer = subprocess.Popen(
                [sys.executable, "-c", _OLDER, location, name], cwd=HERE.parent,
                stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip
            stack.callback(writer.kill)
            writers.append(writer)
        until(lambda: all("stored 5" in path.read_text() for path in said.values()), 240)
        version: int = request.getfixturevalue("next_release")
        store = stack.enter_context(Store.open(location))
        for writer in writers:
            assert writer.wait(240) == 0
        with store.cursor() as con:
            copied = con.execute("SELECT count(*) FROM copied").fetchone()
            rows = con.execute(
                "SELECT run_id, count(*), count(DISTINCT kv_tokens), max(kv_tokens) FROM samples "
                "GROUP BY run_id"
            ).fetchall()
        assert {row[0] for row in rows} == set(names)
        for name, n, lines, last in rows:
            told = [line for line in said[name].read_text().splitlines() if "stored" in line]
            assert n == lines == last == len(told)
            (refused,) = said[name].read_text().partition("refused")[2].splitlines()
            assert f"a newer Servescope has upgraded it to schema {version}" in refused
        assert copied == (sum(row[1] for row in rows),)


def test_a_step_that_fails_leaves_the_older_release_its_store(
    postgres: Postgres, tmp_path: Path, next_release: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = postgres.lake(tmp_path / "files")
    steps = migrate.MIGRATIONS
    (steps / f"{next_release:03}_copies.sql").write_text("CREATE TABLE a AS SELECT * FROM nope;")
    with pytest.raises(StoreError, match="nope"):
        Store.open(location)
    monkeypatch.setattr(migrate, "MIGRATIONS", MIGRATIONS)
    with Store.open(location) as store, store.cursor() as con:
        store.append(samples([decode(1, run_id="old")]), mine("old", FIRST))
        assert con.execute("SELECT count(*) FROM samples").fetchone() == (1,)
