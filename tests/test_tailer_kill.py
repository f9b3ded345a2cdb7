"""Logs that are rotated, copied and packed while a process that follows all of them is killed with
SIGKILL again and again: each line is stored exactly once."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

from data.store import Store
from tests.following import following
from tests.kill import FOLLOW, born_and_die, nursery_of
from tests.log_model import Log
from tests.tail_model import MOST_STEPS, steps_of
from tests.waiting import until

SEQUENCES = 25
LONGEST_S = 1.2  # a life; the followers of all logs have begun after half of it
FILE_STEPS = ("write", "half", "boot", "rename", "copytruncate", "pack", "relink")


def test_each_line_is_stored_once(tmp_path: Path) -> None:
    """Other sequences and moments each time; the seed is printed."""
    seed = random.SystemRandom().randrange(1 << 30) * 3 + 1  # those that lose nothing
    print(f"seed {seed}")
    rng = random.Random(seed)
    logs = [
        Log(tmp_path / f"s{number}" / "server.log", base=number << 16)
        for number in range(SEQUENCES)
    ]
    steps = [steps_of(seed + 3 * number) for number in range(SEQUENCES)]
    paths, store = [str(log.log) for log in logs], tmp_path / "s.duckdb"
    # Of a log that nobody has ever stored, only what stands under its name is read.
    _read_in_peace(store, paths, "SELECT count(DISTINCT source_id) FROM checkpoints", SEQUENCES)
    with nursery_of([*FOLLOW[:3], str(store), *paths]) as nursery:
        for turn in range(MOST_STEPS):
            for log, names in zip(logs, steps, strict=True):
                if turn < len(names) and names[turn] in FILE_STEPS:
                    getattr(log, names[turn])()
            born_and_die(nursery, rng.uniform(0.0, LONGEST_S))
    for log in logs:
        log.write()
    written = sum(log.written for log in logs)
    assert _read_in_peace(store, paths, "SELECT count(*) FROM samples", written) == {
        path: [log.base + number for number in range(log.written)]
        for path, log in zip(paths, logs, strict=True)
    }


def _read_in_peace(path: Path, logs: list[str], question: str, wanted: int) -> dict[str, list[int]]:
    """The numbers that are stored of each log once the store's answer is what is wanted."""
    with Store.open(path) as store, closing(store.cursor()) as con:
        with following(store, *logs):
            until(lambda: (con.execute(question).fetchone() or (0,))[0] >= wanted, 60)
        return dict(
            con.execute(
                "SELECT source_id, list(kv_tokens ORDER BY kv_tokens) FROM samples GROUP BY 1"
            ).fetchall()
        )
