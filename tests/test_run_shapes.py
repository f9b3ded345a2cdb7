"""The course of each run in the list: its tokens are those that count, in equal pieces of time."""

from __future__ import annotations

from data import queries, shapes
from data.store import Store
from tests import pages
from tests.frames import decode, facts, samples
from tests.postgres import OpenStore


def test_the_pieces_hold_the_tokens_of_the_ranks_that_count(open_store: OpenStore) -> None:
    rows = [
        decode(second, dp_rank=dp, tp_rank=tp, gen_tok_s=float(second))
        for second in range(1, 50)
        for dp in (0, 1)
        for tp in (0, 1)  # prints the same batch again
    ]
    silent = decode(5, run_id="r2", file_id="f2", gen_tok_s=None)
    with open_store() as store, store.cursor() as con:
        store.append(facts({"seq": 1, "run_id": "r1"}, {"seq": 1, "run_id": "r2"}), None)
        store.append(samples([*rows, silent]), None)
        found = shapes.shapes(con, ["r1", "r2"])
        assert set(found) == {"r1"}
        # Two seconds are a piece, and the 49th line stands at the end of the last one.
        assert found["r1"] == [*(4.0 * piece + 3 for piece in range(23)), 47.0 + 48 + 49]
        assert shapes.shapes(con, ["r2"]) == {}


def test_the_list_shows_them(demo: Store) -> None:
    test = pages.shown("runs", demo, {})
    table = test.dataframe[0].value
    with demo.cursor() as con:
        runs = queries.runs_table(con)
        found = shapes.shapes(con, runs["run_id"].to_list())
    assert [list(shape) for shape in table["shape"]] == [found[run] for run in runs["run_id"]]
    for card in runs.iter_rows(named=True):
        span_s = (card["last_ts"] - card["first_ts"]).total_seconds()
        tokens = sum(found[card["run_id"]]) * span_s / shapes.PIECES
        assert abs(tokens - card["gen_tokens"]) < 1e-6 * card["gen_tokens"]
