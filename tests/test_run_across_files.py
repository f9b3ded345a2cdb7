"""One run in several files: what is stored is what one file with the same lines would give."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from data.errors import SourceError
from data.store import Store
from ingest.claims import Claims
from ingest.follower import Follower
from ingest.importer import import_logs
from ingest.ledger import Append
from ingest.pipeline import STATE_VERSION, Batch, Pipeline, SourceInfo
from ingest.sources import names
from ingest.sources.places import place_of
from ingest.status import StatusBoard
from ingest.succession import Before
from ingest.writer import Writer
from tests.logs import SOURCE, decode, one, prefill, read, sglang_boot, text
from tests.test_any_split import LINES, SAMPLES, _assert_same

# A line of a start that begins a file begins a run; within a file it may go on with one.
SERVING = LINES.filter(lambda line: "server_args" not in line and "launch_server" not in line)
TRACE = [
    "[2026-05-04 10:00:50] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/sglang/srt/managers/scheduler.py", line 1, in run',
    "RuntimeError: CUDA error: an illegal memory access was encountered",
]


def in_files(data: bytes, cuts: Sequence[int]) -> Batch:
    """The lines as files of one log, cut after the given line numbers, with the places that they
    have in all of it."""
    whole = [line + b"\n" for line in data.split(b"\n")[:-1]]
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(whole)}), len(whole)]
    starts: dict[str, tuple[int, int]] = {}
    batches, before, at = [], None, 0
    for number, (start, end) in enumerate(pairwise(edges)):
        name = f"file{number}" if number else "file"
        starts[name] = at, start
        pipeline = Pipeline.succeed(SOURCE, name, before) if before else Pipeline(SOURCE, name)
        piece = b"".join(whole[start:end])
        batches.append(pipeline.feed(piece))
        before, at = Before(name, pipeline.state), at + len(piece)
    batches.append(pipeline.finish())
    return _in_one(one(batches), starts)


def _in_one(batch: Batch, starts: dict[str, tuple[int, int]]) -> Batch:
    def placed(frame: pl.DataFrame) -> pl.DataFrame:
        if "byte_offset" not in frame.columns:
            return frame
        shifts = pl.DataFrame(
            [(name, *shift) for name, shift in starts.items()],
            schema=["file_id", "shift", "lines"], orient="row",
        )  # fmt: skip
        moved = frame.join(shifts, on="file_id", how="left", maintain_order="left")
        columns = {
            "file_id": pl.lit("file"),
            "byte_offset": pl.col("byte_offset") + pl.col("shift"),
        }
        if "line_no" in frame.columns:
            columns["line_no"] = (pl.col("line_no") + pl.col("lines")).cast(frame.schema["line_no"])
        return moved.with_columns(**columns).select(frame.columns)

    return Batch(*(placed(getattr(batch, name)) for name in Batch.__dataclass_fields__))


def _named_alike(batch: Batch) -> Batch:
    """Runs and incidents by their number: their ids hold the file in which they began."""
    frames = {name: getattr(batch, name) for name in Batch.__dataclass_fields__}
    for column in ("run_id", "incident_id"):
        seen = pl.concat(
            [
                frame.select(column, "byte_offset").drop_nulls()
                for frame in frames.values()
                if column in frame.columns and "byte_offset" in frame.columns
            ]
        )
        ids = seen.sort("byte_offset", maintain_order=True)[column].unique(maintain_order=True)
        numbers = {name: str(number) for number, name in enumerate(ids)}
        for name, frame in frames.items():
            if column in frame.columns:
                known = pl.col(column).replace_strict(
                    numbers, default="none", return_dtype=pl.String
                )
                known = pl.when(pl.col(column).is_not_null()).then(known)
                frames[name] = frame.with_columns(known.alias(column))
    return Batch(**frames)


@settings(max_examples=12)
@given(
    st.booleans(),
    st.lists(SERVING, min_size=2, max_size=20),
    st.lists(st.integers(1, 22), max_size=4),
)
def test_cut_into_files_the_records_are_those_of_blocks(
    boots: bool, lines: list[str], cuts: list[int]
) -> None:
    first = sglang_boot("10:00:00") if boots else []
    data = text([*first, *lines])
    after = [cut + len(first) for cut in cuts]
    _assert_same(_named_alike(read(data, after)), _named_alike(in_files(data, after)))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_a_real_log_cut_while_it_served(path: Path) -> None:
    data = path.read_bytes()
    size = data.count(b"\n")
    cuts = [size * share // 100 for share in (70, 71, 85, 97)]
    _assert_same(_named_alike(read(data, cuts)), _named_alike(in_files(data, cuts)))


def test_a_traceback_over_the_edge_of_two_files() -> None:
    data = text([*sglang_boot("10:00:00"), decode("10:00:01"), *TRACE, decode("10:00:51", 0, 0)])
    for cut in (5, 6):
        batch = in_files(data, [cut])
        fault = batch.events.filter(pl.col("severity") == "fault").to_dicts()[0]
        assert fault["detail"].startswith("RuntimeError: CUDA error")
        assert (fault["line_no"], fault["byte_offset"]) == (5, data.index(b"[2026-05-04 10:00:50]"))
        assert fault["incident_id"].endswith(f"-{fault['byte_offset']:x}")


def test_a_boot_that_begins_a_file_is_another_run() -> None:
    boot = sglang_boot("10:00:00")
    half = text(boot[:1])  # it was killed while it loaded
    again = text([*sglang_boot("10:05:00"), decode("10:05:01")])
    pipeline = Pipeline(SOURCE, "a")
    pipeline.feed(half)
    later = Pipeline.succeed(SOURCE, "b", Before("a", pipeline.state)).feed(again)
    assert later.run_facts["run_id"].n_unique() == 2
    states = later.run_facts.group_by("run_id", maintain_order=True).last()["end_state"]
    assert states.to_list() == ["lost", "running"]


def test_a_state_of_a_newer_release_is_refused() -> None:
    pipeline = Pipeline(SOURCE, "a")
    newer = pipeline.state.replace(f'"version": {STATE_VERSION}', f'"version": {STATE_VERSION + 1}')
    with pytest.raises(SourceError, match="newer Servescope"):
        Pipeline.resume(SOURCE, "a", newer)


# From here on through the store, with rotation on a real disk.
PARTS = [
    text([*sglang_boot("10:00:00"), prefill("10:00:01"), *[decode("10:00:02")] * 3]),
    text([*[decode("10:00:02", 2, 90)] * 2, decode("10:00:09", 2, 80), *TRACE[:2]]),
    text([TRACE[2], decode("10:00:52", 1, 99), decode("10:00:53", 1, 98)]),
    text([decode("10:00:53", 1, 97), prefill("10:00:54", 2, 1), decode("10:00:55", 3, 50)]),
    text([decode("10:00:55", 3, 51), decode("10:00:56", 3, 52), decode("10:00:57", 3, 53)]),
]


class World:
    """A log that is rotated, and its follower, stepped by hand."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "logs" / "server.log"
        self.log.parent.mkdir(parents=True)
        self.log.write_bytes(PARTS[0])
        self.store = Store.open(folder / "s.duckdb")
        self.writer = Writer(self.store, retry=True)
        self.begin()

    def begin(self) -> None:
        """Start to follow."""
        place = place_of(str(self.log))
        source = SourceInfo(place.source_id, salt=self.store.salt)
        board = StatusBoard(place.source_id, None)
        self.follower = Follower(source, place, self.store, self.writer, board, Claims())
        self.poll()

    def poll(self) -> None:
        """Look until there is nothing more."""
        for _ in range(3):
            self.follower.poll()
        self.writer.flush()

    def end(self) -> None:
        """Stop to follow."""
        self.follower._let_go()
        self.writer.flush()

    def turned(self) -> Path:
        """The place of the next rotated file, all others moved on."""
        for number in range(8, 0, -1):
            for end in ("", ".gz", ".zst"):
                old = self.log.with_name(f"server.log.{number}{end}")
                if old.exists():
                    old.rename(self.log.with_name(f"server.log.{number + 1}{end}"))
        return self.log.with_name("server.log.1")

    def rename(self, data: bytes) -> None:
        """logrotate with `create`."""
        self.log.rename(self.turned())
        self.log.write_bytes(data)

    def copytruncate(self, data: bytes) -> None:
        """logrotate with `copytruncate`."""
        self.turned().write_bytes(self.log.read_bytes())
        os.truncate(self.log, 0)
        with self.log.open("ab") as file:
            file.write(data)

    def gz(self, data: bytes) -> None:
        """Rotated and packed at once."""
        self.turned().with_suffix(".1.gz").write_bytes(gzip.compress(self.log.read_bytes()))
        self.log.unlink()
        self.log.write_bytes(data)

    def zst(self, data: bytes) -> None:
        """The same with zstd."""
        packed = zstandard.compress(self.log.read_bytes())
        self.turned().with_suffix(".1.zst").write_bytes(packed)
        self.log.unlink()
        self.log.write_bytes(data)

    def recreate(self, data: bytes) -> None:
        """Deleted, and made anew."""
        fresh = self.log.with_name("fresh")
        fresh.write_bytes(data)
        self.log.unlink()
        fresh.rename(self.log)

    def close(self) -> None:
        """The end."""
        self.follower._let_go()
        self.writer.stop()
        self.store.close()


@contextmanager
def world(folder: Path) -> Iterator[World]:
    made = World(folder)
    try:
        yield made
    finally:
        made.close()


def stored(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """What there is, without the names of files and places in them."""
    queries = {
        "samples": "SELECT ts, kind, running_reqs, gen_tok_s, round(interval_s, 9), interval_from, "
        '"window" FROM samples_timed ORDER BY ALL',
        "summary": "SELECT n_decode, n_prefill, first_ts, last_ts, round(gen_tokens, 6), "
        "round(steady_s, 6), max_running, n_faults FROM run_summary ORDER BY ALL",
        "runs": "SELECT engine, model, started_at, ready_at, max_running_requests, args "
        "FROM runs ORDER BY ALL",
        "incidents": 'SELECT class, severity, title, frame, first_ts, last_ts, "count" '
        "FROM incidents ORDER BY ALL",
    }
    with store.cursor() as con:
        return {name: con.execute(query).fetchall() for name, query in queries.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[object, ...]]]:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "server.log").write_bytes(b"".join(PARTS))
    with Store.open(folder / "s.duckdb") as store:
        import_logs(store, [str(folder / "server.log")])
        found = stored(store)
    assert len(found["runs"]) == len(found["incidents"]) == 1
    return found


@pytest.mark.parametrize("kind", ["rename", "copytruncate", "gz", "zst", "recreate"])
@pytest.mark.parametrize("live", [True, False], ids=["live", "down"])
def test_a_run_goes_on_through_rotation(
    tmp_path: Path, expected: dict[str, list[tuple[object, ...]]], kind: str, live: bool
) -> None:
    with world(tmp_path) as log:
        for part in PARTS[1:]:
            if not live:
                log.end()
            turn: Callable[[bytes], None] = getattr(log, kind)
            turn(part)
            log.poll() if live else log.begin()
        assert stored(log.store) == expected


@pytest.mark.parametrize("kind", ["rename", "copytruncate", "gz", "zst"])
def test_several_turns_while_nobody_looked(
    tmp_path: Path, expected: dict[str, list[tuple[object, ...]]], kind: str
) -> None:
    with world(tmp_path) as log:
        log.end()
        for part in PARTS[1:]:
            getattr(log, kind)(part)
        log.begin()
        assert stored(log.store) == expected


class OldOnly:
    """Stores the ends of files and nothing else: as if we were killed right after."""

    def __init__(self, writer: Writer) -> None:
        self._put = writer.put

    def __call__(self, append: Append, done: Callable[[], object]) -> None:
        if append.checkpoint.finished:
            self._put(append, done)


def test_we_end_between_any_two_files(
    tmp_path: Path,
    expected: dict[str, list[tuple[object, ...]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old file's last checkpoint is stored, the new one's first is not."""
    with world(tmp_path) as log:
        for part in PARTS[1:]:
            log.rename(part)
            with monkeypatch.context() as patch:
                patch.setattr(log.writer, "put", OldOnly(log.writer))
                log.poll()
                log.end()
            log.begin()
        assert stored(log.store) == expected


@pytest.mark.parametrize("seed", range(3))
def test_an_import_in_any_order(
    tmp_path: Path, expected: dict[str, list[tuple[object, ...]]], seed: int
) -> None:
    paths = []
    for number, part in zip((4, 3, 2, 1, 0), PARTS, strict=True):
        path = tmp_path / (f"server.log.{number}" if number else "server.log")
        path.write_bytes(part)
        if number in (3, 4):
            packed = path.with_name(path.name + (".gz" if number == 4 else ".zst"))
            pack = gzip.compress if number == 4 else zstandard.compress
            packed.write_bytes(pack(path.read_bytes()))
            path.unlink()
            path = packed
        os.utime(path, (1.78e9 + number, 1.78e9 + number))  # copied, the youngest first
        paths.append(str(path))
    random.Random(seed).shuffle(paths)
    with Store.open(tmp_path / "s.duckdb") as store:
        import_logs(store, paths[:-1] if seed == 0 else paths)
        report = import_logs(store, paths if seed == 0 else [str(tmp_path)])
        if seed:
            assert report.samples == 0
            assert stored(store) == expected


def test_files_that_came_to_a_set_later(
    tmp_path: Path, expected: dict[str, list[tuple[object, ...]]]
) -> None:
    log = tmp_path / "logs" / "server.log"
    log.parent.mkdir()
    with Store.open(tmp_path / "s.duckdb") as store:
        for done, part in enumerate(PARTS):
            for number in range(done, 0, -1):
                old = log.with_name(f"server.log.{number - 1}") if number > 1 else log
                old.rename(log.with_name(f"server.log.{number}"))
            log.write_bytes(part)
            os.utime(log, (1.78e9 + done, 1.78e9 + done))
            import_logs(store, [str(log.parent)])
        found = stored(store)
    # A traceback whose end comes in a later import was told with the first.
    for name in ("runs", "summary"):
        assert [row[:4] for row in found[name]] == [row[:4] for row in expected[name]]
    assert len(found["samples"]) == len(expected["samples"])


def test_logs_of_two_servers_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(PARTS[0])
    (tmp_path / "b.log").write_bytes(PARTS[3])
    (tmp_path / "c.log.3").write_bytes(PARTS[0].replace(b"org", b"other"))
    (tmp_path / "c.log.1").write_bytes(PARTS[4])  # what was between is gone
    with Store.open(tmp_path / "s.duckdb") as store:
        import_logs(store, [str(tmp_path)])
        with store.cursor() as con:
            assert con.execute("SELECT count(*) FROM runs").fetchone() == (4,)


def test_names_of_one_log() -> None:
    one_log = [
        ("s.log.2.gz", "s.log.1"), ("s.log.1", "s.log"), ("s.1.log", "s.log"), ("s.log", "s.log"),
        ("s.log-20260301.zst", "s.log-20260303"), ("s-20260301.log", "s.log"), ("s.log.0", "s.log"),
    ]  # fmt: skip
    others = [
        ("s.log.3", "s.log.1"),
        ("s.log.2", "s.log"),
        ("s.log", "t.log"),
        ("a/s.log", "s.log"),
    ]
    assert [pair for pair in one_log if not names.follows(*pair)] == []
    assert [pair for pair in others if names.follows(*pair)] == []
    found = ["s.log", "t.log", "s.log.2", "s.log.10.gz", "s.log.1"]
    assert names.in_turn(found) == ["s.log.10.gz", "s.log.2", "s.log.1", "s.log", "t.log"]
