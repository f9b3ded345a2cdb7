"""`servescope doctor`: what a log holds, what it lacks, and the likely switch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingest.doctor import Report, as_text, examine
from tests.command import fails, run
from tests.logs import decode, sglang_boot, stats, text
from tests.wrapping import docker

ACCESS = '[2026-05-04 10:00:0{}] INFO:     127.0.0.1:5 - "POST /generate HTTP/1.1" 200 OK'
VLLM_ACCESS = 'INFO:     10.0.0.9:5 - "POST /v1/completions HTTP/1.1" 200 OK'
VLLM_BOOT = [
    "(APIServer pid=7) INFO 05-04 10:00:00 [api_server.py:1971] vLLM API server version 0.11.0",
    "(APIServer pid=7) INFO 05-04 10:00:00 [utils.py:233] non-default args: {'model': 'org/m', "
    "'data_parallel_size': 4}",
]


def report(lines: list[str], tmp_path: Path, zone: str | None = None) -> Report:
    """What the doctor says of a log."""
    path = tmp_path / "server.log"
    path.write_bytes(text(lines))
    return examine(path, zone)


def test_a_whole_log_lacks_nothing(tmp_path: Path) -> None:
    lines = [*sglang_boot("10:00:00"), decode("10:00:01"), ACCESS.format(2), "a line of no meaning"]
    found = report(lines, tmp_path, "UTC")
    (seen,) = found.runs
    assert (seen.engine, seen.model, seen.has_args) == ("sglang", "org/model", True)
    assert (seen.samples, seen.access, seen.decode_log_interval) == (1, 1, 40)
    assert (found.kinds["decode"], found.kinds["access"], found.kinds["other"]) == (1, 1, 1)
    assert (found.lines, found.advice) == (6, [])


@pytest.mark.parametrize(
    ("lines", "engine", "switch"),
    [
        ([ACCESS.format(i) for i in range(6)], "sglang", "--log-level is above info"),
        ([*VLLM_BOOT, *[VLLM_ACCESS] * 6], "vllm", "--disable-log-stats"),
    ],
)
def test_only_access_lines(lines: list[str], engine: str, switch: str, tmp_path: Path) -> None:
    found = report(lines, tmp_path, "UTC")
    assert (found.runs[0].engine, found.runs[0].access) == (engine, 6)
    assert found.advice[0].startswith("Only access lines")
    assert switch in found.advice[0]


def test_several_api_servers_switched_stats_off(tmp_path: Path) -> None:
    off = (
        "(APIServer pid=7) WARNING 05-04 10:00:01 [async_llm.py:99] AsyncLLM created with "
        "api_server_count more than 1; disabling stats logging to avoid incomplete stats."
    )
    (advice,) = report([*VLLM_BOOT, off, VLLM_ACCESS], tmp_path, "UTC").advice
    assert "several API servers switched the stats lines off" in advice
    assert "--api-server-count 1" in advice


def test_ranks_that_are_promised_and_do_not_print(tmp_path: Path) -> None:
    lines = [
        stats(f"05-04 10:0{m}:{s}", 5.0, 1, engine=e)
        for m in range(3) for s in ("05", "15", "25") for e in (0, 2)
    ]  # fmt: skip
    found = report([*VLLM_BOOT, *lines], tmp_path, "UTC")
    (seen,) = found.runs
    assert (seen.ranks_promised, seen.ranks_seen, seen.stats_interval_s) == (4, 2, 10.0)
    assert found.advice == [
        "2 of 4 DP ranks print samples: sums over ranks are partial. The others write to another "
        "node's or process's log."
    ]


def test_torn_and_unknown_lines_are_shown_by_shape(tmp_path: Path) -> None:
    torn = "[2026-05-04 10:00:01] Decode batch, #token: x"
    found = report([*sglang_boot("10:00:00"), torn, torn, decode("10:00:02")], tmp_path, "UTC")
    assert found.damaged == {"[0-0-0 0:0:0] Decode batch, #token: x": 2}
    assert "Lines that are torn: 2" in found.advice[0]


def test_a_log_that_begins_later_than_its_server(tmp_path: Path) -> None:
    (advice,) = report([decode("10:00:01")], tmp_path, "UTC").advice
    assert advice.startswith("The server's arguments are not in the log")


def test_the_zone_of_a_containers_clock(tmp_path: Path) -> None:
    lines = [line.replace("T10:", "T08:") for line in docker([decode("10:00:01")] * 3)]
    found = report([*lines], tmp_path)
    assert (found.zone_offset_s, found.wrapped) == (7200.0, 3)
    assert not any("time zone" in line for line in found.advice)
    assert "+2.00 h ahead of UTC" in as_text(found)


def test_the_command_in_both_formats(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(("\ufeff" + text(sglang_boot("10:00:00")).decode()).encode("utf-16-le"))
    told = run("doctor", path).stdout
    assert "3 lines, utf-16-le" in told
    assert "- No periodic lines: most likely --log-level" in told
    found = json.loads(run("doctor", path, "--format", "json").stdout)
    assert (found["encoding"], found["runs"][0]["engine"]) == ("utf-16-le", "sglang")


def test_what_is_no_log_of_a_server(tmp_path: Path) -> None:
    assert report(["hello", "world"], tmp_path).advice == [
        "No line of an SGLang or vLLM server is in this file."
    ]
    assert "no such file" in fails("doctor", tmp_path / "none.log")


def test_a_last_line_without_a_newline_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(text([decode("10:00:01"), "a line of no meaning"]).rstrip(b"\n"))
    found = examine(path)
    assert (found.lines, found.kinds) == (2, {"decode": 1, "other": 1})
