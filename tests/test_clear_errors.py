"""What the user can put right is one clear line and an exit code, never a traceback."""

from __future__ import annotations

import socket
from pathlib import Path

import duckdb
import pytest

from data.store import Store
from tests.command import fails, run, up
from tests.growing import decodes, sglang_boot


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(sglang_boot() + decodes(0, 20))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.duckdb"


@pytest.mark.parametrize("command", ["up", "import", "parse"])
def test_wrong_path_and_binary_file(command: str, tmp_path: Path, store: Path) -> None:
    options: list[str | Path] = [] if command == "parse" else ["--store", store]
    missing, binary = tmp_path / "missing.log", tmp_path / "binary.log"
    binary.write_bytes(b"\x7fELF" + bytes(range(32)) * 100)
    assert (
        fails(command, missing, *options) == f"servescope: {missing}: no such file; check the path"
    )
    assert f"{binary}: is a binary file, not a log" in fails(command, binary, *options)
    assert not store.exists() or command == "import"


@pytest.mark.parametrize("command", ["import", "parse"])
def test_empty_file_says_no_lines_yet(command: str, tmp_path: Path, store: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    options: list[str | Path] = [] if command == "parse" else ["--store", store]
    done = run(command, empty, *options)
    assert (done.returncode, done.stderr) == (0, f"{empty}: no lines yet\n")


def test_store_from_the_future(log: Path, store: Path) -> None:
    Store.open(store).close()
    with duckdb.connect(str(store)) as con:
        con.execute("INSERT INTO schema_version VALUES (999, NULL)")
    for command in (["runs"], ["import", log], ["up", log, "--port", "0"]):
        assert "newer Servescope" in fails(*command, "--store", store)


def test_no_store_at_all(log: Path) -> None:
    assert "not a DuckDB file" in fails("runs", "--store", log)


def test_port_in_use(log: Path, store: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = fails("up", log, "--store", store, "--port", str(port))
    assert line.startswith(f"servescope: port {port}: cannot be used")


def test_second_up_on_one_store(log: Path, store: Path) -> None:
    with up(log, "--store", store) as first:
        line = fails("up", log, "--store", store, "--port", "0")
    assert f"in use by process {first.process.pid} (servescope up at {first.url})" in line


def test_unknown_run_zone_and_statement(log: Path, store: Path) -> None:
    assert run("import", log, "--store", store).returncode == 0
    assert "no run is called 'nope'" in fails("show", "nope", "--store", store)
    assert "no time zone" in fails("import", log, "--zone", "Mars/Base", "--store", store)
    for statement in ("DROP TABLE samples", "SELECT 1; DROP TABLE samples", "nonsense", ""):
        assert fails("sql", statement, "--store", store).startswith("servescope: sql: ")


def test_output_that_cannot_be_written(log: Path, store: Path, tmp_path: Path) -> None:
    place = tmp_path / "no" / "folder.csv"
    line = fails("export", "runs", "--output", place, "--store", store)
    assert line == f"servescope: {place}: cannot be written (No such file or directory)"
