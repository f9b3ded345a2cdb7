"""Benchmark files into the store: each once, all of a file or nothing, told apart from logs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import servescope
from data import bench, bench_text
from data.errors import SourceError
from data.store import Store
from ingest import bench_import, bench_read
from ingest.commands import Commands
from ingest.imports import Imported, import_paths
from tests.command import fails, run, up
from tests.growing import decodes, sglang_boot
from tests.postgres import OpenStore
from tests.waiting import until

CORPUS = Path(__file__).parent / "corpus" / "bench"
SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"


@pytest.fixture
def store(open_store: OpenStore) -> Iterator[Store]:
    with open_store() as opened:
        yield opened


def result(**changes: Any) -> str:
    """A result of `vllm bench serve` as one line of JSON."""
    return json.dumps(
        {
            "date": "20260611-101530", "backend": "openai", "model_id": "acme/owl-70b",
            "num_prompts": 64, "request_rate": "inf", "max_concurrency": 16, "duration": 30.51234,
            "completed": 64, "failed": 0, "total_input_tokens": 8192, "total_output_tokens": 15360,
            "request_throughput": 2.0975, "output_throughput": 503.4, "mean_ttft_ms": 130.512,
            **changes,
        }
    )  # fmt: skip


TEXT = """============ Serving Benchmark Result ============
Successful requests:                     64
Failed requests:                         0
Maximum request concurrency:             16
Benchmark duration (s):                  30.51
Total input tokens:                      8192
Total generated tokens:                  15360
Request throughput (req/s):              2.10
Output token throughput (tok/s):         503.40
Mean TTFT (ms):                          130.51
P99 TPOT (ms):                           44.21
==================================================
"""


def rows(store: Store) -> list[dict[str, Any]]:
    with store.cursor() as con:
        return bench.points(con).to_dicts()


def counts(report: Imported) -> list[tuple[int, int]]:
    return [(read.points, read.new) for read in report.bench]


def test_a_file_is_stored_once_and_so_is_its_copy(store: Store, tmp_path: Path) -> None:
    file, copy = tmp_path / "a.json", tmp_path / "copy of a.json"
    file.write_text(result())
    shutil.copy(file, copy)
    assert counts(import_paths(store, [str(file)])) == [(1, 1)]
    for again in (file, copy):
        assert counts(import_paths(store, [str(again)])) == [(1, 0)]
    assert [row["bench_file"] for row in rows(store)] == [str(file)]


def test_a_grown_file_adds_only_what_is_new(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "sweep.jsonl"
    file.write_text(result() + "\n")
    import_paths(store, [str(file)])
    with file.open("a") as end:
        end.write(result(max_concurrency=32, duration=20.25) + "\n")
    assert counts(import_paths(store, [str(file)])) == [(2, 1)]
    assert [(row["concurrency"], row["position"]) for row in rows(store)] == [(16, 1), (32, 2)]


@pytest.mark.parametrize("order", [("a.json", "a.txt"), ("a.txt", "a.json")])
def test_text_and_json_of_a_run_are_one_point(
    store: Store, tmp_path: Path, order: tuple[str, str]
) -> None:
    (tmp_path / "a.json").write_text(result())
    (tmp_path / "a.txt").write_text(TEXT)
    reports = [import_paths(store, [str(tmp_path / name)]) for name in order]
    assert [counts(report) for report in reports] == [[(1, 1)], [(1, 0)]]
    (row,) = rows(store)
    assert row["duration_s"] == 30.51234  # the digits of the JSON
    assert row["tpot_ms_p99"] == 44.21  # only the text has it
    assert row["model"] == "acme/owl-70b"
    assert row["bench_file"] == str(tmp_path / "a.json")


def test_a_cut_file_stores_nothing_and_spoils_nothing(store: Store, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text(result()[:150])
    (tmp_path / "good.json").write_text(result())
    with pytest.raises(SourceError, match=r"cut\.json: is cut off at line 1 column \d+; copy"):
        import_paths(store, [str(tmp_path / "cut.json")])
    assert rows(store) == []
    report = import_paths(store, [str(tmp_path)])
    assert len(rows(store)) == 1
    (note,) = [note for note in report.notes if "cut.json" in note]
    assert note.endswith("left out")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("e.json", "", "is empty"),
        ("other.json", '{"hidden_size": 64, "model_type": "llama"}', "holds no log file"),
        ("rows.csv", "name,age\nann,41\n", "holds no log file"),
        ("deep.json", '{"output_throughput": ' + "[" * 200_000, "is nested too deeply"),
    ],
)
def test_other_files_are_refused_in_one_line(
    tmp_path: Path, name: str, content: str, words: str
) -> None:
    (tmp_path / name).write_text(content)
    line = fails("import", tmp_path / name, "--store", tmp_path / "s.duckdb")
    assert line.startswith(f"servescope: {tmp_path / name}: ")
    assert words in line


@pytest.mark.parametrize(
    "line",
    [
        "[2026-03-01 10:00:00 TP0] Decode batch. #running-req: 1, #token: 9, token usage: 0.00\n",
        "INFO 03-01 10:00:00 [loggers.py:112] Engine 000: Avg prompt throughput: 1.0 tokens/s\n",
        '{"log":"[2026-03-01 10:00:00] INFO: started\\n","stream":"stderr","time":"2026"}\n',
        '{"asctime": "2026-03-01 10:00:00", "levelname": "INFO", "message": "started"}\n',
        '{"__CURSOR": "s=1", "MESSAGE": "started"}\n',
    ],
    ids=["sglang", "vllm", "docker", "vllm-json", "journal"],
)
def test_a_log_is_never_read_whole_for_results(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    log.write_text(line * 100)
    monkeypatch.setattr(bench_read, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(bench_read, "TEXT_BYTES", 1000)
    looked = bench_read.look(log)
    assert (looked.is_log, looked.found and looked.found.points) in ((True, None), (True, []))


def test_a_table_in_a_log_that_begins_with_a_stamp(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(sglang_boot() + decodes(0, 5) + TEXT.encode() + decodes(5, 5))
    report = import_paths(store, [str(log)])
    assert (counts(report), report.samples) == ([(1, 1)], 10)


@pytest.mark.parametrize("piece", [16, 100, 1 << 20])
def test_tables_in_a_log_are_found_wherever_pieces_end(
    tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    content = (CORPUS / "vllm-inside-server-log.txt").read_text()
    log.write_text("INFO: nothing\n" * 20_000 + content)
    monkeypatch.setattr(bench_read, "_PIECE_BYTES", piece)
    monkeypatch.setattr(bench_read, "TEXT_BYTES", 1000)
    found = bench_read.look(log).found
    whole = bench_read.look_at("a.log", content.encode()).found
    assert found is not None
    assert whole is not None
    assert found.points == whole.points


def test_a_client_that_failed_is_no_server_that_crashed(store: Store, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(
        (SAMPLES / "sglang-0.5.23-ngram" / "server.log").read_bytes()
    )
    (tmp_path / "client.txt").write_text(
        "benchmark_args=Namespace(backend='sglang', host='127.0.0.1', num_prompts=16)\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.11/site-packages/sglang/bench_serving.py", line 7, in run\n'
        "    main()\n"
        "requests.exceptions.ConnectionError: [Errno 111] Connection refused\n"
    )
    report = import_paths(store, [str(tmp_path)])
    assert len(report.run_ids) == 1
    assert any("client.txt" in note and "left out" in note for note in report.notes)


def test_points_of_files_with_one_name_are_told_apart(store: Store, tmp_path: Path) -> None:
    for at, folder in enumerate(("base", "draft"), 1):
        (tmp_path / folder / "bench").mkdir(parents=True)
        (tmp_path / folder / "bench" / "c16.json").write_text(result(duration=30.0 + at))
    (tmp_path / "base" / "c32.json").write_text(result(max_concurrency=32))
    import_paths(store, [str(tmp_path)])
    with store.cursor() as con:
        names = bench_text.point_names(bench.points(con))
    assert sorted(names) == ["base/bench/c16.json", "c32.json", "draft/bench/c16.json"]


def test_a_folder_of_logs_and_results_is_told_apart_by_content(
    store: Store, tmp_path: Path
) -> None:
    run_folder = SAMPLES / "vllm-0.32.0-base"
    shutil.copy(run_folder / "server.log", tmp_path / "results.txt")  # names say nothing
    shutil.copy(run_folder / "bench" / "c4.json", tmp_path / "server.log")
    (tmp_path / "notes.json").write_text("{}")
    report = import_paths(store, [str(tmp_path)])
    assert (report.files, report.samples, len(report.run_ids)) == (1, 24, 1)
    assert counts(report) == [(1, 1)]
    assert report.joined == 1
    assert report.notes == [
        f"{tmp_path}: 1 file with neither a benchmark result nor a log left out (notes.json)"
    ]


def test_a_sweep_of_vllm_has_each_point_once(store: Store, tmp_path: Path) -> None:
    results = [json.loads(result(max_concurrency=n, duration=n + 0.5)) for n in (4, 8)]
    rows_ = [{**one, "run_number": 0, "max_num_seqs": 64} for one in results]
    for one in rows_:
        folder = tmp_path / "20260611_101530" / f"SERVE--x-BENCH--{one['max_concurrency']}"
        folder.mkdir(parents=True)
        (folder / "run=0.json").write_text(json.dumps(one, indent=4))
        (folder / "summary.json").write_text(json.dumps([one]))
    top = tmp_path / "20260611_101530"
    header = list(rows_[0])
    lines = [",".join(["", *header])]
    lines += [",".join([str(n), *(str(one[h]) for h in header)]) for n, one in enumerate(rows_)]
    (top / "summary.csv").write_text("\n".join(lines) + "\n")
    (top / "warmup.json").write_text(result(duration=1.25))
    (top / "run=1.failure.json").write_text('{"run_number": 1, "error_type": "E", "error": "x"}')
    report = import_paths(store, [str(tmp_path)])
    assert sum(read.new for read in report.bench) == 2
    assert [row["concurrency"] for row in rows(store)] == [4, 8]
    assert json.loads(rows(store)[0]["extra"])["max_num_seqs"] == 64


def test_results_given_with_their_log_are_of_its_run(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("C=1: 82.5 tok/s\nC=8: 402.5 tok/s\n")
    log = SAMPLES / "sglang-0.5.23-ngram" / "server.log"
    report = import_paths(store, [str(log)], label="draft", bench=[str(tmp_path / "mine.txt")])
    assert report.joined == 2
    found = [(row["label"], row["run_id"], row["join_method"]) for row in rows(store)]
    assert found == [("draft", report.run_ids[0], "explicit")] * 2
    with pytest.raises(SourceError, match="there is no run in the logs"):
        import_paths(store, [str(tmp_path / "mine.txt")], bench=[str(tmp_path / "mine.txt")])


def test_a_zone_places_a_clock_that_prints_none(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(result(duration=30.0))
    import_paths(store, [str(tmp_path / "a.json")], zone="Europe/Berlin")
    assert str(rows(store)[0]["started_at"]) == "2026-06-11 08:15:00"


def test_a_column_is_named_once(store: Store, tmp_path: Path) -> None:
    table = "| Input len | engine A | engine B |\n|---|---|---|\n| 1000 | 42.5 | 53.25 |\n"
    for name in ("one.md", "two.md"):
        (tmp_path / name).write_text(table.replace("42.5", "42.5" if name == "one.md" else "44"))
    commands = Commands(store)
    report = import_paths(store, [str(tmp_path / "one.md")])
    assert report.bench[0].unread == ["engine A", "engine B"]
    assert rows(store) == []
    commands.map_bench([["engine A", "output_tok_s", None]])
    assert [row["output_tok_s"] for row in rows(store)] == [42.5]
    commands.map_bench([["engine B", "output_tok_s", None]])
    assert sorted(row["output_tok_s"] for row in rows(store)) == [42.5, 53.25]
    import_paths(store, [str(tmp_path / "two.md")])
    found = sorted((row["label"], row["output_tok_s"]) for row in rows(store))
    assert found == [
        ("engine A", 42.5), ("engine A", 44.0), ("engine B", 53.25), ("engine B", 53.25),
    ]  # fmt: skip


def test_no_secret_reaches_the_store(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        import_paths(store, [str(CORPUS)])
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert b"acme/owl-70b" in content
    for hidden in (b"sk-livekey", b"topsecret", b"abcdef0123456789", b"private answer"):
        assert hidden not in content


def test_the_commands_show_and_export_the_points(tmp_path: Path) -> None:
    place = ["--store", str(tmp_path / "s.duckdb")]
    Store.open(tmp_path / "s.duckdb").close()
    say = CliRunner().invoke
    assert "no benchmark results yet" in say(servescope.app, ["bench", *place]).stdout
    done = say(servescope.app, ["import", str(CORPUS / "vllm-inside-server-log.txt"), *place])
    assert "vllm bench serve, text, 1 point\n  2 of 32 requests failed (6%)" in done.stdout
    shown = say(servescope.app, ["bench", *place]).stdout
    assert "vllm-inside-server-log.txt: The peak (388 tok/s) is below the mean" in shown
    table = say(servescope.app, ["bench", "--format", "md", *place]).stdout
    assert table.startswith("| point | tool | conc | requests | failed |")
    (row,) = json.loads(say(servescope.app, ["bench", "--format", "json", *place]).stdout)
    assert (row["completed"], row["failed"], row["accept_len"]) == (30, 2, 2.23)
    exported = say(servescope.app, ["export", "bench_results", *place]).stdout
    assert exported.splitlines()[0].startswith("bench_id,bench_file,label,run_id,tool,")
    assert len(exported.splitlines()) == 2


def test_a_column_that_there_is_not_is_refused(tmp_path: Path) -> None:
    place = ("--store", tmp_path / "s.duckdb")
    Store.open(tmp_path / "s.duckdb").close()
    assert "'speed' is no column of a benchmark" in fails("bench", "--map", "A=speed", *place)
    assert "write HEADER=COLUMN" in fails("bench", "--map", "A", *place)


@pytest.mark.timeout(600)
def test_results_come_in_while_up_owns_the_store(tmp_path: Path) -> None:
    folder = SAMPLES / "vllm-0.32.0-base"
    place = ("--store", tmp_path / "s.duckdb")
    (tmp_path / "t.md").write_text("| Setup | speed |\n|---|---|\n| a | 12.5 |\n| b | 13.5 |\n")
    with up(folder / "server.log", *place):
        samples = ("sql", "SELECT count(*) FROM samples", "--format", "csv", *place)
        until(lambda: run(*samples).stdout == "count_star()\n24\n", 120)
        done = run("import", folder / "bench", tmp_path / "t.md", *place)
        assert done.stderr == ""
        assert "3 benchmark points in 4 files; 3 joined to their runs" in done.stdout
        named = run("bench", "--map", "speed=output_tok_s", "--format", "csv", *place)
        assert named.returncode == 0, named.stderr
        during = run("bench", *place).stdout
    assert during.count("clock") == 3
    assert run("bench", *place).stdout == during


def test_a_file_name_of_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"points\xff.md")
    path.write_text("| conc | tok/s |\n| --- | --- |\n| 4 | 82.5 |\n")
    with Store.open(tmp_path / "store.duckdb") as store:
        (told,) = bench_import.import_bench(store, [bench_read.look(path)])
        assert (told.points, told.new) == (1, 1)
        (again,) = bench_import.import_bench(store, [bench_read.look(path)])
        assert (again.points, again.new) == (1, 0)
