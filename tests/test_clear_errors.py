"""What the user can put right is one clear line and an exit code, never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from data.errors import SourceError, StoreError
from data.store import Store
from ingest.sources.file import LocalFile, expand, folder_of, newest
from tests.command import COMMAND, ROOT, fails, run, up
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


def test_a_file_of_something_else_says_so(tmp_path: Path, log: Path) -> None:
    other = tmp_path / "postgresql.log"
    other.write_text("2026-11-29 15:00:12 UTC [87] LOG:  checkpoint starting: time\n" * 20)
    done = run("parse", other)
    said = f"{other}: no line of an SGLang or vLLM server was found\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", said)
    assert run("parse", log).stderr == ""


@pytest.mark.parametrize("command", ["parse", "doctor"])
def test_a_folder_is_called_one(command: str, tmp_path: Path) -> None:
    line = fails(command, tmp_path)
    assert line == f"servescope: {tmp_path}: is a folder; name a file in it"


def test_store_from_the_future(log: Path, store: Path) -> None:
    Store.open(store).close()
    with duckdb.connect(str(store)) as con:
        con.execute("INSERT INTO schema_version VALUES (999, NULL)")
    for command in (["runs"], ["import", log], ["up", log, "--port", "0"]):
        assert "newer Servescope" in fails(*command, "--store", store)


@pytest.mark.parametrize(
    "command",
    [
        ["runs"], ["show", "x"], ["bench"], ["bench", "--map", "speed=output_tok_s"], ["findings"],
        ["export", "runs"], ["sql", "SELECT 1"], ["compact"],
    ],
)  # fmt: skip
def test_what_only_reads_makes_no_store(command: list[str], tmp_path: Path) -> None:
    nowhere = tmp_path / "mistyped" / "s.duckdb"
    assert fails(*command, "--store", nowhere).startswith(
        f"servescope: {nowhere}: there is no store; `servescope import PATH`"
    )
    assert not nowhere.parent.exists()


@pytest.mark.parametrize("command", [["compare"], ["export", "comparison"]])
def test_a_mistyped_log_to_compare_is_named_and_makes_no_store(
    command: list[str], log: Path, tmp_path: Path
) -> None:
    nowhere = tmp_path / "none" / "s.duckdb"
    assert fails(*command, log, "/nope/x.log", "--store", nowhere) == (
        f"servescope: /nope/x.log: no such file, and no store with runs in it at {nowhere}"
    )
    assert not nowhere.parent.exists()


def test_before_anything_was_imported(own_home: Path, log: Path) -> None:
    assert "store.duckdb: there is no store; `servescope import PATH`" in fails("runs")
    assert list(own_home.iterdir()) == []
    assert run("import", log).returncode == 0
    assert run("runs").stdout.count("server.log") == 1


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
    Store.open(store).close()
    place = tmp_path / "no" / "folder.csv"
    line = fails("export", "runs", "--output", place, "--store", store)
    assert line == f"servescope: {place}: cannot be written (No such file or directory)"


def test_export_of_something_else(store: Path) -> None:
    Store.open(store).close()
    line = fails("export", "nosuch", "--store", store)
    assert line == (
        "servescope: 'nosuch' cannot be exported; choose runs, samples, events, bench_results, "
        "comparison"
    )


@pytest.mark.parametrize("port", ["80000", "-1"])
def test_number_that_is_no_port(log: Path, store: Path, port: str) -> None:
    line = fails("up", log, "--store", store, "--port", port)
    assert line == f"servescope: port {port}: is no port; choose one up to 65535 with --port"


@pytest.mark.parametrize("command", ["up", "import", "parse"])
@pytest.mark.parametrize(
    ("place", "says"),
    [("/proc/self/mem", "Input/output error"), ("a" * 300, "File name too long")],
)
def test_path_that_cannot_be_read(command: str, place: str, says: str, store: Path) -> None:
    options: list[str | Path] = [] if command == "parse" else ["--store", store]
    assert f"cannot be read ({says})" in fails(command, place, *options)


def test_path_that_is_none(store: Path) -> None:
    for command in ("up", "import"):
        assert fails(command, "", "--store", store).startswith("servescope: '' is no path")


def test_store_that_is_a_url(log: Path) -> None:
    for command in (["import", log], ["runs"]):
        line = fails(*command, "--store", "postgresql://me:sesame@db/servescope")
        assert line.startswith("servescope: --store postgresql://…: give a file, or ducklake:")


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder that this process may not look into."""
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # the right of root to everything goes
    yield folder
    os.seteuid(user)
    folder.chmod(0o700)


def test_folder_without_permission(locked: Path) -> None:
    for ask in (expand, newest):
        for place in (locked, locked / "*.log", locked / "a.log"):
            if ask is newest and place.suffix and "*" not in place.name:
                continue  # a file may still come
            with pytest.raises(SourceError, match=r"cannot be read \(Permission denied\)") as error:
                ask(str(place))
            assert "\n" not in str(error.value)
    with pytest.raises(SourceError, match="Permission denied"):
        folder_of(str(locked / "a.log" / "b.log"))
    with pytest.raises(SourceError, match="Permission denied"):
        LocalFile(locked / "a.log")
    with pytest.raises(StoreError, match="Permission denied"):
        Store.open(locked / "s.duckdb")


def shell(words: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command with its streams as the shell's words say."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {words}', "sh", *COMMAND, *map(str, arguments)],
        capture_output=True, text=True, timeout=60, cwd=ROOT,
    )  # fmt: skip


def test_output_that_is_full_or_closed(log: Path, store: Path) -> None:
    assert run("import", log, "--store", store).returncode == 0
    full = "cannot be written (No space left on device)"
    assert full in fails("export", "samples", "--output", "/dev/full", "--store", store)
    for words, arguments, says in (
        (">/dev/full", ["parse", log], f"standard output: {full}"),
        (">/dev/full", ["runs", "--store", store], f"standard output: {full}"),
        (">&-", ["parse", log], "standard output is closed; give --output FILE"),
        ("<&-", ["parse", "-"], "standard input: cannot be read (Bad file descriptor)"),
    ):
        done = shell(words, *arguments)
        assert (done.returncode, done.stderr) == (1, f"servescope: {says}\n")
