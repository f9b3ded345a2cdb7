"""Commands answer the same while `up` owns the store and when nobody does."""

from __future__ import annotations

import http.client
import json
import stat
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from data.store import Store
from ingest.control import PATH, ControlFile
from tests.command import fails, run, up
from tests.growing import append, decodes, sglang_boot
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "server.log"
    path.parent.mkdir()
    path.write_bytes(sglang_boot() + decodes(0, 20))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.duckdb"


def count(store: Path) -> str:
    return run("sql", "SELECT count(*) FROM samples", "--format", "csv", "--store", store).stdout


def outputs(store: Path) -> list[str]:
    commands: list[list[str]] = [
        ["runs"],
        ["show", "org"],
        ["export", "samples"],
        ["export", "events", "--format", "json"],
        ["sql", "SELECT ts, gen_tok_s, accept_per_position FROM samples ORDER BY 1, 2"],
    ]
    done = [run(*command, "--store", store) for command in commands]
    assert [(entry.returncode, entry.stderr) for entry in done] == [(0, "")] * len(done)
    return [entry.stdout for entry in done]


def test_same_answers_with_and_without_up(log: Path, store: Path) -> None:
    with up(log, "--label", "org", "--store", store):
        until(lambda: count(store) == "count_star()\n20\n", 120)
        during = outputs(store)
        assert "servescope: no run is called 'nope'" in fails("show", "nope", "--store", store)
        line = fails("sql", "DELETE FROM samples", "--store", store)
        assert line == "servescope: sql: exactly one SELECT is allowed"
    assert outputs(store) == during
    assert not ControlFile.path(store).exists()


def test_status_tells_how_the_sources_are(log: Path, store: Path) -> None:
    idle = json.loads(run("status", "--json", "--store", store).stdout)
    assert (idle["running"], idle["sources"]) == (False, [])
    with up(log, "--store", store) as running:
        until(lambda: count(store) == "count_star()\n20\n", 120)
        report = json.loads(run("status", "--json", "--store", store).stdout)
        done = run("compact", "--keep", "36500", "--store", store)
        assert "was left to roll up; the store: " in done.stdout, done.stderr
    assert (report["running"], report["url"]) == (True, running.url)
    [source] = report["sources"]
    assert (source["source_id"], source["state"], source["lines_read"]) == (
        str(log), "following", 21,
    )  # fmt: skip


def test_import_while_up_stores_other_files_and_not_the_followed_one(
    log: Path, store: Path
) -> None:
    past = log.with_name("past.log")
    past.write_bytes(sglang_boot(5000, "org/past") + decodes(100, 7))
    with up(log, "--store", store):
        until(lambda: count(store) == "count_star()\n20\n", 120)
        done = run("import", "past.log", "server.log", "--store", store, cwd=log.parent)
        assert "is being followed" in done.stderr
        assert done.stdout.endswith("7 samples, 1 runs\n")
        append(log, decodes(20, 1))
        until(lambda: count(store) == "count_star()\n28\n", 120)


def test_route_is_for_the_owner_only(log: Path, store: Path) -> None:
    with up(log, "--store", store) as running:
        control = ControlFile.read(store)
        assert control is not None
        assert stat.S_IMODE(ControlFile.path(store).stat().st_mode) == 0o600
        until(lambda: count(store) == "count_star()\n20\n", 120)
        assert ask(running.url, None, "runs") == 403
        assert ask(running.url, "wrong", "runs") == 403
        assert ask(running.url, control.token, "close") == 400
        assert ask(running.url, control.token, "_store") == 400
        assert ask(running.url, control.token, "runs") == 200


def ask(url: str, token: str | None, command: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connection.request("POST", PATH, json.dumps({"command": command, "arguments": {}}), headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_control_file_of_a_dead_process_is_no_hindrance(store: Path) -> None:
    Store.open(store).close()
    ControlFile.path(store).write_text(
        json.dumps({"pid": 1 << 22, "url": "http://127.0.0.1:1", "token": "x"})
    )
    assert run("runs", "--store", store).returncode == 0


def test_sql_is_stopped_at_its_time(log: Path, store: Path) -> None:
    Store.open(store).close()
    endless = "SELECT count(*) FROM range(10000000000) a, range(10000000000) b"
    line = fails("sql", endless, "--timeout", "0.5", "--store", store)
    assert line == "servescope: sql: stopped after 0.5 s; ask for less"
