"""An append stores frames, partial sums and checkpoint together, or nothing of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from data import checkpoints, compact, queries
from data.checkpoints import Checkpoint
from data.errors import StoreError
from data.store import Store
from ingest.pipeline import Batch, Pipeline, SourceInfo
from parsers import records
from tests.frames import Frames, at, decode, events, facts, samples
from tests.logs import one, read, text
from tests.postgres import OpenStore
from tests.test_corpus import LOGS
from tests.test_wrappers import SGLANG, VLLM


def checkpoint(seq: int, byte_offset: int) -> Checkpoint:
    return Checkpoint("s", "f", "/log", seq, byte_offset, 1, "ab", 10, "cd", "{}")


def rows(store: Store, query: str) -> list[dict[str, Any]]:
    with store.cursor() as con:
        return con.sql(query).pl().to_dicts()


def test_frames_come_back_as_they_went_in(open_store: OpenStore) -> None:
    one_rank = {"dp_rank": 3, "ts_inferred": True, "line_no": 7}
    every_kind = [
        decode(1, extra='{"x": 1}', kv_usage=None, graph_on=False, kv_tokens=5, **one_rank),
        decode(2, window=None, interval_from=None, interval_s=None),
        decode(3, kind="prefill", gen_tok_s=None, new_seqs=2, new_tokens=50, cached_tokens=0),
        decode(4, kind="stats", engine="vllm", engine_index=1, preemptions=2, window="mixed"),
        decode(
            5, kind="spec", engine="vllm", gen_tok_s=None, running_reqs=None, queued_reqs=None,
            accept_per_position=[0.9, None], accepted_tokens=10, accept_def="accepted / drafted",
        ),
    ]  # fmt: skip
    frame = records.frame(every_kind, records.SAMPLES)
    with open_store() as store:
        store.append(Frames(samples=frame), None)
        with store.cursor() as con:
            stored = con.sql("SELECT * FROM samples ORDER BY ts").pl()
    assert_frame_equal(stored, frame.with_columns(pl.col(pl.Enum).cast(pl.String)))


def test_a_value_without_a_column_of_its_kind_is_refused(open_store: OpenStore) -> None:
    with open_store() as store:
        with pytest.raises(ValueError, match="decode have no column new_seqs"):
            store.append(samples([decode(1, new_seqs=1)]), None)
        assert rows(store, "SELECT * FROM samples") == []


def test_every_column_of_a_sample_has_a_table() -> None:
    stored = {name for columns in compact.COLUMNS.values() for name in columns}
    assert set(compact.GROUP) | stored == set(records.SAMPLES)
    assert not set(compact.GROUP) & stored


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_what_a_line_prints_has_a_column_in_the_table_of_its_kind(log: Path) -> None:
    printed = read(log.read_bytes()).samples
    stored, _ = compact.encode(compact.parted(printed))
    assert sum(frame.height for frame in stored.values()) == printed.height


def test_revision_moves_when_something_was_stored(open_store: OpenStore) -> None:
    with open_store() as store:
        store.append(Frames(), checkpoint(1, 10))
        before = store.revision
        assert store.revision == before
        store.append(samples([decode(1)]), checkpoint(2, 20))
        assert store.revision > before


def test_of_a_file_a_checkpoint_alone_is_nothing_new_to_a_reader(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.append(Frames(), checkpoint(1, 10))
        assert store.revision == 0


def test_latest_checkpoint_and_facts_have_the_highest_seq(open_store: OpenStore) -> None:
    with open_store() as store:
        for seq, offset in ((1, 10), (2, 25)):
            store.append(facts({"seq": seq, "run_id": "r1", "tp": seq}), checkpoint(seq, offset))
        latest = rows(store, "SELECT seq, byte_offset FROM checkpoints_latest")
        assert latest == [{"seq": 2, "byte_offset": 25}]
        assert rows(store, "SELECT run_id, tp FROM runs") == [{"run_id": "r1", "tp": 2}]


@pytest.mark.parametrize("few", [1, 4, 1000])
def test_of_a_source_the_file_read_last_is_known_and_of_a_path_its_own(
    open_store: OpenStore, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many checkpoints there are: many are summed up first."""
    monkeypatch.setattr(checkpoints, "FEW_TRACES", few)
    older = replace(checkpoint(9, 30), file_id="older", path="/log.1", at=at(0))
    empty = replace(checkpoint(5, 0), file_id="empty", fingerprint="", at=at(2))
    with open_store() as store, store.cursor() as con:
        nothing = checkpoints.known(con, path="/log", head=b"0123", most=4, source_id="s")
        assert (nothing.seq, nothing.under_path, nothing.alike, nothing.of_source) == (
            0, None, (), None,
        )  # fmt: skip
        for one in (older, *(replace(checkpoint(seq, 10 * seq), at=at(1)) for seq in (1, 2))):
            store.append(None, one)
        store.append(None, empty)
        known = checkpoints.known(con, path="/log.1", source_id="s")
    assert known.under_path is not None
    assert known.of_source is not None
    assert (known.seq, known.under_path.file_id) == (9, "older")
    assert (known.of_source.file_id, known.of_source.seq) == ("f", 2)
    assert known.read_at.replace(tzinfo=None) == at(2)


def test_failed_append_leaves_nothing_and_the_next_one_works(open_store: OpenStore) -> None:
    broken = Frames(
        samples=records.frame([decode(1)], records.SAMPLES),
        run_facts=pl.DataFrame({"no_such_column": [1]}),
    )
    with open_store() as store:
        before = store.revision
        with pytest.raises(StoreError, match=re.escape(store.name)):
            store.append(broken, checkpoint(1, 10))
        assert rows(store, "SELECT * FROM samples") == []
        assert rows(store, "SELECT * FROM checkpoints") == []
        assert store.revision == before
        store.append(samples([decode(1)]), checkpoint(1, 10))
        assert len(rows(store, "SELECT * FROM samples")) == 1


def summary(store: Store) -> dict[str, Any]:
    return rows(store, "SELECT * FROM run_summary")[0]


def test_summary_merges_appends_as_tokens_over_seconds(open_store: OpenStore) -> None:
    with open_store() as store:
        store.append(samples([decode(1, gen_tok_s=100.0, interval_s=1.0)]), None)
        store.append(samples([decode(4, gen_tok_s=50.0, interval_s=3.0)]), None)
        store.append(
            samples([decode(5, gen_tok_s=900.0, interval_s=1.0, window="after_idle")]), None
        )
        got = summary(store)
    assert got["gen_tokens"] == 100 + 150 + 900
    assert got["steady_tok_s"] == pytest.approx(250 / 4)
    assert got["decode_tok_s_at_1"] == pytest.approx(250 / 4)
    assert (got["n_decode"], got["first_ts"], got["last_ts"]) == (3, at(1), at(5))


def test_late_interval_adds_its_tokens_once(open_store: OpenStore) -> None:
    late = {"run_id": "r1", "file_id": "f", "byte_offset": 1000, "interval_s": 2.0}
    with open_store() as store:
        store.append(samples([decode(1, interval_s=None, interval_from=None)]), None)
        assert summary(store)["gen_tokens"] is None
        store.append(Frames(intervals=records.frame([late], records.INTERVALS)), None)
        assert summary(store)["gen_tokens"] == 200.0
        timed = rows(store, "SELECT interval_s, interval_from FROM samples_timed")
    assert timed == [{"interval_s": 2.0, "interval_from": "stamps"}]


def test_late_intervals_add_the_same_whether_their_samples_are_remembered(
    open_store: OpenStore,
) -> None:
    lines = [
        decode(1, interval_s=None, interval_from=None),
        decode(2, running_reqs=3, dp_rank=1),
        decode(3, window="mixed", interval_s=None, interval_from=None),
        decode(4, gen_tok_s=None, interval_s=None, interval_from=None),
        decode(5, kind="prefill", gen_tok_s=None, new_tokens=70),
        decode(6, kind="stats", engine="vllm", prompt_tok_s=5.0, interval_s=10.0),
        decode(
            7,
            kind="metrics",
            byte_offset=6000,
            prefix_hit_rate=0.5,
            gen_tok_s=None,
            running_reqs=None,
            queued_reqs=None,
        ),
        decode(8, file_id="g", run_id="r2", interval_s=None, interval_from=None),
    ]
    places = [("r1", "f", 1000 * n) for n in range(1, 7)] + [("r2", "g", 8000)]
    late = [
        {"run_id": run, "file_id": file, "byte_offset": at, "interval_s": 0.5 + at / 1000}
        for run, file, at in places
    ]
    corrections = Frames(intervals=records.frame(late, records.INTERVALS))
    found = []
    for name, again in (("remembered", False), ("looked up", True)):
        store = open_store(name)
        store.append(samples(lines), None)
        if again:
            store.close()
            store = open_store(name)
        assert (store._recent.sums(corrections.intervals) is None) == again
        store.append(corrections, None)
        found.append(rows(store, "SELECT * FROM run_summary ORDER BY run_id"))
        store.close()
    assert found[0] == found[1]
    assert found[0][0]["gen_tokens"] == 100 * (1.5 + 2.5 + 3.5 + 6.5)


def test_summary_counts_data_parallel_ranks_and_only_the_lowest_of_the_others(
    open_store: OpenStore,
) -> None:
    rows_in = [
        decode(1, dp_rank=dp, tp_rank=tp, pp_rank=pp)
        for dp in (0, 1)
        for tp in (4, 5)
        for pp in (0, 1)
    ]
    with open_store() as store:
        store.append(samples(rows_in), None)
        fault = {"run_id": "r1", "kind": "fault", "severity": "fault", "byte_offset": 16}
        store.append(events({**fault, "incident_id": "r1-10"}), None)
        got = summary(store)
    assert (got["n_decode"], got["gen_tokens"], got["n_faults"]) == (2, 200.0, 1)


def test_acceptance_is_weighted_and_prompt_tokens_follow_the_engine(open_store: OpenStore) -> None:
    with open_store() as store:
        store.append(
            samples(
                [
                    decode(1, accept_len=2.0, request_steps=30.0),
                    decode(2, accept_len=1.0, request_steps=10.0),
                    decode(3, kind="prefill", gen_tok_s=None, new_tokens=70),
                    decode(4, kind="stats", engine="vllm", prompt_tok_s=5.0, interval_s=10.0),
                ]
            ),
            None,
        )
        got = summary(store)
    assert got["accept_len"] == pytest.approx(1.75)
    assert got["prompt_tokens"] == pytest.approx(70 + 50)


def test_retractions_are_counted(open_store: OpenStore) -> None:
    with open_store() as store:
        store.append(
            events(
                {"run_id": "r1", "kind": "retraction", "severity": "warning", "count": 3},
                {"run_id": "r1", "kind": "ready", "severity": "info"},
            ),
            None,
        )
        got = summary(store)
    assert (got["n_retractions"], got["n_faults"]) == (3, 0)


def whole(name: str, data: bytes) -> Batch:
    """A log as a source of its own."""
    pipeline = Pipeline(SourceInfo(name, salt="s"), name)
    return one([pipeline.feed(data), pipeline.finish()])


def test_logs_in_one_commit_are_as_in_commits_of_their_own(open_store: OpenStore) -> None:
    """Servers that die together: many sources share a commit, each with faults of its own."""
    dying = {f"{n}{log[0][:4]}": text(log + n * log[-4:]) for log in (SGLANG, VLLM) for n in (0, 3)}
    logs = {str(log): log.read_bytes() for log in LOGS} | dying
    batches = [whole(name, data) for name, data in logs.items()]
    told = []
    with open_store("together") as together, open_store("apart") as apart:
        together.append_all(batches, [])
        for batch in batches:
            apart.append(batch, None)
        for store in (together, apart):
            with store.cursor() as con:
                told.append(queries.runs_table(con))
    assert told[0].filter(pl.col("n_faults") > 0)["source_id"].n_unique() == len(dying)
    assert_frame_equal(*told)


def test_odd_names_are_stored_as_they_are(open_store: OpenStore) -> None:
    path = '/logs/it\'s; DROP TABLE samples; --\n"ü"\\n$1?.log'
    begin = b"0123456789"
    head = hashlib.sha256(begin).hexdigest()
    odd = Checkpoint(
        path, "f", path, 1, 10, 1, head, 10, "cd", '{"a": "\'"}', False, (("h", path),)
    )
    with open_store() as store, store.cursor() as con:
        for _ in range(2):
            store.add_source(path, "file", path, None, "Europe/Berlin")
        store.append(None, odd)
        assert rows(store, "SELECT source_id, label, zone FROM sources") == [
            {"source_id": path, "label": None, "zone": "Europe/Berlin"}
        ]
        known = checkpoints.known(con, path=path, source_id=path)
        found = replace(odd, new_texts=())
        assert (known.seq, known.under_path, known.of_source) == (1, found, found)
        for begins, most in ((begin, 10), (begin, 1024), (begin + b" and more", 1024)):
            assert checkpoints.known(con, head=begins, most=most).alike == (found,)
        for others in (begin[:9], b"another", b""):
            assert checkpoints.known(con, head=others, most=1024, path="").alike == ()
        assert checkpoints.texts(con) == {"h": path}


def test_appends_of_one_transaction_can_have_values_in_different_columns(
    open_store: OpenStore,
) -> None:
    with open_store("bulk", bulk=True) as store:
        store.append_all([samples([decode(1)])], [], more=True)
        store.append_all([samples([decode(2, accept_len=1.5)])], [])
        with store.cursor() as con:
            got = con.sql("SELECT accept_len FROM samples ORDER BY ts").fetchall()
    assert got == [(None,), (1.5,)]


@pytest.mark.parametrize("same_rank", [True, False])
def test_a_group_has_the_same_number_however_many_samples_come_together(same_rank: bool) -> None:
    """A few samples are looked at one by one, many by columns; a live log gives few at a time and
    an import many."""
    rows = [
        decode(
            seconds,
            dp_rank=None if same_rank else seconds % 3,
            window=records.CHOICES["window"][seconds % 4],
            interval_from=(None, *records.CHOICES["interval_from"])[seconds % 4],
            graph_on=(None, True, False)[seconds % 3],
            ts_inferred=seconds % 2 == 0,
        )
        for seconds in range(24)
    ]
    few = samples(rows).samples
    many = pl.concat([few] * 100)
    alone, at_once = compact.encode([few])[1], compact.encode([many])[1]
    assert alone.height > 10
    assert_frame_equal(alone, at_once, check_row_order=False)
