"""Folding changes no answer of the store, only its size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from data import checkpoints, file_store, fold, queries
from data.checkpoints import Checkpoint
from data.store import Store
from tests.frames import decode, events, facts, samples
from tests.postgres import OpenStore


def checkpoint(seq: int, file_id: str, path: str) -> Checkpoint:
    return Checkpoint("s", file_id, path, seq, seq * 10, seq, "ab", 10, "cd", "{}")


def fill(store: Store) -> None:
    store.append(facts({"seq": 1, "run_id": "r1", "dp": 2}), None)
    for seq in range(1, 40):
        rows = [
            decode(seq, dp_rank=dp, tp_rank=tp, gen_tok_s=float(seq), running_reqs=seq % 3)
            for dp in (0, 1)
            for tp in (0, 1)
        ]
        store.append(samples(rows), checkpoint(seq, f"f{seq % 2}", f"/log{seq % 2}"))
    fault = {"run_id": "r1", "kind": "fault", "severity": "fault", "byte_offset": 16}
    store.append(events({**fault, "incident_id": "r1-10"}), None)


def answers(con: duckdb.DuckDBPyConnection) -> list[object]:
    return [
        queries.runs_table(con).to_dicts(),
        con.execute("SELECT * FROM run_ranks ORDER BY ALL").fetchall(),
        con.execute("SELECT * EXCLUDE (state) FROM checkpoints_latest ORDER BY ALL").fetchall(),
        [checkpoints.known(con, path=path) for path in ("/log0", "/log1")],
    ]


def count(con: duckdb.DuckDBPyConnection, table: str) -> int:
    row = con.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


def test_answers_stay_the_same(open_store: OpenStore) -> None:
    with open_store() as store, store.cursor() as con:
        fill(store)
        before = answers(con)
        for _ in range(2):  # folding what is folded changes nothing either
            store.transact(fold.fold)
            assert answers(con) == before
            assert count(con, "checkpoints") == 2
            assert count(con, "run_summary_parts") == 5


@pytest.mark.parametrize("restart", [False, True])
def test_it_happens_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    path = tmp_path / "s.duckdb"
    if restart:
        with Store.open(path) as store:
            fill(store)
    for module in (fold, file_store):
        monkeypatch.setattr(module, "EVERY_APPENDS", 30)
    with Store.open(path) as store, store.cursor() as con:
        step: Callable[[Store], None] = (lambda s: s.append(None, None)) if restart else fill
        step(store)
        assert count(con, "checkpoints") < 15
