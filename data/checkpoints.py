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


def last_under_path(con: duckdb.DuckDBPyConnection, path: str) -> Checkpoint | None:
    """The latest checkpoint of the generation that was read last under this path."""
    row = con.execute(
        f"SELECT arg_max(file_id, seq) FROM checkpoints WHERE path = {literal(path)}"
    ).fetchone()
    if row is None or row[0] is None:
        return None
    last = _at(con, row[0], latest_seq(con, row[0]))
    # The file may have moved on under another name since.
    return last if last.path == path else None


def last_of_source(con: duckdb.DuckDBPyConnection, source_id: str) -> Checkpoint | None:
    """The latest checkpoint of the generation that a source read last."""
    row = con.execute(
        'SELECT arg_max((file_id, seq), ("at", seq)) FROM checkpoints '
        f"WHERE source_id = {literal(source_id)} AND byte_offset > 0"
    ).fetchone()
    return _at(con, *row[0]) if row and row[0] else None


def _at(con: duckdb.DuckDBPyConnection, file_id: str, seq: int) -> Checkpoint:
    """One checkpoint. States are long: what is looked for is found without them first."""
    row = con.execute(
        f"SELECT {_COLUMNS} FROM checkpoints WHERE file_id = {literal(file_id)} AND seq = {seq}"
    ).fetchone()
    assert row is not None
    return Checkpoint(*row)


def read_at(con: duckdb.DuckDBPyConnection, source_id: str) -> datetime:
    """When the source was read last, UTC; long ago if it never was."""
    row = con.execute(
        f'SELECT max("at") FROM checkpoints WHERE source_id = {literal(source_id)}'
    ).fetchone()
    found: datetime | None = row[0] if row else None
    return found.replace(tzinfo=UTC) if found else datetime.fromtimestamp(0, UTC)


def begin_like(con: duckdb.DuckDBPyConnection, head: bytes, most: int) -> Iterator[Checkpoint]:
    """The latest checkpoints of all files that begin as `head` does, the longest first.

    Args:
        head: the first `most` bytes of a file, or all that it has. A fingerprint is of so many;
            of a file of which fewer were read it is of all these.
    """
    whole = f"len = {most} AND fingerprint = {literal(_hash(head))}"
    rows = con.execute(
        "SELECT file_id, seq, fingerprint, len FROM (SELECT file_id, max(seq) AS seq, "
        "arg_max(fingerprint, seq) AS fingerprint, arg_max(fingerprint_len, seq) AS len, "
        'arg_max(byte_offset, seq) AS "end" FROM checkpoints GROUP BY file_id) '
        f'WHERE {whole} OR (len < {most} AND len = "end" AND len BETWEEN 1 AND {len(head)}) '
        'ORDER BY "end" DESC'
    ).fetchall()
    for file_id, seq, fingerprint, length in rows:
        if length == most or _hash(head[:length]) == fingerprint:
            yield _at(con, file_id, seq)


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


def last_seq(con: duckdb.DuckDBPyConnection, path: str) -> int:
    """The highest seq under this path, 0 if it was never read."""
    row = con.execute(f"SELECT max(seq) FROM checkpoints WHERE path = {literal(path)}").fetchone()
    return int(row[0]) if row and row[0] is not None else 0
