"""How far each file has been read, and finding that again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime

import duckdb

from data.literal import literal


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far one file generation has been read, and what is needed to read on."""

    source_id: str
    file_id: str
    path: str
    seq: int  # grows over all generations of a path
    byte_offset: int
    line_no: int
    fingerprint: str
    fingerprint_len: int
    tail_hash: str
    state: str
    finished: bool = False
    new_texts: tuple[tuple[str, str], ...] = ()  # hash and text; in a table of their own
    at: datetime | None = None  # UTC: what was written since may be unread; None: now
    after: int | None = None  # seq of the one it goes on from, 0: none; None: any lower one


COLUMNS = tuple(
    field.name for field in fields(Checkpoint) if field.name not in ("new_texts", "at", "after")
)
_COLUMNS = ", ".join(COLUMNS)


def texts(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The long texts that states refer to, by hash."""
    return dict(con.execute("SELECT hash, text FROM checkpoint_texts").fetchall())


def last_under_path(con: duckdb.DuckDBPyConnection, path: str) -> tuple[int, Checkpoint | None]:
    """The highest seq under this path, 0 if it was never read; and the latest checkpoint of the
    generation that was read last under it, unless that has moved on under another name since."""
    row = con.execute(
        f"SELECT max(seq), arg_max(file_id, seq) FROM checkpoints WHERE path = {literal(path)}"
    ).fetchone()
    if row is None or row[0] is None:
        return 0, None
    last = _from(con, row[1], row[0])
    return int(row[0]), last if last.path == path else None


def last_of_source(
    con: duckdb.DuckDBPyConnection, source_id: str
) -> tuple[datetime, Checkpoint | None]:
    """When the source was read last, UTC, long ago if it never was; and the latest checkpoint of
    the generation that it read last."""
    row = con.execute(
        'SELECT max("at"), arg_max((file_id, seq), ("at", seq)) FILTER (WHERE byte_offset > 0) '
        f"FROM checkpoints WHERE source_id = {literal(source_id)}"
    ).fetchone()
    if row is None or row[0] is None:
        return datetime.fromtimestamp(0, UTC), None
    return row[0].replace(tzinfo=UTC), _from(con, *row[1]) if row[1] else None


def _from(con: duckdb.DuckDBPyConnection, file_id: str, seq: int) -> Checkpoint:
    """The latest checkpoint of a generation, which is not before `seq`. States are long: what is
    looked for is found without them first."""
    rows = con.execute(
        f"SELECT {_COLUMNS} FROM checkpoints WHERE file_id = {literal(file_id)} AND seq >= {seq}"
    ).fetchall()
    return max((Checkpoint(*row) for row in rows), key=lambda checkpoint: checkpoint.seq)


def begin_like(con: duckdb.DuckDBPyConnection, head: bytes, most: int) -> Iterator[Checkpoint]:
    """The latest checkpoints of all files that begin as `head` does, the longest first.

    Args:
        head: the first `most` bytes of a file, or all that it has. A fingerprint is of so many;
            of a file of which fewer were read it is of all these.
    """
    like = (
        f"(len = {most} AND fingerprint = {literal(_hash(head))}) "
        f'OR (len < {most} AND len = "end" AND len BETWEEN 1 AND {len(head)})'
    )
    known = (
        "SELECT DISTINCT file_id, fingerprint, len FROM (SELECT file_id, fingerprint, "
        f'fingerprint_len AS len, byte_offset AS "end" FROM checkpoints) WHERE {like}'
    )
    found = [
        literal(file_id)
        for file_id, fingerprint, length in con.execute(known).fetchall()
        if length == most or _hash(head[:length]) == fingerprint
    ]
    if not found:
        return
    rows = con.execute(
        "SELECT file_id, seq, fingerprint, len FROM (SELECT file_id, max(seq) AS seq, "
        "arg_max(fingerprint, seq) AS fingerprint, arg_max(fingerprint_len, seq) AS len, "
        'arg_max(byte_offset, seq) AS "end" FROM checkpoints '
        f"WHERE file_id IN ({', '.join(found)}) GROUP BY file_id) "
        f'WHERE {like} ORDER BY "end" DESC'
    ).fetchall()
    for file_id, seq, fingerprint, length in rows:
        if length == most or _hash(head[:length]) == fingerprint:
            yield _from(con, file_id, seq)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def latest(con: duckdb.DuckDBPyConnection, file_id: str) -> Checkpoint | None:
    """The latest checkpoint of this generation."""
    row = con.execute(
        f"SELECT {_COLUMNS} FROM checkpoints WHERE file_id = {literal(file_id)} "
        "ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    return None if row is None else Checkpoint(*row)


def latest_seq(con: duckdb.DuckDBPyConnection, file_id: str) -> int:
    """The highest seq of this generation, 0 if nothing of it is stored."""
    row = con.execute(
        f"SELECT max(seq) FROM checkpoints WHERE file_id = {literal(file_id)}"
    ).fetchone()
    return int(row[0]) if row and row[0] is not None else 0
