"""What the processes of one lake agree on in its PostgreSQL: who does what, and what is stored.

Locks are held by a session: the server drops them when the process or its connection dies. A
commit does not trust them, since a process may be stopped between looking and committing: it
carries the places of the files it goes on from, and a trigger of the catalog refuses it, whole,
where somebody has gone on from there already.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Sequence

import psycopg

from data.checkpoints import Checkpoint
from data.errors import AwayError, StoreError
from data.lake_place import LakePlace

# Whoever is elected for upkeep is so until its end; the lock of the work itself is held only
# while something is done, so that others find their turn.
MIGRATING, ELECTED, UPKEEP = "migrating", "elected", "upkeep"
REFUSED = "servescope: stored already: "
# Nothing but a long upkeep holds a lock for long; a process that stands still may hold it for ever.
LOCK_WAIT_S = 120
# One row for each file and each path: the seq of the latest checkpoint that was committed.
# The row `schema` says of which schema a commit must be at least: it is raised before an upgrade,
# which waits for commits under way, so none comes into tables that are being rewritten.
# Commits take turns from here on to their end, so one whose process stands still is given up.
_FENCE = """
CREATE TABLE IF NOT EXISTS servescope_positions (name text PRIMARY KEY, seq bigint NOT NULL);
CREATE OR REPLACE FUNCTION servescope_fence() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE step jsonb; least bigint;
BEGIN
    IF NEW.commit_extra_info LIKE '[{"servescope"%' THEN
        SELECT seq INTO least FROM servescope_positions WHERE name = 'schema' FOR SHARE;
        IF coalesce((NEW.commit_extra_info::jsonb->0->>'schema')::bigint, 0) < least THEN
            RAISE EXCEPTION 'servescope: schema %', least;
        END IF;
        FOR step IN SELECT * FROM jsonb_array_elements(NEW.commit_extra_info::jsonb) LOOP
            CONTINUE WHEN step->>'seq' IS NULL;
            INSERT INTO servescope_positions AS p VALUES
                (step->>'servescope', (step->>'seq')::bigint)
            ON CONFLICT (name) DO UPDATE SET seq = EXCLUDED.seq
            WHERE p.seq < EXCLUDED.seq
                AND coalesce((step->>'after')::bigint, p.seq) = p.seq;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'servescope: stored already: %', step->>'servescope';
            END IF;
        END LOOP;
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', '15s', true);
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER servescope_fence BEFORE INSERT ON ducklake_snapshot_changes
    FOR EACH ROW EXECUTE FUNCTION servescope_fence();
"""
# DuckLake remembers the statistics of a table until it changes, but not that it has none: while
# a table is empty it asks PostgreSQL for them again for every column that a question names
# (500 statements for the view `samples` of a store with one kind of line). So empty tables have
# some, as DuckLake writes them. Both inserts see the tables as they were.
_BEGIN_STATISTICS = """
WITH bare AS (
    SELECT table_id FROM ducklake_table t WHERE end_snapshot IS NULL
        AND NOT EXISTS (SELECT FROM ducklake_table_stats s WHERE s.table_id = t.table_id)
), tables AS (
    INSERT INTO ducklake_table_stats (table_id, record_count, next_row_id, file_size_bytes)
    SELECT table_id, 0, 0, 0 FROM bare
)
INSERT INTO ducklake_table_column_stats (table_id, column_id, contains_null)
SELECT table_id, column_id, false FROM ducklake_column c JOIN bare USING (table_id)
WHERE end_snapshot IS NULL AND NOT EXISTS (
    SELECT FROM ducklake_column p
    WHERE p.table_id = c.table_id AND p.parent_column = c.column_id AND p.end_snapshot IS NULL
)
"""
_FENCE_HASH = hashlib.sha256(_FENCE.encode()).hexdigest()
# What is written on the fence: which one it is, and the schema of tables that are all there.
_SIGN = (
    "SELECT coalesce(obj_description(to_regproc('servescope_fence'), 'pg_proc'), ''), "
    "EXISTS (SELECT 1 FROM pg_trigger WHERE tgname = 'servescope_fence')"
)
_ADMIT = (
    "INSERT INTO servescope_positions VALUES ('schema', {schema}) "
    "ON CONFLICT (name) DO UPDATE SET seq = EXCLUDED.seq"
)


def steps(checkpoints: Sequence[Checkpoint], schema: int) -> str:
    """What a commit of these checkpoints tells the fence: each file goes on from where it was.

    `schema`: the version that its process writes. A commit without checkpoints tells it alone.
    """
    after: dict[str, int | None] = {}
    seqs: dict[str, int] = {}
    for checkpoint in checkpoints:
        name = f"file {checkpoint.file_id}"
        after.setdefault(name, checkpoint.after)
        seqs[name] = checkpoint.seq
        seqs[f"path {checkpoint.path}"] = checkpoint.seq
    told: list[dict[str, str | int | None]] = [
        {"servescope": name, "seq": seq, "after": after.get(name)} for name, seq in seqs.items()
    ]
    told = told or [{"servescope": "change"}]
    told[0]["schema"] = schema
    return json.dumps(told)


def refused_file(text: str, checkpoints: Sequence[Checkpoint]) -> str | None:
    """The file_id for whose sake the fence refused a commit; None: it was not the fence."""
    _, mark, rest = text.partition(REFUSED)
    if not mark:
        return None
    name = rest.split("\n", 1)[0]
    for checkpoint in checkpoints:
        if name.startswith((f"file {checkpoint.file_id}", f"path {checkpoint.path}")):
            return checkpoint.file_id
    return None


def key(name: str) -> int:
    """The number of an advisory lock, the same in every process."""
    digest = hashlib.blake2b(f"servescope {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


# An advisory lock of 64 bits is shown as two halves.
_HOLDER = """
SELECT min(a.pid), min(coalesce(a.client_hostname, host(a.client_addr))),
    min(to_char(a.backend_start AT TIME ZONE 'UTC', 'HH24:MI:SS "UTC"'))
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.classid::bigint << 32) | l.objid::bigint = {key}
"""
# What libpq says where the server answers, but not to us.
_REFUSED_LOGIN = re.compile(
    r"authentication failed|no password supplied|does not exist|no pg_hba\.conf entry|"
    r"not permitted to log in|permission denied|certificate|does not support SSL|requires? SSL"
)
# Shutting down (three of them), too many connections.
_COMES_BACK = ("57P01", "57P02", "57P03", "53300")
_DOING = {MIGRATING: "opening or upgrading", UPKEEP: "tidying"}


class LakeSession:
    """A connection to the catalog's server that holds locks, and takes them again after a loss."""

    def __init__(self, place: LakePlace) -> None:
        self._place = place
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
    def alone(self, name: str) -> Iterator[None]:
        """While this lasts nobody else is in it; waits for its turn, but not for ever."""
        with self._turn, self._told():
            try:
                self._connection().execute("SELECT pg_advisory_lock(%s)", [key(name)])
            except psycopg.errors.LockNotAvailable as error:
                raise StoreError(
                    f"{self._place.name}: {self._holder(name)} has been {_DOING[name]} the store "
                    f"for {LOCK_WAIT_S:g} s; wait for it, or end it if it stands still"
                ) from error
        try:
            yield
        finally:
            with self._turn, contextlib.suppress(psycopg.Error):
                self._connection().execute("SELECT pg_advisory_unlock(%s)", [key(name)])

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

    def ready(self, schema: int) -> bool:
        """Whether all of this schema is there, behind the fence of this release."""
        return self.ask(_SIGN) == (f"{_FENCE_HASH} {schema}", True)

    def put_up_fence(self) -> None:
        """Have the catalog refuse what is stored already.

        Only where it does not stand yet: putting it up waits for all commits.
        """
        sign, stands = self.ask(_SIGN)
        if not (stands and str(sign).startswith(_FENCE_HASH)):
            with self._turn, self._told():
                self._connection().execute(_FENCE)

    def admit(self, schema: int) -> None:
        """Have the catalog refuse commits of an older schema; waits for those under way."""
        with self._turn, self._told():
            self._connection().execute(_ADMIT.format(schema=schema).encode())

    def set_ready(self, schema: int) -> None:
        """Say that all of this schema is there."""
        sign = f"{_FENCE_HASH} {schema}"
        with self._turn, self._told():
            self._connection().execute(
                f"COMMENT ON FUNCTION servescope_fence() IS '{sign}'".encode()
            )

    def begin_statistics(self) -> None:
        """Give tables that were just made the statistics of an empty one.

        Only while nobody appends to them: DuckLake makes them with the first rows otherwise.
        """
        with self._turn, self._told():
            self._connection().execute(_BEGIN_STATISTICS)

    def _holder(self, name: str) -> str:
        """Who holds this lock, as its operator finds it."""
        row = self.ask(_HOLDER.format(key=key(name)))
        pid, host, since = row
        where = f" from {host}" if host else ""
        return f"another process (connection {pid}{where}, since {since})" if pid else "another"

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
                self._con = psycopg.connect(self._place.conninfo, autocommit=True)
                self._con.execute(f"SET lock_timeout = '{LOCK_WAIT_S:g}s'")
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


def _is_away(error: psycopg.Error) -> bool:
    """Whether waiting may help: nothing says that somebody has to mend something first.

    A failure to connect has no SQLSTATE, whatever its cause.
    """
    if not isinstance(error, psycopg.OperationalError):
        return False
    if error.sqlstate is None:
        return not _REFUSED_LOGIN.search(str(error))
    return error.sqlstate.startswith("08") or error.sqlstate in _COMES_BACK
