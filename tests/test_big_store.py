"""A run read at once is what the views say of it, also in a store of many runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from data import curves, one_run, queries, run_curves, run_now
from data.asked import asked
from data.run_samples import run_samples
from data.store import Store
from parsers import records
from tests import big_store
from tests.frames import Frames, at, decode, samples
from tests.postgres import OpenStore
from tests.test_retention import roll

KEYS = ["file_id", "byte_offset", "kind"]


@pytest.fixture(scope="module")
def many(open_module_store: OpenStore) -> Iterator[Store]:
    with open_module_store(bulk=True) as opened:
        big_store.build(opened, runs=21, samples=10_000)
        yield opened


def test_every_run_has_its_share_of_samples(many: Store) -> None:
    with many.cursor() as con:
        runs = queries.runs_table(con)
        counted = con.sql("SELECT run_id, count(*) AS n FROM samples GROUP BY run_id").pl()
        joined = con.sql("SELECT count(*), count(run_id) FROM bench_points").fetchone()
    shares = dict(counted.iter_rows())
    newest = runs.row(0, named=True)
    assert shares.pop(newest["run_id"]) == 1000
    assert set(shares.values()) == {450}
    assert len(shares) == 20
    assert (newest["dp"], newest["end_state"]) == (big_store.RANKS, None)
    assert runs["n_faults"].sum() == 1
    assert joined is not None
    assert joined[0] == joined[1] > 10


def test_a_run_read_at_once_is_what_the_view_says(many: Store) -> None:
    with many.cursor() as con:
        runs = queries.runs_named(con)["run_id"].to_list()
        view = con.sql("SELECT * EXCLUDE (extra) FROM samples_timed").pl()
        for run_id in [*runs, "no such run"]:
            found, told = run_samples(con, run_id), view.filter(run_id=run_id)
            assert_frame_equal(found.sort(KEYS), told.sort(KEYS), check_column_order=False)


def test_what_one_run_is_asked_is_what_the_view_says(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, pl.DataFrame]]:
        found: list[tuple[Any, pl.DataFrame]] = []
        for card in queries.runs_table(con).head(5).iter_rows(named=True):
            end = card["last_ts"]
            for start in (card["first_ts"], end - timedelta(minutes=5)):
                curves = run_curves.series(con, card["run_id"], start, end, 50)
                tiles = run_curves.live_tiles(run_curves.latest_samples(con, card), card)
                found.append((tiles, curves.drop("kv_at")))
        return found

    with many.cursor() as con:
        narrowed = shown(con)
        monkeypatch.setattr(one_run, "narrowed", lambda query, _: query)
        for (tiles, curves), (tiles_told, told) in zip(narrowed, shown(con), strict=True):
            assert tiles == tiles_told
            assert_frame_equal(curves, told)
            assert curves.height > 1


def check_card(con: duckdb.DuckDBPyConnection, whole: dict[str, Any]) -> None:
    """The card that Live asks for each second is the card."""
    told = run_now.told(con, whole["run_id"])
    assert told is not None
    card = run_now.card(told, run_now.changes(con, whole["run_id"]))
    assert card.pop("duration_s") == pytest.approx(whole["duration_s"])
    assert {name: whole[name] for name in card} == card


_OF_A_TIME = """
SELECT s.kind, s.rank, s.ts, s.byte_offset, s."window", s.interval_s, s.gen_tok_s, s.gen_tok_s_min,
    s.gen_tok_s_max, s.prompt_tok_s, s.new_tokens, s.running_reqs, s.queued_reqs, s.kv_usage,
    s.accept_len, s.draft_accept_rate, s.request_steps
FROM counted_timed s
WHERE s.run_id = $run_id AND s.kind <> 'metrics'
    AND s.ts >= $start AND s.ts <= $end::TIMESTAMP + INTERVAL 2 MINUTE
ORDER BY s.ts, s.byte_offset
"""


def check_samples(con: duckdb.DuckDBPyConnection, run_id: str, start: Any, end: Any) -> None:
    """The samples of a time that Live asks for are those of the view."""
    place = {"start": start, "end": end}
    found = curves.samples(con, one_run.held(con, run_id), place)
    told = asked(con, _OF_A_TIME, place | {"run_id": run_id})
    assert found.height > 5
    assert_frame_equal(found.select(told.columns).sort(told.columns), told.sort(told.columns))


def test_what_is_asked_each_second_is_what_the_views_say(
    many: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with many.cursor() as con:
        for nth, card in enumerate(queries.runs_table(con).head(5).iter_rows(named=True)):
            monkeypatch.setattr(one_run, "_LISTED", 256 * (nth % 2))  # named, or asked for
            check_card(con, card)
            end = card["last_ts"] - timedelta(seconds=20)
            check_samples(con, card["run_id"], end - timedelta(minutes=5), end)
        assert run_now.told(con, "no such run") is None


def test_nor_does_it_count_ranks_that_print_the_same(open_store: OpenStore) -> None:
    ranks = [(dp, tp, pp) for dp in (None, 0, 1) for tp in (None, 1) for pp in (0, 1)]
    rows = [
        decode(second + nth / 100, dp_rank=dp, tp_rank=tp, pp_rank=pp, engine_index=dp)
        for nth, (dp, tp, pp) in enumerate(ranks)
        for second in range(1, 200)
    ]
    late = [
        {"run_id": "r1", "file_id": "f", "byte_offset": 1000 * second, "interval_s": 0.25}
        for second in (50, 150, 160)
    ]
    fault = {
        "run_id": "r1", "byte_offset": 16, "ts": at(500), "severity": "fault",
        "incident_id": "r1-10",
    }  # fmt: skip
    with open_store() as store:
        store.append(
            Frames(
                samples=records.frame(rows, records.SAMPLES),
                intervals=records.frame(late, records.INTERVALS),
                events=records.frame([fault], records.EVENTS),
                run_facts=records.frame(
                    [{"run_id": "r1", "seq": 1, "ready_at": at(0.5)}], records.RUN_FACTS
                ),
            ),
            None,
        )
        roll(store, at(125))
        with store.cursor() as con:
            card = queries.run_card(con, "r1")
            assert card is not None
            assert (card["n_faults"], card["first_ts"]) == (1, at(1))
            check_card(con, card)
            check_samples(con, "r1", at(0), at(170))


def test_the_end_of_a_run_read_once_gives_the_same_curves(many: Store) -> None:
    with many.cursor() as con:
        for card in queries.runs_table(con).head(5).iter_rows(named=True):
            latest, end = run_curves.latest_samples(con, card), card["last_ts"]
            for minutes in (5, 15, 60):
                place = (card["run_id"], end - timedelta(minutes=minutes), end, 100)
                found = run_curves.series(con, *place, latest)
                assert_frame_equal(found, run_curves.series(con, *place))
                assert found["gen_tok_s"].count() > 1


def test_the_samples_of_a_time_are_counted_in_the_tables(many: Store) -> None:
    with many.cursor() as con:
        for card in queries.runs_table(con).head(5).iter_rows(named=True):
            end = card["last_ts"] - timedelta(seconds=20)
            place = {"run_id": card["run_id"], "start": end - timedelta(minutes=5), "end": end}
            told = con.execute(
                "SELECT count(*) FROM samples WHERE run_id = $run_id "
                "AND ts BETWEEN $start AND $end", place,
            ).fetchone()  # fmt: skip
            assert told == (one_run.at_most(con, one_run.held(con, card["run_id"]), place),)
            assert told > (0,)


def test_windows_corrected_later_are_laid_over_them(open_store: OpenStore) -> None:
    rows = [
        decode(1),
        decode(2, interval_s=None, interval_from=None),
        decode(3, interval_s=None),
        decode(4, interval_s=None),
    ]
    late = [
        {"run_id": "r1", "file_id": "f", "byte_offset": 1000 * at, "interval_s": 0.25 * at}
        for at in (2, 3)
    ]
    with open_store() as store:
        store.append(
            Frames(
                samples=records.frame(rows, records.SAMPLES),
                intervals=records.frame(late, records.INTERVALS),
            ),
            None,
        )
        with store.cursor() as con:
            found = run_samples(con, "r1").sort("byte_offset")
            told = con.sql("SELECT * EXCLUDE (extra) FROM samples_timed ORDER BY byte_offset").pl()
    assert found["interval_s"].to_list() == [1.0, 0.5, 0.75, None]
    assert found["interval_from"].to_list() == ["steps", "stamps", "steps", "steps"]
    assert_frame_equal(found, told, check_column_order=False)


def test_minutes_are_among_the_samples_of_a_run(open_store: OpenStore) -> None:
    with open_store() as store:
        store.append(samples([decode(second) for second in range(1, 200)]), None)
        roll(store, at(125))
        with store.cursor() as con:
            found = run_samples(con, "r1").sort(KEYS)
            told = con.sql("SELECT * EXCLUDE (extra) FROM samples_timed").pl().sort(KEYS)
    assert found.filter(interval_from="minute").height >= 2
    assert_frame_equal(found, told, check_column_order=False)
