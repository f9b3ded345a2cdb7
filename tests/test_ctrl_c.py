"""Ctrl-C ends a collector at any moment, whatever libraries have done with the signal."""

from __future__ import annotations

import signal
from pathlib import Path

from data.store import Store
from tests.command import started
from tests.following import numbers
from tests.growing import append, decodes, sglang_boot
from tests.waiting import until


def test_ctrl_c_ends_ingest_also_once_polars_has_been_used(tmp_path: Path) -> None:
    log, store = tmp_path / "server.log", tmp_path / "s.duckdb"
    log.write_bytes(sglang_boot() + decodes(0, 10))
    wal = store.with_name("s.duckdb.wal")
    with started("ingest", log, "--store", store) as (process, said):
        assert "stop with Ctrl-C" in said.readline()
        for number in range(10, 13):  # the first growth may be of the source alone
            before = wal.stat().st_size
            append(log, decodes(number, 1))
            until(lambda before=before: wal.stat().st_size > before, 60)  # type: ignore[misc]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    with Store.open(store) as opened:
        assert len(numbers(opened)) >= 10
