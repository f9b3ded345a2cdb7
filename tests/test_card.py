"""A run is found by what people call it, told apart from others, and shown as a card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from data import queries
from data.card import card_text
from data.errors import CommandError
from data.export import run_list
from data.store import Store
from ingest.importer import import_logs
from ingest.status import SourceStatus, status_line
from tests.command import run
from tests.growing import decodes, sglang_boot
from tests.postgres import OpenStore


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two servers that call their log the same; the second started later."""
    folder = tmp_path_factory.mktemp("logs")
    found = [folder / name / "server.log" for name in ("one", "two")]
    for number, path in enumerate(found):
        path.parent.mkdir()
        path.write_bytes(sglang_boot(100 * number) + decodes(200 * number, 40))
    return found


@pytest.fixture(scope="module")
def store(open_module_store: OpenStore, logs: list[Path]) -> Iterator[Store]:
    with open_module_store() as opened:
        import_logs(opened, [str(path) for path in logs], label="base")
        yield opened


def test_runs_are_found_by_id_label_and_file_latest_first(store: Store, logs: list[Path]) -> None:
    with store.cursor() as con:
        newest, oldest = queries.runs_table(con)["run_id"].to_list()
        for text in ("base", "server.log"):
            assert queries.find_runs(con, text) == [newest, oldest]
        for text in (oldest, oldest[:9], "one/server.log", str(logs[0])):
            assert queries.find_runs(con, text) == [oldest]
        for text in ("", "ne/server.log", "nope", "server"):
            with pytest.raises(CommandError, match="no run is called"):
                queries.find_runs(con, text)


def test_list_tells_two_server_logs_apart(store: Store) -> None:
    with store.cursor() as con:
        rows = run_list(queries.runs_table(con)).splitlines()
    assert rows[0].split()[:3] == ["run", "label", "source"]
    assert [row.split()[2] for row in rows[1:]] == ["two/server.log", "one/server.log"]


def test_card_has_units_and_the_arguments_only_on_demand(store: Store, logs: list[Path]) -> None:
    with store.cursor() as con:
        card = queries.run_card(con, queries.find_runs(con, "one/server.log")[0])
    assert card is not None
    lines = [" ".join(line.split()) for line in card_text(card, args=False).splitlines()]
    assert lines[0] == "sglang"
    for line in (
        f"source {logs[0]}", "started 2026-03-01 12:00:00 UTC", "duration 19 s",
        "steady decode 80.5 tok/s", "highest KV usage 1 %", "3 arguments; --args shows them",
    ):  # fmt: skip
        assert line in lines
    whole = card_text(card, args=True).splitlines()
    at = whole.index("Arguments")
    assert [line.split() for line in whole[at + 1 : at + 3]] == [
        ["model_path", "org/model"], ["tp_size", "1"],
    ]  # fmt: skip


def test_the_command_says_that_it_took_the_latest(tmp_path: Path, logs: list[Path]) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        import_logs(store, [str(log) for log in logs], label="base")
        with store.cursor() as con:
            newest = queries.find_runs(con, "base")[0]
    done = run("show", "base", "--store", path)
    assert done.stderr == f"'base' names 2 runs; this is the latest, {newest}\n"
    assert f"{newest}\n" in done.stdout


def test_status_line_tells_file_lag_and_age() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    source = SourceStatus(
        "/logs", None, "following", path="/logs/b.log", lag_bytes=1234,
        last_line_at=now - timedelta(seconds=90),
    )  # fmt: skip
    line = "/logs: following, /logs/b.log, 1,234 bytes behind, last line 90 s ago"
    assert status_line(asdict(source), now) == line
    as_sent = asdict(source) | {"last_line_at": str(source.last_line_at), "error": "no disk"}
    assert status_line(as_sent, now) == f"{line}: no disk"
    assert status_line(asdict(SourceStatus("/a.log", None)), now) == "/a.log: waiting for file"
