"""The store of many machines: a DuckLake whose catalog is a PostgreSQL database.

Any number of processes append and read. An append is one commit of the catalog: its rows, the
checkpoints and the proof that they go on from what is stored come together or not at all.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import duckdb

from data import lake, lake_fence, lake_told
from data.checkpoints import Checkpoint
from data.elsewhere import Elsewhere, followed, lock_of
from data.errors import BusyError, ConflictError, StoreError
from data.lake_fence import DELETING
from data.lake_folder import Folder
from data.lake_place import LakePlace
from data.lake_session import UPKEEP, LakeSession
from data.lake_turns import Turns
from data.lake_upkeep import Upkeep
from data.lock import StoreLock
from data.migrate import newest_version
from data.patience import Patience
from data.prepared import BatchLike, Prepared
from data.store import Store

LOOK_S = 0.5  # how old the answer may be whether something new is stored
HELD_S = 2.0  # for so long a lock on a source is believed in
TRIES = 5  # of a commit before which others have changed the same tables


class LakeStore(Store):
    """An open lake."""

    is_shared = True
    # Commits that take a second come from a catalog that has more to do than it can.
    rest_most_s = 2.0

    def __init__(
        self, place: LakePlace, con: duckdb.DuckDBPyConnection, session: LakeSession,
        bulk: bool, read_only: bool,
    ) -> None:  # fmt: skip
        self._place = place
        self.read_only = read_only
        self.schema = newest_version()  # asked once: files on disk may be of a newer release later
        super().__init__(place.local, con, bulk)
        self._session = session
        self._folder = Folder(place, session)
        self._local_lock: StoreLock | None = None
        self._held_at: dict[str, float] = {}
        self._adding = contextlib.ExitStack()  # of the open transaction of an import
        self._looked = (float("-inf"), 0)
        self._looking = threading.Lock()
        self._elsewhere: tuple[float, list[Elsewhere]] = (float("-inf"), [])
        self._asking = threading.Lock()
        self._mending = threading.Lock()
        self._patience = Patience(place.name)
        self._turns = Turns(place, self._patience)
        self._upkeep = None if bulk or read_only else Upkeep(self, place)

    @classmethod
    def at(cls, place: LakePlace, *, bulk: bool) -> LakeStore:
        """Open, create or upgrade the lake; StoreError says why it cannot be."""
        session = LakeSession(place)
        with contextlib.ExitStack() as undone:
            undone.callback(session.close)
            try:
                read_only = not session.may_write()
                con = cls._attached(place, session, read_only, bulk)
                undone.callback(con.close)
                store = cls(place, con, session, bulk, read_only)
            except duckdb.Error as error:
                raise lake_told.explain(place.name, str(error)) from error
            undone.pop_all()
            return store

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._place.name

    @property
    def revision(self) -> int:
        """The catalog's snapshot: grows with every append of anybody."""
        with self._looking:
            at, known = self._looked
            if time.monotonic() - at >= LOOK_S:
                with contextlib.suppress(duckdb.Error, StoreError), self.cursor() as con:
                    row = con.execute(f"SELECT id FROM {lake.NAME}.current_snapshot()").fetchone()
                    known = int(row[0]) if row else known
                self._looked = (time.monotonic(), known)
            return known

    @property
    def overdue(self) -> str | None:  # type: ignore[override]
        """A line while the server does not answer."""
        return self._patience.waiting

    def append_all(
        self,
        batches: Sequence[BatchLike | Prepared],
        checkpoints: Sequence[Checkpoint],
        *,
        more: bool = False,
    ) -> None:
        """Store several batches and checkpoints in one transaction."""

        def once() -> None:
            with self._patience.asked():
                super(LakeStore, self).append_all(batches, checkpoints, more=more)

        tries = 1 if more or self._open else TRIES
        if self.bulk and not self._open:
            self._adding.enter_context(self._session.alone(DELETING, shared=True))
        try:
            self._turns.again(tries, once)
        finally:
            if not self._open:
                self._adding.close()

    def transact(
        self, work: Callable[[duckdb.DuckDBPyConnection], bool], *, deletes: bool = False
    ) -> None:
        """Run `work` in one transaction; it says whether it stored anything."""

        def told(con: duckdb.DuckDBPyConnection) -> bool:
            stored = work(con)
            passes = deletes or self._turns.is_ours
            self._folder.refuse_other()
            lake.tell(con, lake_fence.steps([], self.schema, passes=passes))
            return stored

        def once() -> None:
            with self._turns.alone() if deletes else contextlib.nullcontext():
                super(LakeStore, self).transact(told)

        self._turns.again(TRIES, once)

    def _new_cursor(self) -> duckdb.DuckDBPyConnection:
        """StoreError while a lake that had broken cannot be attached again."""
        used = self._con
        try:
            return self._cursor(used)
        except duckdb.FatalException:
            return self._cursor(self._mended(used))

    @staticmethod
    def _cursor(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        cursor = con.cursor()
        cursor.execute(f"USE {lake.NAME}")
        return cursor

    def _mended(self, broken: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """A new DuckDB in place of one that refuses every statement.

        A server that goes in the middle of an answer can be an internal error to the extension
        (ducklake with DuckDB 1.5.5: "index 0 within vector of size 0"), and after one of these
        DuckDB wants to be opened anew.
        """
        with self._mending:
            if self._con is broken:
                self._con = self._attached(self._place, self._session, self.read_only, self.bulk)
            return self._con

    @staticmethod
    def _attached(
        place: LakePlace, session: LakeSession, read_only: bool, bulk: bool
    ) -> duckdb.DuckDBPyConnection:
        try:
            return lake.connect(place, session, read_only=read_only, bulk=bulk)
        except duckdb.Error as error:
            raise lake_told.explain(place.name, str(error)) from error

    def announce(self, url: str) -> None:
        """Say under which address this process serves the store on this machine."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._local_lock = StoreLock(self.path)
        self._local_lock.announce(url)

    def hold(self, source_id: str) -> None:
        """Say that we read a source from now on; StoreError if another process does."""
        if time.monotonic() - self._held_at.get(source_id, float("-inf")) < HELD_S:
            return
        with self._patience.asked():
            is_ours = self._session.hold(lock_of(source_id))
        if not is_ours:
            raise StoreError(
                f"{source_id}: {self._session.holder(lock_of(source_id))} follows it into this "
                "store; stop that one, or leave the source out here"
            )
        self._held_at[source_id] = time.monotonic()

    def let_go(self, source_id: str) -> None:
        """Say that we read it no longer."""
        self._held_at.pop(source_id, None)
        self._session.release(lock_of(source_id))

    def elsewhere(self) -> list[Elsewhere]:
        """What other processes follow into this store, or did since it was opened."""
        with self._asking:
            at, known = self._elsewhere
            if time.monotonic() - at >= HELD_S:
                with contextlib.suppress(duckdb.Error, StoreError), self.cursor() as con:
                    known = followed(con, self._session.others(), known)
                self._elsewhere = (time.monotonic(), known)
            return known

    @contextlib.contextmanager
    def upkeep(self) -> Iterator[None]:
        """While this lasts no other process folds, merges or rolls up."""
        session = LakeSession(self._place)
        with contextlib.closing(session), session.alone(UPKEEP):
            yield

    def failure(self, error: duckdb.Error, checkpoints: Sequence[Checkpoint] = ()) -> StoreError:
        """What DuckDB says, as a line that says what to do."""
        file_id = lake_fence.refused_file(str(error), checkpoints)
        if file_id is not None:
            path = next(c.path for c in checkpoints if c.file_id == file_id)
            text = f"{path}: another reader has stored more of it meanwhile; try again"
            return ConflictError(text, file_id)
        return lake_told.explain(self.name, str(error))

    def advice(self, error: BaseException | None) -> str:
        """What to do when a page could not read the store, as a sentence."""
        return lake_told.cause(str(error)).advice

    def size_bytes(self) -> int:
        """What the store takes: the files that its tables are made of, and the catalog."""
        row = self._session.ask(
            "SELECT (SELECT coalesce(sum(file_size_bytes), 0) FROM ducklake_data_file)::bigint "
            "+ pg_database_size(current_database())"
        )
        return int(str(row[0]))

    def shrink(self) -> None:
        """Merge files, forget old snapshots and delete what only they needed."""
        self.tidy(at_once=True)

    def tidy(self, *, at_once: bool = False) -> None:
        """Write small rows out together, merge files, and delete what is no longer read.

        `at_once`: also what a question of now may still read.
        """
        kept = timedelta() if at_once else lake.KEPT
        with contextlib.closing(self.cursor()) as con:
            for step in lake.TIDYING:
                # The time of now: what a step has replaced the next ones may delete at once.
                statement = lake.tidying(step, self._session.now() - kept)
                try:
                    self._tidied(con, statement)
                except BusyError:  # rows that are written out may be among deleted ones
                    with self._turns.alone():
                        self._tidied(con, statement)

    def _tidied(self, con: duckdb.DuckDBPyConnection, statement: str) -> None:
        self._folder.refuse_other()
        try:
            con.execute(statement).fetchall()  # fetching is what does it
        except duckdb.Error as error:
            raise self.failure(error) from error

    def close(self) -> None:
        """Give the store up."""
        if self._upkeep is not None:
            self._upkeep.stop()
        self._patience.stop()
        is_free = self._readers.end()
        with self._turn:
            self._writer.close()
            if is_free:  # else its memory is given up with the process
                self._con.close()
            self._session.close()
            if self._local_lock is not None:
                self._local_lock.release()

    def _before_append(self) -> None:
        self._refuse_if_read_only()
        try:
            self._writer.execute("SELECT 1")
        except duckdb.FatalException:
            self._writer = self._new_cursor()
        self._folder.refuse_other()

    def _in_transaction(self, work: Callable[[duckdb.DuckDBPyConnection], bool]) -> bool:
        self._before_append()
        return super()._in_transaction(work)

    def _refuse_if_read_only(self) -> None:
        if self.read_only:
            raise StoreError(f"{self.name}: this role of PostgreSQL may only read")

    def _commit(self) -> None:
        passes = self.bulk or self._turns.is_ours
        self._folder.refuse_other()
        lake.tell(self._writer, lake_fence.steps(self._reached, self.schema, passes=passes))
        self._writer.execute("COMMIT")
        self._looked = (float("-inf"), self._looked[1])
