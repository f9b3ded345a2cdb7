"""The store, only ever appended to: a file of one machine, or a lake of many.

Every user of it takes a cursor of its own. Records, partial sums and the checkpoint of their
source are committed together, so a crash at any moment loses and repeats nothing.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl

from data import summary
from data.checkpoints import COLUMNS, Checkpoint, latest_seq, latest_seqs
from data.errors import ConflictError, StoreError
from data.handing import Stream, without_pandas
from data.lake_place import LakePlace, is_lake
from data.late import Recent
from data.literal import literal
from data.moment import utc_now
from data.prepared import BatchLike, Prepared, prepare
from data.readers import Readers
from parsers.records import joined

if TYPE_CHECKING:
    from data.elsewhere import Elsewhere

# DuckDB would fetch an extension over the network by itself.
NO_NETWORK: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
# For a process that only imports: the other threads are parsing, and what is written is not read.
BULK: dict[str, str | int] = {"threads": 1, "memory_limit": "96MB"}


_WORTH_ROWS = 2000
_FEW_ROWS = 50
# One question: to a lake each is a transaction of some twenty statements.
_KNOWN = """
SELECT (SELECT min(value) FROM store_facts WHERE name = 'salt'),
    (SELECT list(DISTINCT group_id) FROM sample_groups)
"""
_LATE = "sample_intervals"  # partial sums of other tables follow its rows


class Store(ABC):
    """An open store. Safe to use from several threads: appends take turns."""

    read_only = False
    is_shared = False  # with other machines
    overdue: str | None = None  # a line while it does not answer
    rest_most_s = 0.4  # for so long at most a writer rests after a commit

    def __init__(self, path: Path, con: duckdb.DuckDBPyConnection, bulk: bool) -> None:
        self.path = path  # beside which lies what belongs to this machine's use of it
        self.bulk = bulk
        self._stored = 0  # appends that stored something
        self._con = con
        self._readers = Readers()
        self._writer = self._new_cursor()
        self._turn = threading.Lock()
        self._open = False  # a transaction that goes on
        (salt, groups) = self._writer.execute(_KNOWN).fetchall()[0]
        self.salt = str(salt or "")  # of the hashes that stand for redacted secrets
        self._groups = set(groups or ())  # stored already
        self._recent = Recent()
        self._waiting: dict[str, list[pl.DataFrame]] = {}  # of the open transaction, by table
        self._reached: list[Checkpoint] = []  # of the open transaction
        self._latest: dict[str, int] | None = None  # seqs of checkpoints, as far as asked for

    @staticmethod
    def open(location: Path | str, *, bulk: bool = False) -> Store:
        """Open, create or upgrade the store at this place; StoreError says why it cannot be.

        `location`: a DuckDB file, or a store of many machines (data/lake_place.py).
        `bulk`: for a process that only imports. DuckDB keeps to one thread and little memory, and
        its search for pandas is cut short.
        """
        if is_lake(str(location)):
            try:
                from data.lake_store import LakeStore  # the client of PostgreSQL loads slowly
            except ImportError as error:
                raise StoreError(
                    f"this store needs {error.name}: pip install '.[fleet]' in Servescope's folder"
                ) from error
            return LakeStore.at(LakePlace.parse(str(location)), bulk=bulk)
        from data.file_store import FileStore

        return FileStore.at(Path(location), bulk=bulk)

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.path)

    @property
    def revision(self) -> int:
        """Grows with every append that stored something."""
        return self._stored

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor for one user; close it after use. StoreError once the store is closed."""
        return self._readers.lend(self._new_cursor)

    def _new_cursor(self) -> duckdb.DuckDBPyConnection:
        return self._con.cursor()

    def hold(self, source_id: str) -> None:  # noqa: B027
        """Say that we read a source from now on; StoreError if another process does. Of a file
        nobody else can be the reader."""

    def let_go(self, source_id: str) -> None:  # noqa: B027
        """Say that we read it no longer."""

    def elsewhere(self) -> list[Elsewhere]:
        """What other processes follow into this store: of a file, nothing."""
        return []

    def upkeep(self) -> contextlib.AbstractContextManager[None]:
        """While this lasts no other process folds, merges or rolls up."""
        return contextlib.nullcontext()

    def failure(self, error: duckdb.Error, checkpoints: Sequence[Checkpoint] = ()) -> StoreError:
        """What DuckDB says, as a line that says what to do.

        `checkpoints`: of the append that failed.
        """
        return StoreError(f"{self.name}: {str(error).splitlines()[0]}")

    def advice(self, error: BaseException | None) -> str:
        """What to do when a page could not read the store, as a sentence."""
        return (
            "Restart Servescope; if this line stays, start it with another --store and import the "
            "logs again."
        )

    @abstractmethod
    def size_bytes(self) -> int:
        """What the store takes on its disk."""

    @abstractmethod
    def shrink(self) -> None:
        """Give free space back."""

    @abstractmethod
    def close(self) -> None:
        """Give the store up, once nobody reads it any more."""

    @abstractmethod
    def _before_append(self) -> None:
        """What is due now and then, outside of the append's transaction."""

    def _commit(self) -> None:
        """End the transaction of the checkpoints `_reached`."""
        self._writer.execute("COMMIT")

    @abstractmethod
    def announce(self, url: str) -> None:
        """Say under which address this process serves the store."""

    def append(self, batch: BatchLike | None, checkpoint: Checkpoint | None) -> None:
        """Store all frames, their partial sums and the checkpoint in one transaction."""
        self.append_all([batch] if batch is not None else [], [checkpoint] if checkpoint else [])

    def append_all(
        self,
        batches: Sequence[BatchLike | Prepared],
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
                    self._before_append()
                    self._writer.execute("BEGIN TRANSACTION")
                    self._open = True
                self._reached += checkpoints
                latest = self._in_order(checkpoints)
                with without_pandas() if self.bulk else contextlib.nullcontext():
                    rows = self._encode(batches) if batches else 0
                    self._insert_waiting(more=more)
                self._insert_checkpoints(checkpoints)
                if not more:
                    self._commit()
                    self._open = False
                    self._reached = []
            except BaseException as error:
                reached = self._undo()
                if isinstance(error, duckdb.Error):
                    raise self.failure(error, reached) from error
                raise
            if self._latest is not None:
                self._latest.update(latest)
            if rows:
                self._stored += 1

    def _undo(self) -> list[Checkpoint]:
        reached, self._reached = self._reached, []
        self._open = False
        self._waiting.clear()
        self._latest = None
        self._recent.forget()
        with contextlib.suppress(duckdb.Error):  # DuckDB has undone it already
            self._writer.execute("ROLLBACK")
        self._groups.clear()  # which of them are stored is not certain, and twice does no harm
        return reached

    def transact(
        self, work: Callable[[duckdb.DuckDBPyConnection], bool], *, deletes: bool = False
    ) -> None:
        """Run `work` in one transaction; it says whether it stored anything.

        `deletes`: rows of tables that others append to. Of a lake it may have to be done again.
        """
        with self._turn:
            try:
                stored = self._in_transaction(work)
            except duckdb.Error as error:
                raise self.failure(error) from error
            if stored:
                self._stored += 1

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

    def add_source(
        self, source_id: str, kind: str, location: str, label: str | None, zone: str | None
    ) -> None:
        """Write down a source, unless its latest row says the same."""

        def work(con: duckdb.DuckDBPyConnection) -> bool:
            latest = con.execute(
                "SELECT kind, location, label, zone FROM sources "
                f'WHERE source_id = {literal(source_id)} ORDER BY "at" DESC LIMIT 1'
            ).fetchone()
            if latest != (kind, location, label, zone):
                values = ", ".join(map(literal, (source_id, kind, location, label, zone)))
                con.execute(f"INSERT INTO sources VALUES ({values}, '{utc_now()}')")
            return False

        self.transact(work)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _in_order(self, checkpoints: Sequence[Checkpoint]) -> dict[str, int]:
        """The latest seq of each file after these checkpoints."""
        latest: dict[str, int] = {}
        for new in checkpoints:
            before = latest.get(new.file_id)
            if before is None:
                before = self._latest_seq(new.file_id)
            if new.seq <= before or new.after not in (None, before):
                raise ConflictError(
                    f"{new.path}: another reader has stored more of it meanwhile; try again",
                    new.file_id,
                )
            latest[new.file_id] = new.seq
        return latest

    def _latest_seq(self, file_id: str) -> int:
        """Of what is stored of a file. Where nobody else writes all are asked for once."""
        if self._latest is None:
            self._latest = {} if self.is_shared else latest_seqs(self._writer)
        if self.is_shared and file_id not in self._latest:
            return latest_seq(self._writer, file_id)
        return self._latest.get(file_id, 0)

    def prepare(self, batch: BatchLike) -> Prepared:
        """What an append inserts of a batch, for a thread that has the time to work it out."""
        return replace(prepare([batch], self._groups), parts=())  # of use where lines are followed

    def _encode(self, batches: Sequence[BatchLike | Prepared]) -> int:
        """Have all rows and their partial sums inserted; gives the number of rows of the logs."""
        ready = [batch for batch in batches if isinstance(batch, Prepared)]
        if raw := [batch for batch in batches if not isinstance(batch, Prepared)]:
            ready.append(prepare(raw, self._groups))
        for one in ready:
            if not self.bulk:
                self._recent.add(one.parts)
            for table, frame in one.tables.items():
                self._waiting.setdefault(table, []).append(frame)
            if (new := one.tables.get("sample_groups")) is not None:
                self._groups |= set(new["group_id"])
        return sum(one.rows for one in ready)

    def _insert_waiting(self, *, more: bool) -> None:
        """Insert what waits; while more rows come, only what is worth a statement of its own."""
        for table in sorted(self._waiting, key=_LATE.__eq__):  # its sums read the others
            frames = self._waiting[table]
            if not more or sum(frame.height for frame in frames) >= _WORTH_ROWS:
                self._insert_frame(table, joined(frames))
                del self._waiting[table]

    def _insert_frame(self, table: str, frame: pl.DataFrame) -> None:
        if frame.height <= _FEW_ROWS and not self.bulk:
            self._insert_few(table, frame)
            return
        # Registered, since variables of Python are out of reach once external access is off.
        name = f"new_{table}"
        stream = Stream(frame)
        self._writer.register(name, stream)
        try:
            self._writer.execute(f"INSERT INTO {table} BY NAME SELECT * FROM {name}")
            if table == _LATE and not self._summed(frame):
                late = {"late": f"* FROM {name}", "bounds": self._bounds(frame)}
                self._writer.execute(summary.LATE_INTERVALS.format(**late))
        finally:
            self._writer.unregister(name)
            stream.frame = None  # DuckDB keeps the stream until the transaction ends

    def _insert_few(self, table: str, frame: pl.DataFrame) -> None:
        """The same for a few rows, in a third of the time: a list a column that has a value."""
        filled = [column for column in frame.iter_columns() if column.null_count() < frame.height]
        names = ", ".join(f'"{column.name}"' for column in filled)
        values = ", ".join(f'unnest(?) AS "{column.name}"' for column in filled)
        lists = [column.to_list() for column in filled]
        self._writer.execute(f"INSERT INTO {table} ({names}) SELECT {values}", lists)
        if table == _LATE and not self._summed(frame):
            late = {"late": values, "bounds": self._bounds(frame)}
            self._writer.execute(summary.LATE_INTERVALS.format(**late), lists)

    def _summed(self, late: pl.DataFrame) -> bool:
        """Whether what these corrections add to the sums needed no look at the store."""
        sums = self._recent.sums(late)
        if sums is not None and sums.height:
            self._insert_frame("run_summary_parts", sums)
        return sums is not None

    def _bounds(self, late: pl.DataFrame) -> str:
        """Between which times and places the samples of corrected windows lie."""
        offset = pl.col("byte_offset")
        ends = late.select(offset.min().alias("first"), offset.max().alias("last")).row(0)
        places = f"byte_offset BETWEEN {ends[0]} AND {ends[1]}"
        if "run_summary_parts" in self._waiting:  # the times of the latest samples are not in yet
            return places
        runs = ", ".join(map(literal, late["run_id"].unique()))
        first, last = self._writer.execute(
            f"SELECT min(first_ts), max(last_ts) FROM run_summary_parts WHERE run_id IN ({runs})"
        ).fetchall()[0]
        return f"{places} AND ts BETWEEN '{first}' AND '{last}'" if first is not None else places

    def _insert_checkpoints(self, checkpoints: Sequence[Checkpoint]) -> None:
        now = utc_now()
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
