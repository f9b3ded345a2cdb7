"""What the processes of one lake agree on in its PostgreSQL: who does what.

Locks are held by a session: the server drops them when the process or its connection dies.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Iterator
from datetime import datetime

import psycopg

from data.errors import AwayError, StoreError
from data.lake_fence import ADMIT, BEGIN_STATISTICS, DELETING, FENCE, FENCE_HASH, SIGN, key
from data.lake_place import LakePlace

# Whoever is elected for upkeep is so until its end; the lock of the work itself is held only
# while something is done, so that others find their turn.
MIGRATING, ELECTED, UPKEEP = "migrating", "elected", "upkeep"
# For so long others wait at most for one that stands still in its turn: while it deletes, and while
# it adds, which whoever deletes waits a little longer for (IMPORTS_WAIT_S in data/lake_turns.py).
DELETING_S, ADDING_S = 60, 15
# Nothing but a long upkeep holds a lock for long; a process that stands still may hold it for ever.
LOCK_WAIT_S = 120
# An advisory lock of 64 bits is shown as two halves.
_LOCKS = """
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_NUMBER = "((l.classid::bigint << 32) | l.objid::bigint)"
_HOLDER = f"""
SELECT min(a.application_name), min(a.pid),
    min(coalesce(a.client_hostname, host(a.client_addr))),
    min(to_char(a.backend_start AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC"'))
{_LOCKS} AND {_NUMBER} = {{key}}
"""
_OTHERS = f"""
SELECT coalesce(json_object_agg({_NUMBER}, a.application_name), '{{}}')
{_LOCKS} AND a.pid <> pg_backend_pid()
"""
# What libpq says where the server answers, but not to us.
_REFUSED_LOGIN = re.compile(
    r"authentication failed|no password supplied|does not exist|no pg_hba\.conf entry|"
    r"not permitted to log in|permission denied|certificate|does not support SSL|requires? SSL"
)
# Shutting down (three of them), too many connections.
_COMES_BACK = ("57P01", "57P02", "57P03", "53300")
_DOING = {MIGRATING: "opening or upgrading", UPKEEP: "tidying", DELETING: "writing to"}


class LakeSession:
    """A connection to the catalog's server that holds locks, and takes them again after a loss."""

    def __init__(self, place: LakePlace, lock_wait_s: float | None = None) -> None:
        self._place = place
        self._lock_wait_s = LOCK_WAIT_S if lock_wait_s is None else lock_wait_s
        self._turn = threading.RLock()
        self._held: set[str] = set()
        self._con: psycopg.Connection[tuple[object, ...]] | None = None
        self._connection()

    def hold(self, name: str) -> bool:
        """Whether we hold this lock from now on; StoreError while the server is away."""
        with self._turn:
            try:
                return self._hold(name)
            except StoreError:  # the connection is lost, and with it all locks
                return self._hold(name)

    def _hold(self, name: str) -> bool:
        con = self._connection()
        with self._told():
            if name in self._held:
                con.execute("SELECT 1")  # the session, and with it the lock, is still there
                return True
            row = con.execute("SELECT pg_try_advisory_lock(%s)", [key(name)]).fetchone()
            if row is not None and row[0]:
                self._held.add(name)
            return name in self._held

    def release(self, name: str) -> None:
        """Give a lock up; without a server it is given up already."""
        with self._turn, contextlib.suppress(psycopg.Error, StoreError):
            if name in self._held:
                self._held.discard(name)
                self._connection().execute("SELECT pg_advisory_unlock(%s)", [key(name)])

    @contextlib.contextmanager
    def alone(self, name: str, *, shared: bool = False) -> Iterator[None]:
        """While this lasts nobody else is in it; waits for its turn, but not for ever.

        `shared`: but others who say so too.
        """
        how = "_shared" if shared else ""
        with self._turn, self._told():
            try:
                self._connection().execute(f"SELECT pg_advisory_lock{how}({key(name)})".encode())
            except psycopg.errors.LockNotAvailable as error:
                raise StoreError(
                    f"{self._place.name}: {self.holder(name)} has been {_DOING[name]} the store "
                    f"for {self._lock_wait_s:g} s; wait for it, or end it if it stands still"
                ) from error
        try:
            yield
        finally:
            with self._turn, contextlib.suppress(psycopg.Error, StoreError):
                self._connection().execute(f"SELECT pg_advisory_unlock{how}({key(name)})".encode())

    @contextlib.contextmanager
    def turn(self, *, shared: bool = False) -> Iterator[None]:
        """While this lasts nobody else commits, so that what we delete from does not grow.

        Should we stand still, the server ends this session, and others go on.
        `shared`: nobody deletes; others whose turn it is too may commit.
        """
        with self.alone(DELETING, shared=shared):
            with self._turn, self._told():
                seconds = ADDING_S if shared else DELETING_S
                limit = f"SET LOCAL idle_in_transaction_session_timeout = '{seconds}s'"
                self._connection().execute(f"BEGIN; {limit}".encode())
            try:
                yield
            finally:
                with self._turn, contextlib.suppress(psycopg.Error, StoreError):
                    self._connection().execute("ROLLBACK")

    def may_write(self) -> bool:
        """Whether our role may append; so may whoever can create the catalog."""
        row = self.ask(
            "SELECT CASE WHEN to_regclass('ducklake_snapshot') IS NULL THEN "
            "has_schema_privilege(current_schema(), 'CREATE') ELSE "
            "has_table_privilege('ducklake_snapshot', 'INSERT') END"
        )
        return bool(row[0])

    def made(self) -> bool:
        """Whether there is a lake in this database."""
        return self.ask("SELECT to_regclass('ducklake_metadata')")[0] is not None

    def ready(self, contents: str) -> bool:
        """Whether all of these contents are there, behind the fence of this release."""
        return self.ask(SIGN) == (f"{FENCE_HASH} {contents}", True)

    def put_up_fence(self) -> None:
        """Have the catalog refuse what is stored already.

        Only where it does not stand yet: putting it up waits for all commits.
        """
        sign, stands = self.ask(SIGN)
        if not (stands and str(sign).startswith(FENCE_HASH)):
            with self._turn, self._told():
                self._connection().execute(FENCE.encode())

    def admit(self, schema: int) -> None:
        """Have the catalog refuse commits of an older schema; waits for those under way."""
        with self._turn, self._told():
            self._connection().execute(ADMIT.format(schema=schema).encode())

    def set_ready(self, contents: str) -> None:
        """Say that all of these contents (data/migrate.py) are there."""
        sign = f"{FENCE_HASH} {contents}"
        with self._turn, self._told():
            self._connection().execute(
                f"COMMENT ON FUNCTION servescope_fence() IS '{sign}'".encode()
            )

    def begin_statistics(self) -> None:
        """Give tables that were just made the statistics of an empty one.

        Only while nobody appends to them: DuckLake makes them with the first rows otherwise.
        """
        with self._turn, self._told():
            self._connection().execute(BEGIN_STATISTICS)

    def holder(self, name: str) -> str:
        """Who holds this lock, as its operator finds it."""
        program, pid, host, since = self.ask(_HOLDER.format(key=key(name)))
        where = f" from {host}" if host else ""
        who = program or "another process"
        return f"{who} (connection {pid}{where}, since {since})" if pid else "another process"

    def others(self) -> dict[int, str]:
        """Who holds which locks, by their numbers (`key`), but for this session."""
        (held,) = self.ask(_OTHERS)
        assert isinstance(held, dict)
        return {int(number): str(name) for number, name in held.items()}

    def now(self) -> datetime:
        """What PostgreSQL's clock says: it stamps every commit, ours may be wrong."""
        (now,) = self.ask("SELECT now()")
        assert isinstance(now, datetime)
        return now

    def ask(self, query: str) -> tuple[object, ...]:
        """The one row of a question."""
        with self._turn, self._told():
            row = self._connection().execute(query).fetchone()
        assert row is not None
        return row

    def close(self) -> None:
        """Give everything up."""
        with self._turn:
            if self._con is not None:
                self._con.close()

    def _connection(self) -> psycopg.Connection[tuple[object, ...]]:
        if self._con is None or self._con.closed:
            self._held.clear()
            with self._told():
                self._con = psycopg.connect(
                    self._place.conninfo, autocommit=True, fallback_application_name=_own_name()
                )
                self._con.execute(f"SET lock_timeout = '{self._lock_wait_s:g}s'")
        return self._con

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """What libpq says, as a line that says what to do."""
        try:
            yield
        except psycopg.Error as error:
            if self._con is not None and isinstance(error, psycopg.OperationalError):
                self._con.close()
            text = " ".join(str(error).split())
            if _is_away(error):
                raise AwayError(
                    f"{self._place.name}: PostgreSQL does not answer: {text}"
                ) from error
            raise StoreError(f"{self._place.name}: {text}") from error


def _own_name() -> str:
    """What PostgreSQL and other processes call us."""
    return f"process {os.getpid()} on {os.environ.get('SERVESCOPE_HOST') or socket.gethostname()}"


def _is_away(error: psycopg.Error) -> bool:
    """Whether waiting may help: nothing says that somebody has to mend something first.

    A failure to connect has no SQLSTATE, whatever its cause.
    """
    if not isinstance(error, psycopg.OperationalError):
        return False
    if error.sqlstate is None:
        return not _REFUSED_LOGIN.search(str(error))
    return error.sqlstate.startswith("08") or error.sqlstate in _COMES_BACK
