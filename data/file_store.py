"""The store of one machine: one DuckDB file, owned by one process."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import duckdb

from data import space
from data.checkpoints import Checkpoint
from data.errors import StoreError
from data.fold import EVERY_APPENDS, due, fold
from data.lock import StoreLock
from data.migrate import migrate
from data.place import drop_empty, refuse_other_files
from data.store import BULK, NO_NETWORK, Store

CHECKPOINT_BYTES = 8 << 20  # read in 0.2 s; DuckDB itself writes it in at 16 MB
CHECKPOINT_WAIT_S = 60.0


class FileStore(Store):
    """An open DuckDB file."""

    def __init__(
        self, path: Path, con: duckdb.DuckDBPyConnection, lock: StoreLock, bulk: bool
    ) -> None:
        super().__init__(path, con, bulk)
        self._file_lock = lock
        self._appends = EVERY_APPENDS if due(self._writer) else 0  # since the last folding
        noted = space.noted_s_ago(self._writer)
        self._note_size_at = time.monotonic() + space.NOTED_EVERY_S - noted

    @classmethod
    def at(cls, path: Path, *, bulk: bool) -> FileStore:
        """Open, create or upgrade the file; StoreError says why it cannot be."""
        place = path.expanduser().absolute()
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{place.parent}: cannot be created ({error.strerror})") from error
        refuse_other_files(place)
        lock = StoreLock(place)
        try:
            drop_empty(place)
            con = _connect(place, bulk)
        except BaseException:
            lock.release()
            raise
        try:
            return cls(place, con, lock, bulk)
        except BaseException as error:
            con.close()
            lock.release()
            if isinstance(error, duckdb.Error):
                raise StoreError(explain(place, error)) from error
            raise

    def announce(self, url: str) -> None:
        """Say under which address this process serves the store."""
        self._file_lock.announce(url)

    def failure(self, error: duckdb.Error, checkpoints: Sequence[Checkpoint] = ()) -> StoreError:
        """What DuckDB says, as a line that says what to do."""
        return StoreError(explain(self.path, error))

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
                raise self.failure(error) from error

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

    def close(self) -> None:
        """Close the file and give it up to the next process."""
        is_free = self._readers.end()
        with self._turn:
            self._writer.close()
            # What lies in the write-ahead log would be read again at every opening. After an
            # import there is next to nothing: large blocks of rows went straight to the file.
            wal = self.path.with_name(self.path.name + ".wal")
            if wal.exists() and wal.stat().st_size > CHECKPOINT_BYTES:
                with contextlib.suppress(duckdb.Error):  # a full disk: the log itself stays
                    self._con.execute("CHECKPOINT")
            if is_free:  # else its memory is given up with the process
                self._con.close()
            self._file_lock.release()

    def _before_append(self) -> None:
        """Fold what many appends have left, and keep about once a day how large the store is."""
        self._appends += 1
        if self._appends > EVERY_APPENDS:
            self._in_transaction(fold)
            self._appends = 0
        if time.monotonic() >= self._note_size_at:
            self._note_size_at = time.monotonic() + space.NOTED_EVERY_S
            self._in_transaction(partial(space.note_size, size=self.size_bytes()))


def _connect(path: Path, bulk: bool) -> duckdb.DuckDBPyConnection:
    try:
        con = duckdb.connect(str(path), config=NO_NETWORK | (BULK if bulk else {}))
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
