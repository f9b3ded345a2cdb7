"""Samples rolled up by minute: every total and every weighted figure stays, and it is said."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from data import queries, retention, run_curves, run_data, space
from data import windows as w
from data.errors import CommandError
from data.store import Store
from ingest.commands import Commands
from ingest.importer import import_logs
from parsers import records
from tests.frames import Frames, at, decode, events, facts, samples
from tests.postgres import OpenStore

LOGS = sorted((Path(__file__).parents[1] / "data" / "samples").glob("*/server.log"))
LATER = datetime(2030, 1, 1)


@pytest.fixture
def store(open_store: OpenStore) -> Iterator[Store]:
    with open_store() as opened:
        yield opened


def roll(store: Store, before: datetime = LATER) -> tuple[int, int]:
    """Roll everything up that is from before a moment: samples that went, rows that came."""
    done: list[tuple[int, int]] = []

    def work(con: duckdb.DuckDBPyConnection, batch: retention.Batch) -> bool:
        done.append(retention.roll_up(con, batch))
        return True

    with store.cursor() as con:
        found = list(retention.batches(con, before))
    for batch in found:
        store.transact(partial(work, batch=batch))
    return sum(gone for gone, _ in done), sum(come for _, come in done)


def figures(store: Store, run_id: str) -> dict[str, float]:
    """What must be the same of samples and of minutes."""
    with store.cursor() as con:
        run = run_data.load(con, run_id)
    prefills = run.counted.filter(kind="prefill")
    by_count = run.steady.group_by("running_reqs").agg(
        rate=pl.col("tokens").sum() / pl.col("interval_s").sum()
    )
    found = {
        "tokens": w.total(run.windows["tokens"]),
        "seconds": w.total(run.windows["interval_s"]),
        "prompt tokens": w.total(prefills["new_tokens"]),
        "cached tokens": w.total(prefills["cached_tokens"]),
        "sequences": w.total(prefills["new_seqs"]),
        "accept_len": w.accept_len(run.windows),
        "steps": w.total(run.windows["request_steps"]),
        "at 1": w.decode_tok_s_at_1(run.windows).value,
        "steady": w.rate(run.steady),
        "highest KV": run.counted["kv_usage"].max(),
        **{f"at {n}": rate for n, rate in by_count.sort("running_reqs").iter_rows()},
    }
    return {name: value for name, value in found.items() if value is not None}


def test_logs_of_real_servers_give_the_same_figures(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH_LINES", 100)  # some runs are cut, others share a batch
    import_logs(store, list(map(str, LOGS)))
    with store.cursor() as con:
        run_ids = [run_id for (run_id,) in con.execute("SELECT run_id FROM runs").fetchall()]
        table = queries.runs_table(con).to_dicts()
        before = {run_id: figures(store, run_id) for run_id in run_ids}
        gone, come = roll(store)
        assert 3 * come < gone == 434
        assert roll(store) == (0, 0)  # what is rolled up is not rolled up again
        for run_id in run_ids:
            assert figures(store, run_id) == pytest.approx(before[run_id], rel=1e-9)
        assert queries.runs_table(con).to_dicts() == table


def busy(seconds: int, seed: int = 7) -> list[dict[str, Any]]:
    """Decode lines of two ranks, a second each, in every kind of window."""
    draw = random.Random(seed)
    rows = []
    for second in range(1, seconds + 1):
        for rank in (0, 1):
            kind = draw.choice(("steady", "steady", "mixed"))
            rows.append(
                decode(
                    second, dp_rank=rank, window=kind, running_reqs=draw.randint(1, 4),
                    gen_tok_s=float(draw.randint(50, 400)), accept_len=1 + draw.random(),
                    request_steps=float(draw.randint(1, 90)), kv_usage=draw.random(),
                )
            )  # fmt: skip
    return rows


def test_curves_keep_their_tokens_and_their_extremes(store: Store) -> None:
    store.append(facts({"seq": 1, "run_id": "r1", "dp": 2, "end_state": "stopped"}), None)
    store.append(samples(busy(600)), None)
    with store.cursor() as con:
        place = con, "r1", at(0), at(600)
        before = run_curves.series(*place, points=10)
        assert run_curves.by_minute_until(con, "r1") is None
        roll(store)
        after = run_curves.series(*place, points=300)
        assert run_curves.by_minute_until(con, "r1") == at(600)
        card = queries.run_card(con, "r1")
        assert card is not None
        tiles = run_curves.live_tiles(run_curves.latest_samples(con, card), card)
    # No bucket is finer than what is kept.
    assert after["ts"].to_list() == before["ts"].to_list() == [at(60 * n) for n in range(10)]
    for name in ("gen_tok_s_min", "gen_tok_s_max", "kv_usage"):
        assert after[name][1:9].to_list() == pytest.approx(before[name][1:9].to_list())
    total = pytest.approx(before["gen_tok_s"].sum(), rel=1e-6)
    assert after["gen_tok_s"].sum() == total
    assert tiles is not None
    assert tiles.ranks_seen == 2


def test_what_is_younger_stays_and_the_last_minute_of_a_running_one(store: Store) -> None:
    store.append(facts({"seq": 1, "run_id": "r1", "end_state": "running"}), None)
    store.append(samples(decode(n) for n in range(1, 300)), None)
    assert roll(store, at(120)) == (60, 1)  # a minute that waits in case more comes of it
    # A window that is corrected late still finds its sample.
    late = {"run_id": "r1", "file_id": "f", "byte_offset": 299_000, "interval_s": 3.0}
    roll(store)
    store.append(Frames(intervals=records.frame([late], records.INTERVALS)), None)
    with store.cursor() as con:
        card = queries.run_card(con, "r1")
        raw = con.execute("SELECT count(*) FROM decode_rows").fetchone()
        seconds = con.execute("SELECT sum(interval_s) FROM samples_timed").fetchone()
    assert raw == (59,)
    assert seconds == (299 + 2,)
    assert card is not None
    assert card["gen_tokens"] == 100 * (299 + 2)


def test_windows_that_were_corrected_count_as_corrected(store: Store) -> None:
    late = {"run_id": "r1", "file_id": "f", "byte_offset": 3000, "interval_s": 2.5}
    store.append(facts({"seq": 1, "run_id": "r1", "end_state": "crashed"}), None)
    store.append(samples(decode(n) for n in range(1, 50)), None)
    store.append(Frames(intervals=records.frame([late], records.INTERVALS)), None)
    roll(store)
    with store.cursor() as con:
        assert con.execute("SELECT sum(interval_s) FROM samples").fetchone() == (48 + 2.5,)
        assert con.execute("SELECT count(*) FROM sample_intervals").fetchone() == (0,)


def test_samples_without_a_clock_stay(store: Store) -> None:
    store.append(facts({"seq": 1, "run_id": "r1", "end_state": "lost"}), None)
    store.append(samples([decode(1, ts=None), decode(2)]), None)
    assert roll(store) == (1, 1)


def test_events_stay_and_the_file_becomes_smaller(store: Store) -> None:
    store.append(facts({"seq": 1, "run_id": "r1", "end_state": "stopped"}), None)
    store.append(events({"run_id": "r1", "kind": "ready", "severity": "info"}), None)
    store.append(samples([decode(0)]), None)
    count = 300_000

    def fill(con: duckdb.DuckDBPyConnection) -> bool:
        con.execute(
            "INSERT INTO decode_rows BY NAME SELECT r.* REPLACE (1000 * n AS byte_offset, "
            "r.ts + to_seconds(n) AS ts, random() AS gen_tok_s, random() AS kv_usage, "
            f"random() AS request_steps) FROM decode_rows r, range(1, {count}) t(n)"
        )
        return True

    store.transact(fill)
    with store.cursor() as con:  # of a run so long two pieces, and no minute is in both
        assert len(list(retention.batches(con, LATER))) == 2
    done = Commands(store).compact(30)
    assert (done["lines"], done["rows"]) == (count, -(-(count - 1) // 60) + 1)
    assert done["bytes_after"] < 0.6 * done["bytes_before"]
    until = done["before"].isoformat(" ", "seconds")
    assert f"{count:,} samples from before {until} UTC are now" in space.compacted(done)
    by_text = {**done, "before": done["before"].isoformat()}  # as another process is told it
    assert space.compacted(by_text) == space.compacted(done)
    with store.cursor() as con:
        assert con.execute("SELECT count(*) FROM events").fetchone() == (1,)
    again = Commands(store).compact(30)
    assert again["lines"] == 0
    assert "no sample from before" in space.compacted(again)


def test_days_to_keep_are_days(store: Store) -> None:
    with pytest.raises(CommandError, match="--keep is 1 to 36,500 days, not 0"):
        Commands(store).compact(0)


def test_growth_is_told_over_what_is_known(store: Store) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    with store.cursor() as con:
        con.execute("DELETE FROM store_sizes")
        assert space.noted_s_ago(con) == float("inf")
        space.note_size(con, 1000)
        assert space.noted_s_ago(con) < 3600
        assert space.growth(con, 5000) == space.Growth(5000)  # of a moment nobody can tell
        for days, size in ((9, 100), (2, 3000)):
            moment = now - timedelta(days=days)
            con.execute(f"INSERT INTO store_sizes VALUES ('{moment}', {size})")
        grown = space.growth(con, 5000)
    assert (grown.since, grown.added) == (now - timedelta(days=2), 2000)
    before = now - timedelta(days=2)
    words = space.in_words(space.Growth(9_000_000, before, 4_000_000), now)
    assert words == "The store holds 9.0 MB; over the last 2 days it grew by 2.0 MB a day."
    words = space.in_words(space.Growth(9_000_000, before, -4_000_000), now)
    assert words == "The store holds 9.0 MB, 4.0 MB less than 2 days ago."
    assert "after an hour" in space.in_words(space.Growth(7), now)
