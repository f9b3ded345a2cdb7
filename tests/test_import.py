"""Importing past logs: everything once, as often as it is asked for."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from data.errors import SourceError
from data.store import Store
from ingest.importer import import_logs
from ingest.sources import packed
from tests.following import numbers
from tests.growing import append, decodes, sglang_boot


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


def test_report_progress_label_and_last_line_without_newline(store: Store, logs: Path) -> None:
    log = logs / "a.log"
    log.write_bytes((sglang_boot() + decodes(0, 50)).rstrip(b"\n"))
    os.utime(log, (1_700_000_000, 1_700_000_000))
    seen: list[tuple[int, int, int]] = []
    report = import_logs(store, [str(log)], label="base", progress=lambda *at: seen.append(at))
    assert (report.files, report.lines, report.samples, report.notes) == (1, 51, 50, [])
    assert seen[-1] == (log.stat().st_size, log.stat().st_size, 51)
    assert numbers(store) == list(range(50))
    with store.cursor() as con:
        assert con.execute("SELECT run_id, label FROM runs").fetchall() == [
            (report.run_ids[0], "base")
        ]


def test_torn_last_line_of_a_file_just_written_is_left_for_later(store: Store, logs: Path) -> None:
    log = logs / "a.log"
    whole = sglang_boot() + decodes(0, 50)
    log.write_bytes(whole[:-30])
    for expected in (49, 0):
        report = import_logs(store, [str(log)])
        assert report.samples == expected
        assert report.notes == [f"{log}: its last line is unfinished and was left for later"]
    append(log, whole[-30:])
    report = import_logs(store, [str(log)])
    assert (report.samples, report.notes) == (1, [])
    assert numbers(store) == list(range(50))
    with store.cursor() as con:
        assert con.execute(
            "SELECT count(DISTINCT line_no), max(line_no) FROM samples"
        ).fetchone() == (50, 51)


def test_second_import_and_a_copy_add_nothing(store: Store, logs: Path) -> None:
    log = logs / "a.log"
    log.write_bytes(sglang_boot() + decodes(0, 50))
    import_logs(store, [str(log)])
    copy = shutil.copy(log, logs / "copy.log")
    report = import_logs(store, [str(log), str(copy)])
    assert report.samples == 0
    assert report.notes == [f"{log}: already stored", f"{copy}: already stored as {log}"]
    assert numbers(store) == list(range(50))


def test_copies_within_one_import_are_stored_once(store: Store, logs: Path) -> None:
    for name in ("a.log", "b.log"):
        (logs / name).write_bytes(sglang_boot() + decodes(0, 50))
    report = import_logs(store, [str(logs)])
    assert numbers(store) == list(range(50))
    assert len(report.notes) == 1


def test_a_file_that_grew_is_read_on(store: Store, logs: Path) -> None:
    log = logs / "a.log"
    log.write_bytes(sglang_boot() + decodes(0, 20))
    import_logs(store, [str(log)])
    append(log, decodes(20, 5))
    assert import_logs(store, [str(log)]).samples == 5
    assert numbers(store) == list(range(25))


def test_many_blocks_equal_one_block(
    store: Store, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.blocks.BULK_BYTES", 1000)
    log = logs / "a.log"
    log.write_bytes(sglang_boot() + decodes(0, 300))
    import_logs(store, [str(log)])
    assert numbers(store) == list(range(300))
    text = log.read_bytes()
    with store.cursor() as con:
        rows = con.execute("SELECT kv_tokens, byte_offset, line_no FROM samples").fetchall()
    for number, offset, line_no in rows:
        assert text[offset:].startswith(decodes(number, 1))
        assert line_no == number + 2


def test_a_packed_log_is_unpacked_once(
    store: Store, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every block its head is looked at, which is long gone from the window."""
    monkeypatch.setattr("ingest.blocks.BLOCK_BYTES", 10_000)
    monkeypatch.setattr(packed, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr(packed, "_KEPT", 50_000)
    monkeypatch.setattr(packed, "_PIECE", 500)
    starts: list[packed.Unpacked] = []
    start = packed.Unpacked._start

    def noted(file: packed.Unpacked) -> None:
        starts.append(file)
        start(file)

    monkeypatch.setattr(packed.Unpacked, "_start", noted)
    log = logs / "a.log.gz"
    log.write_bytes(gzip.compress(sglang_boot() + decodes(0, 3000)))
    import_logs(store, [str(log)])
    assert numbers(store) == list(range(3000))
    assert len(starts) == len(set(map(id, starts)))


def test_folder_with_other_things_in_it(store: Store, logs: Path) -> None:
    (logs / "a.log").write_bytes(sglang_boot() + decodes(0, 3))
    (logs / "b.log").write_bytes(b"")
    (logs / "c.log").write_bytes(bytes(range(32)) * 100)
    (logs / "d.txt").write_bytes(b"shopping list: milk, eggs\n")
    (logs / "e.json").write_bytes(b"{}\n")
    report = import_logs(store, [str(logs)])
    assert report.samples == 3
    assert sorted(report.notes) == [
        f"{logs / 'b.log'}: no lines yet",
        f"{logs / 'c.log'}: is a binary file, not a log; left out",
        f"{logs / 'd.txt'}: no line of an SGLang or vLLM server in it",
    ]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.log", None, "no such file"),
        ("binary.log", b"\x7fELF" + bytes(range(32)) * 50, "binary file"),
        ("packed.log", b"\x1f\x8b\x08" + bytes(range(256)) * 8, "nothing in it can be unpacked"),
        ("*.nothing", None, "holds no log file"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_is_stored(
    store: Store, logs: Path, name: str, content: bytes | None, says: str
) -> None:
    good = logs / "good.log"
    good.write_bytes(sglang_boot() + decodes(0, 3))
    if content is not None:
        (logs / name).write_bytes(content)
    with pytest.raises(SourceError, match=says) as error:
        import_logs(store, [str(good), str(logs / name)])
    assert "\n" not in str(error.value)
    assert numbers(store) == []


def test_folder_is_imported_with_all_below_it_rotated_or_not(store: Store, logs: Path) -> None:
    names = ("a/server.log", "a/server.log.1", "a/b/server.log-20261129", "c.txt", ".git/x.log",
             "a/server.log.gz", "run.1/x.json")  # fmt: skip
    for number, name in enumerate(names):
        path = logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sglang_boot(number, f"org/{number}") + decodes(number, 1))
    report = import_logs(store, [str(logs)])
    assert (report.files, report.notes) == (5, [])
    assert numbers(store) == [0, 1, 2, 3, 5]


def test_an_append_without_bytes_is_committed_too(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(sglang_boot() + decodes(0, 5))
    for changed_at in (None, (1e9, 1e9)):  # read while it may grow; then its end is all there is
        os.utime(log, changed_at)
        with Store.open(tmp_path / "bulk.duckdb", bulk=True) as bulk:
            import_logs(bulk, [str(log)])
    with Store.open(tmp_path / "bulk.duckdb") as again, again.cursor() as con:
        found = con.execute("SELECT bool_or(finished), count(*) FROM checkpoints").fetchone()
        assert found == (True, 2)
