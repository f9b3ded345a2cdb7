"""What every test stands on: a home of its own, and properties without a stop-watch.

Tests that only compute run on all cores. Those that start servers or wait for clocks run after
them, three at a time: their modules are told by what they import.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from data.store import Store
    from tests.postgres import OpenStore, Postgres

# Other work on the machine must not turn a property red; CI draws the same examples each time.
hypothesis.settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("project")


_KINDS = ("plain", "alone", "beside")
_WAITS = re.compile(
    r"^(?:from tests(?:\.| import .*)(?:server|sshd|kill|stand_ins)"
    r"|from tests\.growing import .*\buntil\b"
    r"|from (?:playwright|ingest\.supervisor|ingest\.sources\.ssh)"
    r"|import (?:time|threading)\b)",
    re.MULTILINE,
)


@cache
def _kind(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if "pytest.mark.beside" in text:
        return "beside"
    return "alone" if _WAITS.search(text) else "plain"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Reading all modules takes longer than most tests: where one kind is asked for, its own."""
    asked, is_module = config.getoption("markexpr"), collection_path.suffix == ".py"
    return (asked in _KINDS and is_module and _kind(collection_path) != asked) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test with the kind of its module."""
    for item in items:
        item.add_marker(_kind(item.path))


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the store and the settings of whoever runs it, nor does one that has
    opened a lake here name the files of the next one after this host."""
    if host := sys.modules.get("ingest.sources.host"):
        host.forget()
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SERVESCOPE_STORE", raising=False)
    return home


SAMPLES = Path(__file__).parents[1] / "data" / "samples"
KINDS = ("file", "lake")  # of stores


@pytest.fixture
def store(empty_file: Path, tmp_path: Path) -> Iterator[Store]:
    """A store of the test's own, without anything in it."""
    from data.store import Store

    with Store.open(shutil.copy(empty_file, tmp_path / "store.duckdb")) as opened:
        yield opened


@pytest.fixture
def empty(store: Store) -> Iterator[Store]:
    """The same for tests of pages, which remember what they have read of it."""
    import streamlit

    yield store
    streamlit.cache_resource.clear()


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of one, to be copied: half of the time of opening a new store goes into its tables
    and views."""
    return _made("empty", tmp_path_factory, lambda store: None)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with every bundled log, imported through the real pipeline. Tests only read it."""
    from data.store import Store
    from ingest.importer import import_logs

    logs = [str(path) for path in sorted(SAMPLES.glob("*/server.log"))]
    made = _made("small", tmp_path_factory, lambda store: import_logs(store, logs))
    with Store.open(made) as opened:
        yield opened


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The same with the benchmark results beside the logs. What a test changes it puts back."""
    from data.store import Store

    with Store.open(_made("demo", tmp_path_factory, _import_samples)) as opened:
        yield opened


def _made(
    name: str, temporary: pytest.TempPathFactory, fill: Callable[[Store], object], **how: bool
) -> Path:
    """This process's copy of a store that the first of all worker processes makes."""
    from data.store import Store

    folder = temporary.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    whole, part = folder / f"{name}.duckdb", folder / f"{name}.part"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            with Store.open(part, **how) as store:
                fill(store)
                store.shrink()  # nothing is left in a log beside the file
            part.rename(whole)
    own = temporary.mktemp(name) / "store.duckdb"
    shutil.copy(whole, own)
    return own


@pytest.fixture(scope="session")
def demo_lake(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The same as a lake."""
    from data.store import Store

    with Store.open(postgres.lake(tmp_path_factory.mktemp("demo"))) as opened:
        _import_samples(opened)
        yield opened


@pytest.fixture(params=["demo", "demo_lake"], ids=KINDS)
def either_demo(request: pytest.FixtureRequest) -> Store:
    """The same once as a file and once as a lake."""
    found: Store = request.getfixturevalue(request.param)
    return found


def _import_samples(store: Store) -> None:
    from ingest.imports import import_paths

    import_paths(store, [str(SAMPLES)])


@pytest.fixture(scope="session")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store of many runs. Whoever opens it closes it again and changes nothing."""
    from tests import big_store

    return _made(
        "many", tmp_path_factory, lambda store: big_store.build(store, 60, 4_000), bulk=True
    )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, started when the first test asks for it."""
    from tests.postgres import Postgres

    server = Postgres()
    yield server
    server.close()


@pytest.fixture(params=KINDS)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens a store of the test's own: once a file, once a lake. One of the same name is the same.

    What holds for both is tested on both; test_both_stores lists what is not, with its reason.
    """
    return _opener(request, tmp_path)


@pytest.fixture(scope="module", params=KINDS)
def open_module_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> OpenStore:
    """The same for a store that the tests of a module share."""
    return _opener(request, tmp_path_factory.mktemp("store"))


def _opener(request: pytest.FixtureRequest, folder: Path) -> OpenStore:
    from data.store import Store

    if request.param == "file":
        return _file_opener(request.getfixturevalue("empty_file"), folder)
    server: Postgres = request.getfixturevalue("postgres")
    made: dict[str, str] = {}

    def opened(name: str = "s", **how: bool) -> Store:
        if name not in made:
            made[name] = server.lake(folder / name)
        return Store.open(made[name], **how)

    return opened


def _file_opener(empty: Path, folder: Path) -> OpenStore:
    from data.store import Store

    def opened(name: str = "s", **how: bool) -> Store:
        path = folder / f"{name}.duckdb"
        return Store.open(path if path.exists() else shutil.copy(empty, path), **how)

    return opened
