"""Past logs of another host: folders, globs, rotated and packed files, each once."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from data.errors import SourceError
from data.store import Store
from ingest.bench_watch import BenchWatch
from ingest.importer import import_logs
from ingest.imports import import_paths
from tests.command import run
from tests.following import following, numbers
from tests.growing import append, decodes, sglang_boot
from tests.sshd import Sshd, serving
from tests.test_bench_import import TEXT, result, rows
from tests.waiting import until


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("sshd")
    with serving(folder, folder) as server:
        yield server


@pytest.fixture
def logs(host: Sshd, own_home: Path, tmp_path: Path) -> Path:
    """A folder of one log, turned three times."""
    host.befriend(own_home)
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    parts = {
        "server.log.3.gz": gzip.compress(sglang_boot() + decodes(0, 10)),
        "server.log.2.zst": zstandard.compress(decodes(10, 10)),
        "server.log.1": decodes(20, 10),
        "server.log": decodes(30, 10),
        "deep/other.log": sglang_boot(90) + decodes(40, 10),
        "notes.json": b"{}",
        ".hidden.log": decodes(99, 1),
    }
    for name, data in parts.items():
        (folder / name).write_bytes(data)
        os.utime(folder / name, (1e9, 1e9))
    (folder / "link.log").symlink_to("gone")
    return folder


def paths(store: Store) -> list[str]:
    with store.cursor() as con:
        rows = con.execute(
            'SELECT path FROM checkpoints GROUP BY path ORDER BY min("at")'
        ).fetchall()
    return [row[0] for row in rows]


def test_a_folder_is_read_whole_and_once(host: Sshd, logs: Path, store: Store) -> None:
    report = import_logs(store, [host.url(logs)])
    assert (report.files, report.samples, numbers(store)) == (5, 50, list(range(50)))
    turned = [host.url(logs / f"server.log{end}") for end in (".3.gz", ".2.zst", ".1", "")]
    assert [path for path in paths(store) if "server.log" in path] == turned
    again = import_logs(store, [host.url(logs)])
    assert again.samples == 0
    assert all("already stored" in note for note in again.notes)
    assert import_logs(store, [str(logs)]).samples == 0  # the same content, from here


def test_a_glob_takes_what_it_names(host: Sshd, logs: Path, store: Store) -> None:
    import_logs(store, [host.url(logs / "server.log.[12]*")])
    assert numbers(store) == list(range(10, 30))
    import_logs(store, [host.url(logs.parent / "*" / "deep" / "o*.log")])
    assert numbers(store) == [*range(10, 30), *range(40, 50)]


def test_by_the_command_line(host: Sshd, logs: Path, tmp_path: Path) -> None:
    done = run("import", host.url(logs / "server.log"), "--store", tmp_path / "c.duckdb")
    assert (done.returncode, done.stderr) == (0, "")
    assert "10 samples" in done.stdout
    assert not [name for name in logs.iterdir() if name.name.endswith(".tmp")]


@pytest.fixture
def results(logs: Path) -> Path:
    """Results beside the logs: of a tool, a table of it, one inside a log, and a damaged one."""
    (logs / "c16.json").write_text(result())
    (logs / "c16.txt").write_text(TEXT)
    (logs / "cut.json").write_text(result()[:250])
    table = TEXT.replace("503.40", "777.70").replace("30.51", "19.75").encode()
    (logs / "tables.log").write_bytes(sglang_boot(200) + decodes(60, 5) + table)
    return logs


def test_results_beside_the_logs_are_read_too(host: Sshd, results: Path, store: Store) -> None:
    report = import_paths(store, [host.url(results)])
    assert sorted(point["output_tok_s"] for point in rows(store)) == [503.4, 777.7]
    assert {read.path for read in report.bench} == {
        host.url(results / name) for name in ("c16.json", "c16.txt", "tables.log")
    }
    assert report.samples == 55
    cut = [note for note in report.notes if "cut.json" in note]
    assert "is cut off" in cut[0]
    again = import_paths(store, [host.url(results / "c16.json")])
    assert [(read.points, read.new) for read in again.bench] == [(1, 0)]


def test_what_holds_nothing_there_is_told(host: Sshd, logs: Path, store: Store) -> None:
    with pytest.raises(SourceError, match=r"notes\.json: holds no log file"):
        import_paths(store, [host.url(logs / "notes.json")])
    with pytest.raises(SourceError, match=r"gone: no such file"):
        import_paths(store, [host.url(logs / "gone")])


def test_a_watched_folder_there_brings_results_in(host: Sshd, logs: Path, store: Store) -> None:
    folder = logs / "deep"
    with BenchWatch(store, [host.url(folder)], every_s=0.05) as watch:
        (folder / "a.json").write_text(result())
        until(lambda: len(rows(store)) == 1)
        host.stop()
        until(lambda: "points so far" not in watch.lines()[0])
        (folder / "b.json").write_text(result(output_throughput=600.5))
        host.start()
        until(lambda: len(rows(store)) == 2, 40)
        (folder / "cut.json").write_text(result()[:250])
        until(lambda: "cut.json" in watch.lines()[0])
    assert watch.lines()[0].startswith(f"{host.url(folder)}: ")


def test_an_empty_folder_is_told(host: Sshd, logs: Path, store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no log file"):
        import_logs(store, [host.url(tmp_path / "empty")])


def test_turns_while_nobody_read_are_read_first(host: Sshd, logs: Path, store: Store) -> None:
    log = logs / "live.log"

    def follow(count: int) -> None:
        with following(store, host.url(log)) as supervisor:
            until(lambda: len(numbers(store)) == count)
            until(lambda: supervisor.status()[0].state == "following")

    log.write_bytes(sglang_boot() + decodes(0, 10))
    follow(10)
    append(log, decodes(10, 5))
    (logs / "live.log.2.gz").write_bytes(gzip.compress(log.read_bytes()))
    (logs / "live.log.1").write_bytes(decodes(15, 5))
    log.write_bytes(decodes(20, 5))
    follow(25)
    assert numbers(store) == list(range(25))
