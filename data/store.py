"""The store: one DuckDB file, owned by one process, only ever appended to.

Every user of it takes a cursor of its own. Records, partial sums and the checkpoint of their
source are committed together, so a crash at any moment loses and repeats nothing.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import duckdb
import polars as pl

from data import compact, space, summary
from data.checkpoints import COLUMNS, Checkpoint, latest_seq
from data.errors import ConflictError, StoreError
from data.fold import EVERY_APPENDS, due, fold
from data.literal import literal
from data.lock import StoreLock
from data.migrate import migrate
from data.place import drop_empty, refuse_other_files

CHECKPOINT_BYTES = 1 << 20
CHECKPOINT_WAIT_S = 60.0
# The store needs no extension; DuckDB would fetch one over the network by itself.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
# For a process that only imports: the other threads are parsing, and what is written is not read.
_BULK: dict[str, str | int] = {"threads": 1, "memory_limit": "96MB"}


class BatchLike(Protocol):
    """What an append stores: the frames of parsers.records."""

    @property
    def samples(self) -> pl.DataFrame: ...
    @property
    def intervals(self) -> pl.DataFrame: ...
    @property
    def events(self) -> pl.DataFrame: ...
    @property
    def run_facts(self) -> pl.DataFrame: ...
    @property
    def requests(self) -> pl.DataFrame: ...
    @property
    def access_counts(self) -> pl.DataFrame: ...
    @property
    def ingest_log(self) -> pl.DataFrame: ...


# Table of each frame but the samples, which compact.py spreads over several.
_TABLES = {
    "intervals": "sample_intervals",
    "events": "events",
    "run_facts": "run_facts",
    "requests": "requests",
    "access_counts": "access_counts",
    "ingest_log": "ingest_log",
}
_WORTH_ROWS = 2000
_FEW_ROWS = 50
_LATE = "sample_intervals"  # partial sums of other tables follow its rows


class Store:
    """An open store. Safe to use from several threads: appends take turns."""

    def __init__(
        self, path: Path, con: duckdb.DuckDBPyConnection, lock: StoreLock, bulk: bool
    ) -> None:
        self.path = path
        self.revision = 0  # grows with every append that stored something
        self._con = con
        self._file_lock = lock
        self.bulk = bulk
        self._writer = con.cursor()
        self._turn = threading.Lock()
        self._open = False  # a transaction that goes on
        self.salt = _salt(self._writer)  # of the hashes that stand for redacted secrets
        rows = self._writer.execute("SELECT DISTINCT group_id FROM sample_groups").fetchall()
        self._groups = {group for (group,) in rows}  # stored already
        self._waiting: dict[str, list[pl.DataFrame]] = {}  # of the open transaction, by table
        self._latest: dict[str, int] = {}  # seq of the latest checkpoint of files appended to
        self._appends = EVERY_APPENDS if due(self._writer) else 0  # since the last folding
        noted = space.noted_s_ago(self._writer)
        self._note_size_at = time.monotonic() + space.NOTED_EVERY_S - noted

    @classmethod
    def open(cls, path: Path | str, *, bulk: bool = False) -> Store:
        """Open, create or upgrade the store at `path`; StoreError says why it cannot be.

        `bulk`: for a process that only imports. DuckDB keeps to one thread and little memory, and
        its search for pandas is cut short.
        """
        place = Path(path).expanduser().absolute()
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{place.parent}: cannot be created ({error.strerror})") from error
        refuse_other_files(place)
        lock = StoreLock(place)
        try:
            drop_empty(place)
            return cls(place, _connect(place, bulk), lock, bulk)
        except BaseException:
            lock.release()
            raise

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor for one user; close it after use."""
        return self._con.cursor()

    def announce(self, url: str) -> None:
        """Say under which address this process serves the store."""
        self._file_lock.announce(url)

    def append(self, batch: BatchLike | None, checkpoint: Checkpoint | None) -> None:
        """Store all frames, their partial sums and the checkpoint in one transaction."""
        self.append_all([batch] if batch is not None else [], [checkpoint] if checkpoint else [])

    def append_all(
        self,
        batches: Sequence[BatchLike],
        checkpoints: Sequence[Checkpoint],
        *,
        more: bool = False,
    ) -> None:
        """Store several batches and checkpoints in one transaction.

        `more`: it stays open for the next call (bulk only); if that one fails, all is undone.
        ConflictError for a checkpoint that does not go on from the latest one of its file: then
        another reader has stored these bytes already.
        """
        with self._turn:
            try:
                if not self._open:
                    if self._appends >= EVERY_APPENDS:
                        self._in_transaction(fold)
                        self._appends = 0
                    self._note_size()
                    self._writer.execute("BEGIN TRANSACTION")
                    self._open = True
                latest = self._in_order(checkpoints)
                with _without_pandas() if self.bulk else contextlib.nullcontext():
                    rows = self._encode(batches) if batches else 0
                    self._insert_waiting(more=more)
                self._insert_checkpoints(checkpoints)
                if not more:
                    self._writer.execute("COMMIT")
                    self._open = False
            except BaseException as error:
                self._undo()
                if isinstance(error, duckdb.Error):
                    raise StoreError(explain(self.path, error)) from error
                raise
            self._latest |= latest
            self._appends += 1
            if rows:
                self.revision += 1

    def _undo(self) -> None:
        self._open = False
        self._waiting.clear()
        self._latest.clear()
        with contextlib.suppress(duckdb.Error):  # DuckDB has undone it already
            self._writer.execute("ROLLBACK")
        self._groups.clear()  # which of them are stored is not certain, and twice does no harm

    def transact(self, work: Callable[[duckdb.DuckDBPyConnection], bool]) -> None:
        """Run `work` in one transaction; it says whether it stored anything."""
        with self._turn:
            try:
                stored = self._in_transaction(work)
            except duckdb.Error as error:
                raise StoreError(explain(self.path, error)) from error
            if stored:
                self.revision += 1

    def _in_transaction(self, work: Callable[[duckdb.DuckDBPyConnection], bool]) -> bool:
        try:
            self._writer.execute("BEGIN TRANSACTION")
            stored = work(self._writer)
            self._writer.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(duckdb.Error):
                self._writer.execute("ROLLBACK")
            raise
        return stored

    def _note_size(self) -> None:
        """Keep about once a day how large the store is."""
        if time.monotonic() >= self._note_size_at:
            self._note_size_at = time.monotonic() + space.NOTED_EVERY_S
            self._in_transaction(partial(space.note_size, size=self.size_bytes()))

    def size_bytes(self) -> int:
        """What the store takes on its disk."""
        log = self.path.with_name(self.path.name + ".wal")
        return sum(file.stat().st_size for file in (self.path, log) if file.exists())

    def shrink(self) -> None:
        """Give free space back: DuckDB frees a file's end only, so tables move to its beginning."""
        with self._turn:
            try:
                self._checkpoint()
                if space.worth_moving(self._writer):
                    for table in space.tables(self._writer):
                        self._in_transaction(partial(space.move_to_front, table=table))
                    self._checkpoint()
            except duckdb.Error as error:
                raise StoreError(explain(self.path, error)) from error

    def _checkpoint(self) -> None:
        """Write the log into the file; while somebody reads old rows it has to wait for them."""
        deadline = time.monotonic() + CHECKPOINT_WAIT_S
        while True:
            try:
                self._writer.execute("CHECKPOINT")
                return
            except duckdb.TransactionException:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.05)

    def add_source(
        self, source_id: str, kind: str, location: str, label: str | None, zone: str | None
    ) -> None:
        """Write down a source, unless its latest row says the same."""
        with self._turn:
            try:
                latest = self._writer.execute(
                    "SELECT kind, location, label, zone FROM sources "
                    f'WHERE source_id = {literal(source_id)} ORDER BY "at" DESC LIMIT 1'
                ).fetchone()
                if latest != (kind, location, label, zone):
                    values = ", ".join(map(literal, (source_id, kind, location, label, zone)))
                    self._writer.execute(f"INSERT INTO sources VALUES ({values}, '{_now()}')")
            except duckdb.Error as error:
                raise StoreError(explain(self.path, error)) from error

    def close(self) -> None:
        """Close the file and give it up to the next process."""
        with self._turn:
            self._writer.close()
            # What lies in the write-ahead log would be read again at every opening. After an
            # import there is next to nothing: large blocks of rows went straight to the file.
            wal = self.path.with_name(self.path.name + ".wal")
            if wal.exists() and wal.stat().st_size > CHECKPOINT_BYTES:
                with contextlib.suppress(duckdb.Error):  # a full disk: the log itself stays
                    self._con.execute("CHECKPOINT")
            self._con.close()
            self._file_lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _in_order(self, checkpoints: Sequence[Checkpoint]) -> dict[str, int]:
        """The latest seq of each file after these checkpoints."""
        latest: dict[str, int] = {}
        for new in checkpoints:
            if new.file_id not in latest:
                known = self._latest.get(new.file_id)
                latest[new.file_id] = (
                    latest_seq(self._writer, new.file_id) if known is None else known
                )
            before = latest[new.file_id]
            if new.seq <= before or new.after not in (None, before):
                raise ConflictError(
                    f"{new.path}: another reader has stored more of it meanwhile; try again",
                    new.file_id,
                )
            latest[new.file_id] = new.seq
        return latest

    def _encode(self, batches: Sequence[BatchLike]) -> int:
        """Have all rows and their partial sums inserted; gives the number of rows of the logs."""
        frames = {
            table: _together([getattr(batch, attribute) for batch in batches])
            for attribute, table in _TABLES.items()
        }
        parts = compact.parted(_together([batch.samples for batch in batches]))
        samples, new = compact.encode(parts, self._groups)
        self._groups |= set(new["group_id"])
        sums = [summary.of_samples(parts), summary.of_events(frames["events"])]
        computed = {"sample_groups": new, "run_summary_parts": pl.concat(sums, how="diagonal")}
        for table, frame in {**computed, **samples, **frames}.items():
            if frame.height:
                self._waiting.setdefault(table, []).append(frame)
        return sum(frame.height for frame in (*samples.values(), *frames.values()))

    def _insert_waiting(self, *, more: bool) -> None:
        """Insert what waits; while more rows come, only what is worth a statement of its own."""
        for table in sorted(self._waiting, key=_LATE.__eq__):  # its sums read the others
            frames = self._waiting[table]
            if not more or sum(frame.height for frame in frames) >= _WORTH_ROWS:
                self._insert_frame(table, pl.concat(frames, how="diagonal"))
                del self._waiting[table]

    def _insert_frame(self, table: str, frame: pl.DataFrame) -> None:
        if frame.height <= _FEW_ROWS and not self.bulk:
            self._insert_few(table, frame)
            return
        # Registered, since variables of Python are out of reach once external access is off.
        name = f"new_{table}"
        stream = _Stream(frame)
        self._writer.register(name, stream)
        try:
            self._writer.execute(f"INSERT INTO {table} BY NAME SELECT * FROM {name}")
            if table == _LATE:
                self._writer.execute(summary.LATE_INTERVALS.format(late=f"* FROM {name}"))
        finally:
            self._writer.unregister(name)
            stream.frame = None  # DuckDB keeps the stream until the transaction ends

    def _insert_few(self, table: str, frame: pl.DataFrame) -> None:
        """The same for a few rows, in a third of the time: a list a column."""
        names = ", ".join(f'"{name}"' for name in frame.columns)
        values = ", ".join(f'unnest(?) AS "{name}"' for name in frame.columns)
        lists = [column.to_list() for column in frame.iter_columns()]
        self._writer.execute(f"INSERT INTO {table} ({names}) SELECT {values}", lists)
        if table == _LATE:
            self._writer.execute(summary.LATE_INTERVALS.format(late=values), lists)

    def _insert_checkpoints(self, checkpoints: Sequence[Checkpoint]) -> None:
        now = _now()
        rows = [
            f"({', '.join(literal(getattr(new, name)) for name in COLUMNS)}, '{new.at or now}')"
            for new in checkpoints
        ]
        texts = [
            f"({literal(n)}, {literal(text)})" for new in checkpoints for n, text in new.new_texts
        ]
        if rows:
            self._writer.execute(
                f'INSERT INTO checkpoints ({", ".join(COLUMNS)}, "at") VALUES {", ".join(rows)}'
            )
        if texts:
            self._writer.execute(f"INSERT INTO checkpoint_texts VALUES {', '.join(texts)}")


def _together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One frame of all rows; most frames of live lines have none."""
    full = [frame for frame in frames if frame.height]
    return pl.concat(full) if full else frames[0]


class _Stream:
    """A frame as a stream of Arrow arrays and nothing else: DuckDB takes it several times faster
    than a polars frame, and without importing pyarrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame: pl.DataFrame | None = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.frame is not None
        return self.frame.__arrow_c_stream__(requested_schema)


@contextlib.contextmanager
def _without_pandas() -> Iterator[None]:
    """Keeps DuckDB from importing pandas and pyarrow.dataset to see whether a table is theirs:
    a third of a second, more than any other part of the start of an import."""
    absent = [name for name in ("pandas", "pyarrow.dataset") if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def _salt(con: duckdb.DuckDBPyConnection) -> str:
    row = con.execute("SELECT min(value) FROM store_facts WHERE name = 'salt'").fetchone()
    return str(row[0]) if row else ""


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _connect(path: Path, bulk: bool) -> duckdb.DuckDBPyConnection:
    try:
        con = duckdb.connect(str(path), config=_CONFIG | (_BULK if bulk else {}))
    except duckdb.Error as error:
        raise StoreError(explain(path, error)) from error
    try:
        migrate(con)
        # Every query says its order itself; keeping that of insertion doubles the cost of it.
        con.execute("SET preserve_insertion_order = false")
        # What is full is written while more rows come, not when they are committed.
        con.execute("SET write_buffer_row_group_count = 1")
        con.execute("PRAGMA disable_checkpoint_on_shutdown")  # `close` decides
        # Nothing that a user's SELECT could reach lies outside the store.
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
    except StoreError as error:
        con.close()
        raise StoreError(f"{path}: {error}") from error
    except duckdb.Error as error:
        con.close()
        raise StoreError(explain(path, error)) from error
    return con


def explain(path: Path, error: duckdb.Error) -> str:
    """What DuckDB says, as one line that says what to do."""
    text = str(error)
    if holder := re.search(r"\(PID (\d+)\)", text):
        return f"{path}: in use by process {holder[1]}; stop it or use --store"
    if "not a valid DuckDB" in text:
        return f"{path}: is not a store (not a DuckDB file); choose another --store"
    if "version number" in text:
        return f"{path}: was written by another DuckDB version; choose another --store"
    if "Permission denied" in text or "read-only" in text.lower():
        return f"{path}: no permission to write; choose another --store"
    if re.search(r"No space left|[Oo]ut of disk|File too large|quota exceeded", text):
        return f"{path}: the disk is full; free some space, reading goes on where it stopped"
    if re.search(r"[Cc]orrupt|Could not read enough bytes|checksum", text):
        return (
            f"{path}: is damaged or cut off; restore a copy, or import the logs into a new --store"
        )
    return f"{path}: {text.splitlines()[0]}"
