"""Every page, run without a browser, on every kind of store: no exception, an answer first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from data import queries
from data.store import Store
from ingest.imports import import_paths
from ingest.supervisor import Supervisor
from tests.following import following
from tests.growing import decodes, sglang_boot, writing
from tests.pages import first_line, shown
from tests.waiting import until

PAGES = (
    "live", "runs", "run", "compare", "bench", "incidents", "explore", "sources", "metrics",
)  # fmt: skip
OF_RUNS = PAGES[:6]  # read the table of runs, so that they cannot do without it


def answered(name: str, store: Store, supervisor: Supervisor | None = None) -> str:
    """The first line of the page of the newest runs; nothing on it is an error."""
    with store.cursor() as con:
        run_ids = queries.runs_named(con)["run_id"].to_list()
    test = shown(name, store, _address(name, run_ids), supervisor=supervisor)
    assert [error.value for error in test.error] == []
    return str(test.markdown[0].value) if name == "metrics" else first_line(test)


def _address(name: str, run_ids: list[str]) -> Mapping[str, str | list[str]]:
    if name == "compare" and len(run_ids) > 1:
        return {"base": run_ids[0], "with": run_ids[1:4]}
    return {"run": run_ids[0]} if name in ("live", "run") and run_ids else {}


@pytest.mark.parametrize("name", PAGES)
def test_the_bundled_runs(either_demo: Store, name: str) -> None:
    assert answered(name, either_demo)


@pytest.fixture(scope="module")
def many(many_runs: Path) -> Iterator[Store]:
    with Store.open(many_runs) as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_many_runs(many: Store, name: str) -> None:
    assert answered(name, many)


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("nothing") / "store.duckdb") as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_store(nothing: Store, name: str) -> None:
    assert answered(name, nothing)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Supervisor]]:
    folder = tmp_path_factory.mktemp("followed")
    log = folder / "server.log"
    with (
        writing(log),
        Store.open(folder / "store.duckdb") as store,
        following(store, log) as supervisor,
    ):
        until(lambda: store.revision > 0)
        yield store, supervisor


@pytest.mark.parametrize("name", PAGES)
def test_a_store_under_load(followed: tuple[Store, Supervisor], name: str) -> None:
    store, supervisor = followed
    before = store.revision
    assert answered(name, store, supervisor)
    until(lambda: store.revision > before)  # it was being written, and still is


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "server.log").write_bytes(sglang_boot() + decodes(0, 50))
    with Store.open(folder / "store.duckdb") as store:
        import_paths(store, [str(folder / "server.log")])
        with store.cursor() as con:
            con.execute("DROP VIEW runs")
        yield store


@pytest.mark.parametrize("name", PAGES)
def test_a_damaged_store(damaged: Store, name: str) -> None:
    address = {"run": "any"} if name == "run" else None
    test = shown(name, damaged, address)
    errors = [error.value for error in test.error]
    if name == "explore":  # its question asks for the runs, and it answers what the store said
        assert len(errors) == 1
        assert "runs does not exist" in errors[0]
        assert any("import the logs again" in said.value for said in test.caption)
        return
    assert all(error.startswith("The store could not be read:") for error in errors)
    assert len(errors) == (1 if name in OF_RUNS else 0)
