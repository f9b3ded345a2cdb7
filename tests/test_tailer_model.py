"""Any order of writes, turns, copies, losses, kills and restarts: what is stored is what was
written. The same over SFTP: test_tailer_model_sftp.py; ten times as many: `make soak`."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ingest import follower
from tests.tail_model import Process, World, first_seed, wrong

SEQUENCES, PARTS = 1700, 34


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_stored_is_what_was_written(tmp_path: Path, part: int) -> None:
    """Other sequences each time; the message of a failure names the seed."""
    count = SEQUENCES // PARTS
    first = first_seed(part)
    assert wrong(range(first, first + count), tmp_path) == []


def test_a_turn_long_before_the_next_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is deleted, and what is made anew is rotated away before anyone looks again; what
    was read of the first is not even stored then, since the disk is slow."""
    hour_ago = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1)
    with closing(Process(tmp_path / "s.duckdb", gather=1 << 20)) as process:
        log = tmp_path / "logs" / "server.log"
        monkeypatch.setattr(follower, "utc_now", lambda: hour_ago)
        world = World(log, process=process, location=str(log))
        world.write()
        world.poll()
        monkeypatch.undo()
        log.unlink()
        world.boot()
        world.write()
        then = datetime.now().timestamp() - 600
        os.utime(log, (then, then))
        world.rename()
        world.write()
        world.poll()
        assert world.numbers() == [*range(world.written)]
        world.end()
