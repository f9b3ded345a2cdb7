"""`servescope parse`: records of a log on standard output, as its lines come."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import polars as pl
import pytest

from tests.command import COMMAND, ROOT, run
from tests.growing import decodes, sglang_boot

TEXT = sglang_boot() + decodes(0, 5)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(TEXT)
    return path


def test_records_come_in_the_order_of_the_file(log: Path) -> None:
    records = [json.loads(line) for line in run("parse", log).stdout.splitlines()]
    assert records[0]["record"] == "run"
    samples = [record for record in records if record["record"] == "sample"]
    assert [sample["kv_tokens"] for sample in samples] == [0, 1, 2, 3, 4]
    assert [sample["byte_offset"] for sample in samples] == [
        TEXT.index(decodes(number, 1)) for number in range(5)
    ]
    assert None not in samples[0].values()
    assert "canary" not in json.dumps(records)


def test_a_pipe_is_answered_line_by_line() -> None:
    process = subprocess.Popen(
        [*COMMAND, "parse", "-"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(sglang_boot())
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["record"] == "run"
        for number in range(3):
            process.stdin.write(decodes(number, 1)[:40])
            process.stdin.flush()
            process.stdin.write(decodes(number, 1)[40:])
            process.stdin.flush()
            # The pipe is still open: the record must not wait for more input.
            record: dict[str, object] = {}
            while record.get("record") != "sample":
                record = json.loads(process.stdout.readline())
            assert record["kv_tokens"] == number
        process.stdin.close()
        assert process.wait(20) == 0


def test_csv_and_parquet_hold_the_samples(log: Path, tmp_path: Path) -> None:
    text = run("parse", log, "--format", "csv").stdout
    table = pl.read_csv(io.StringIO(text))
    assert table["kv_tokens"].to_list() == [0, 1, 2, 3, 4]
    out = tmp_path / "samples.parquet"
    assert run("parse", log, "--format", "parquet", "--output", out).returncode == 0
    assert pl.read_parquet(out)["kv_tokens"].to_list() == [0, 1, 2, 3, 4]


def test_a_reader_that_leaves_early_is_no_error(log: Path) -> None:
    log.write_bytes(sglang_boot() + decodes(0, 2000))  # more than a pipe holds
    done = subprocess.run(
        f"{' '.join(COMMAND)} parse {log} | head -1",
        shell=True, capture_output=True, cwd=ROOT, timeout=60,
    )  # fmt: skip
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""
