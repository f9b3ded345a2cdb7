"""Points joined to the logs of real servers, held against a count made here from the raw lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from data import bench, bench_link
from data.store import Store
from ingest.imports import import_paths
from tests.postgres import OpenStore

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"
RUNS = ("sglang-0.5.23-base", "sglang-0.5.23-ngram", "vllm-0.32.0-base")
FILES = [path for run in RUNS for path in sorted((SAMPLES / run / "bench").glob("c*.json*"))]
DECODE = re.compile(
    r"\[(\S+ \S+)\] Decode batch, #running-req: (\d+),.*?(?:accept len: ([\d.]+),.*?)?"
    r"gen throughput \(token/s\): ([\d.]+)"
)
STATS = re.compile(r"INFO (\d\d-\d\d \S+) .*Avg generation throughput: ([\d.]+) tokens/s")


@pytest.fixture(scope="module")
def store(open_module_store: OpenStore) -> Iterator[Store]:
    """All bundled logs in one store, then the results on their own."""
    with open_module_store() as opened:
        import_paths(opened, [str(log) for log in sorted(SAMPLES.glob("*/server.log"))])
        report = import_paths(opened, [str(path) for path in FILES])
        assert report.joined == len(FILES)
        yield opened


def point(store: Store, file: Path) -> dict[str, Any]:
    with store.cursor() as con:
        rows = con.execute(
            "SELECT p.*, r.source_id FROM bench_points p JOIN runs r ON r.run_id = p.run_id "
            "WHERE bench_file = ?", [str(file)],
        ).pl()  # fmt: skip
    return rows.row(0, named=True)


def lines(log: Path) -> Iterator[tuple[datetime, float, int, float]]:
    """Time, tokens a second, running requests and accept length of every periodic line."""
    for line in log.read_text(errors="replace").splitlines():
        if match := DECODE.search(line):
            stamp = datetime.fromisoformat(match[1])
            yield stamp, float(match[4]), int(match[2]), float(match[3] or 1)
        elif match := STATS.search(line):
            yield datetime.strptime(f"2026-{match[1]}", "%Y-%m-%d %H:%M:%S"), float(match[2]), 0, 1


def counted(log: Path, start: datetime, end: datetime) -> tuple[float, float]:
    """Tokens of the log's lines about this time, and what the lines before the first one leave."""
    found = list(lines(log))
    if found[0][2] == 0:  # vLLM: a line each 10 s, about the 10 s before it
        length = timedelta(seconds=10)
        inside = [f for f in found if f[0] - length < end + timedelta(seconds=1) and f[0] > start]
        return sum(rate * 10 for _, rate, _, _ in inside), 0.0
    second = timedelta(seconds=1)
    inside = [f for f in found if start - second <= f[0] <= end + second]
    # Each line tells of 40 steps; the first after a pause of fewer, told by its low rate.
    tokens = sum(40 * running * accept for _, _, running, accept in inside)
    before = [f for f in found if f[0] < inside[0][0]]
    tails = sum(40 * f[2] * f[3] for f in (before[-1:] + inside[-1:]))
    return tokens, tails


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_a_point_finds_its_run_and_its_tokens(store: Store, file: Path) -> None:
    row = point(store, file)
    log = file.parents[1] / "server.log"
    assert row["source_id"] == str(log)
    raw = json.loads(file.read_text())
    client, completed = raw["total_output_tokens"], raw["completed"]
    tokens, tails = counted(log, row["window_started_at"], row["window_ended_at"])
    # Lines at the edges may be counted or not: two of them, of the most that ran.
    edge = 2 * 40 * max(running for _, _, running, _ in lines(log)) if tails else 0.0
    assert row["log_tokens"] == pytest.approx(tokens, abs=edge + 0.02 * tokens)
    mean = client / completed
    warmup = min(mean, 32) if tails else mean
    allowed = 0.05 * client + tails + (completed if tails else 0) + warmup
    assert row["token_difference"] == pytest.approx(row["log_tokens"] - client)
    assert row["allowed_tokens"] == pytest.approx(allowed, rel=0.35)
    assert abs(row["token_difference"]) <= allowed
    detail = json.loads(row["join_detail"])
    assert detail["agrees"] is True
    assert sum(detail["allowed"].values()) == pytest.approx(row["allowed_tokens"])


def test_a_clock_is_used_where_the_file_has_one(store: Store) -> None:
    row = point(store, SAMPLES / "vllm-0.32.0-base" / "bench" / "c4.json")
    assert (row["join_method"], row["clock_offset_s"]) == ("clock", 0.0)
    assert row["window_started_at"] == row["started_at"]
    row = point(store, SAMPLES / "sglang-0.5.23-base" / "bench" / "c4.jsonl")
    assert (row["join_method"], row["clock_offset_s"]) == ("order", None)
    assert abs((row["window_started_at"] - datetime(2026, 11, 29, 14, 47, 9)).total_seconds()) < 5


def test_the_server_tells_what_ran(store: Store) -> None:
    base = point(store, SAMPLES / "sglang-0.5.23-base" / "bench" / "c64.jsonl")
    assert 50 < base["server_running_reqs"] <= 64
    assert base["server_accept_len"] is None
    ngram = point(store, SAMPLES / "sglang-0.5.23-ngram" / "bench" / "c1.jsonl")
    assert ngram["server_running_reqs"] == 1
    assert ngram["server_accept_len"] == pytest.approx(ngram["accept_len"], rel=0.05)
    assert 0 < ngram["server_prefix_hit_rate"] < 1


def test_another_zone_is_found_by_the_load(tmp_path: Path, open_store: OpenStore) -> None:
    file = tmp_path / "c4.json"
    raw = json.loads((SAMPLES / "vllm-0.32.0-base" / "bench" / "c4.json").read_text())
    file.write_text(json.dumps({**raw, "date": "20261129-201050"}))  # 5 h 30 min ahead
    log = SAMPLES / "vllm-0.32.0-base" / "server.log"
    with open_store() as opened:
        assert import_paths(opened, [str(log), str(file)]).joined == 1
        row = point(opened, file)
    assert (row["join_method"], row["clock_offset_s"]) == ("clock", -5.5 * 3600)


@pytest.mark.parametrize(
    "changes",
    [
        {"model_id": "acme/other"},
        {"total_output_tokens": 90_000},
        {"date": "20261101-120000", "duration": 3.0},
    ],
    ids=["another model", "far more tokens", "another day"],
)
def test_what_does_not_fit_is_joined_to_nothing(
    tmp_path: Path, open_store: OpenStore, changes: dict[str, Any]
) -> None:
    raw = json.loads((SAMPLES / "vllm-0.32.0-base" / "bench" / "c4.json").read_text())
    (tmp_path / "c4.json").write_text(json.dumps({**raw, **changes}))
    log = SAMPLES / "vllm-0.32.0-base" / "server.log"
    with open_store() as opened:
        assert import_paths(opened, [str(log), str(tmp_path / "c4.json")]).joined == 0
        with opened.cursor() as con:
            assert bench.points(con)["run_id"].to_list() == [None]


def test_a_point_is_counted_anew_when_its_log_goes_on(
    tmp_path: Path, open_store: OpenStore
) -> None:
    whole = (SAMPLES / "vllm-0.32.0-base" / "server.log").read_bytes()
    last = whole.index(b"Avg generation throughput: 325.9")  # 3,259 tokens of the point's 10,240
    log, file = tmp_path / "server.log", SAMPLES / "vllm-0.32.0-base" / "bench" / "c4.json"
    log.write_bytes(whole[: whole.rindex(b"\n", 0, last) + 1])
    with open_store() as opened:
        assert import_paths(opened, [str(log), str(file)]).joined == 1
        early = point(opened, file)
        assert early["token_difference"] == pytest.approx(-3260)
        with log.open("ab") as end:
            end.write(whole[log.stat().st_size :])
        import_paths(opened, [str(log)])
        late = point(opened, file)
        assert late["token_difference"] == pytest.approx(-1)
        assert late["window_started_at"] == early["window_started_at"]
        before = opened.revision
        assert bench_link.join(opened) == 0
        assert opened.revision == before  # nothing more to count


def test_missing_tokens_are_a_finding_of_the_check(tmp_path: Path, open_store: OpenStore) -> None:
    raw = json.loads((SAMPLES / "vllm-0.32.0-base" / "bench" / "c4.json").read_text())
    more = {**raw, "total_output_tokens": raw["total_output_tokens"] * 1.2 // 1}
    (tmp_path / "c4.json").write_text(json.dumps(more))
    log = SAMPLES / "vllm-0.32.0-base" / "server.log"
    with open_store() as opened:
        import_paths(opened, [str(log), str(tmp_path / "c4.json")])
        row = point(opened, tmp_path / "c4.json")
    assert row["token_difference"] < -row["allowed_tokens"]
    assert json.loads(row["join_detail"])["agrees"] is False
