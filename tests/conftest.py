"""What every test stands on: a home of its own, and properties without a stop-watch.

Tests that only compute run on all cores, and make way for those that start servers or wait for
clocks, two at a time: the modules of these are told by what they import.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
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
    """No test reads or writes the store and the settings of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SERVESCOPE_STORE", raising=False)
    return home


SAMPLES = Path(__file__).parents[1] / "data" / "samples"
KINDS = ("file", "lake")  # of stores


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Store]:
    """A store without anything in it."""
    import streamlit

    from data.store import Store

    with Store.open(tmp_path / "store.duckdb") as opened:
        yield opened
    streamlit.cache_resource.clear()


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with every bundled log, imported through the real pipeline. Tests only read it."""
    from data.store import Store
    from ingest.importer import import_logs

    with Store.open(tmp_path_factory.mktemp("small") / "store.duckdb") as opened:
        import_logs(opened, [str(path) for path in sorted(SAMPLES.glob("*/server.log"))])
        yield opened


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The same with the benchmark results beside the logs. What a test changes it puts back."""
    from data.store import Store

    with Store.open(tmp_path_factory.mktemp("demo") / "store.duckdb") as opened:
        _import_samples(opened)
        yield opened


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
    from data.store import Store
    from tests import big_store

    path = tmp_path_factory.mktemp("many") / "store.duckdb"
    with Store.open(path, bulk=True) as opened:
        big_store.build(opened, 60, 4_000)
    return path


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
        return lambda name="s", **how: Store.open(folder / f"{name}.duckdb", **how)
    server: Postgres = request.getfixturevalue("postgres")
    made: dict[str, str] = {}

    def opened(name: str = "s", **how: bool) -> Store:
        if name not in made:
            made[name] = server.lake(folder / name)
        return Store.open(made[name], **how)

    return opened
