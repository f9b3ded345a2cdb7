"""Names of any bytes, folders of other things, floods of requests, lines that are never ended."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from data.store import Store
from ingest.access_rows import NAMED_REFUSALS
from ingest.sources.names import shown
from ingest.status import SourceStatus, status_line
from tests.command import run
from tests.following import following
from tests.growing import append, decodes, sglang_boot
from tests.logs import read, text
from tests.waiting import until

NAMES = [b"caf\xe9.log", b"two\nlines.log", b"esc\x1b[31mape.log"]


def access(clock: str, path: str, status: int) -> str:
    return f'[2026-05-04 {clock}] INFO:     127.0.0.1:1 - "GET {path} HTTP/1.1" {status} X'


def test_a_log_with_a_name_of_any_bytes_is_imported(tmp_path: Path) -> None:
    folder, store = tmp_path / "logs", tmp_path / "s.duckdb"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        (folder / os.fsdecode(name)).write_bytes(sglang_boot(9 * number) + decodes(9 * number, 3))
    done = run("import", folder, "--store", store)
    assert (done.returncode, done.stderr) == (0, "")
    again = run("import", folder, "--store", store)
    told = sorted(again.stderr.splitlines())
    assert told == sorted(f"{folder}/{shown(os.fsdecode(n))}: already stored" for n in NAMES)
    runs = run("runs", "--store", store).stdout
    assert all(name in runs for name in (r"caf\xe9.log", r"two\nlines.log", r"esc\x1b[31mape.log"))
    missing = run("import", tmp_path / "not\nthere.log", "--store", store)
    assert missing.returncode == 1
    assert missing.stderr.count("\n") == 1


def test_a_log_with_a_name_of_any_bytes_is_followed(tmp_path: Path) -> None:
    log = tmp_path / os.fsdecode(NAMES[0])
    log.write_bytes(sglang_boot() + decodes(0, 3))
    with Store.open(tmp_path / "s.duckdb") as store:
        with following(store, log) as supervisor:
            until(lambda: supervisor.status()[0].lines_read == 4)
            log.rename(log.with_name(log.name + ".1"))
            log.write_bytes(decodes(3, 3))
            until(lambda: supervisor.status()[0].lines_read == 7)
        with store.cursor() as con:
            assert con.execute("SELECT DISTINCT path FROM checkpoints").fetchall() == [
                (f"{tmp_path}/caf\\xe9.log",)
            ]


def test_many_files_that_are_no_logs_are_told_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "server.log").write_bytes(sglang_boot() + decodes(0, 3))
    for number in range(9):
        (folder / f"note{number}.txt").write_text(f"remember {number}\n")
    done = run("import", folder, "--store", tmp_path / "s.duckdb")
    assert done.stderr == (
        "9 files: no line of an SGLang or vLLM server in it (note0.txt, note1.txt, note2.txt, …)\n"
    )


def test_paths_that_are_not_there_are_bounded_and_all_are_counted() -> None:
    lines = [access("10:00:01", "/v1/models", 200)]
    lines += [access(f"10:0{n // 1000}:02", f"/x{n}y/a.php", 404) for n in range(3000)]
    lines += [access("10:03:03", f"/x{n}y/a.php", 404) for n in (0, 2999)]
    lines += [access("10:03:04", "/v1/chat/completions", 200), access("10:03:05", "/late", 500)]
    batches = [read(text(lines), cuts) for cuts in ((), (50, 101, 700, 2500))]
    sums = [
        b.access_counts.group_by("minute", "method", "path", "status").agg(pl.col("n").sum())
        for b in batches
    ]
    assert sums[0].sort(pl.all()).equals(sums[1].sort(pl.all()))
    assert sums[0]["n"].sum() == len(lines)
    assert sums[0].height == NAMED_REFUSALS + 3 + 1 + 2 + 2  # others by minute; known; served
    others = sums[0].filter(pl.col("path") == "other paths").sort("minute", "status")
    assert others["n"].to_list() == [1000 - NAMED_REFUSALS, 1000, 1000, 1, 1]
    assert others["status"].to_list() == [404, 404, 404, 404, 500]
    assert batches[0].events["count"].sum() == 3003
    assert batches[0].events.height == NAMED_REFUSALS + 3 + 1 + 2


def test_a_line_that_is_not_ended_is_no_lag(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(sglang_boot() + decodes(0, 3))
    with Store.open(tmp_path / "s.duckdb") as store, following(store, log) as supervisor:
        until(lambda: supervisor.status()[0].lines_read == 4)
        append(log, b"half a line")
        until(lambda: supervisor.status()[0].unfinished_line)
        [status] = supervisor.status()
        assert (status.lag_bytes, status.behind_since) == (0, None)
        append(log, b" and its end\nhalf of another")
        until(lambda: supervisor.status()[0].lines_read == 5)
        until(lambda: supervisor.status()[0].lag_bytes == 0)


def test_status_tells_of_an_unfinished_line() -> None:
    source = SourceStatus("/a.log", None, "following", path="/a.log", unfinished_line=True)
    line = status_line(asdict(source), datetime(2026, 3, 1, tzinfo=UTC))
    assert line == "/a.log: following, 0 bytes behind, an unfinished last line"
