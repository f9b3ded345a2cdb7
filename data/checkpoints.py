"""How far each file has been read, and finding that again."""

from __future__ import annotations

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
    after: int | None = None  # seq of the one it goes on from, 0: none; None: any lower one


COLUMNS = tuple(
    field.name for field in fields(Checkpoint) if field.name not in ("new_texts", "after")
)
_COLUMNS = ", ".join(COLUMNS)


def texts(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The long texts that states refer to, by hash."""
    return dict(con.execute("SELECT hash, text FROM checkpoint_texts").fetchall())


def last_under_path(con: duckdb.DuckDBPyConnection, path: str) -> Checkpoint | None:
    """The latest checkpoint of the generation that was read last under this path."""
    row = con.execute(
        f"SELECT {_COLUMNS} FROM checkpoints WHERE path = {literal(path)} ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    last = Checkpoint(*row)
    # The file may have moved on under another name since.
    latest = con.execute(
        f"SELECT path FROM checkpoints_latest WHERE file_id = {literal(last.file_id)}"
    ).fetchone()
    return last if latest == (path,) else None


def last_of_source(con: duckdb.DuckDBPyConnection, source_id: str) -> Checkpoint | None:
    """The latest checkpoint of the generation that a source read last."""
    row = con.execute(
        f"SELECT {_COLUMNS} FROM checkpoints WHERE source_id = {literal(source_id)} "
        'AND byte_offset > 0 ORDER BY "at" DESC, seq DESC LIMIT 1'
    ).fetchone()
    return Checkpoint(*row) if row else None


def stored_at(con: duckdb.DuckDBPyConnection, source_id: str) -> datetime:
    """When the source's last checkpoint was stored, UTC; long ago if there is none."""
    row = con.execute(
        f'SELECT max("at") FROM checkpoints WHERE source_id = {literal(source_id)}'
    ).fetchone()
    found: datetime | None = row[0] if row else None
    return found.replace(tzinfo=UTC) if found else datetime.fromtimestamp(0, UTC)


def with_small_head(con: duckdb.DuckDBPyConnection, below: int) -> list[Checkpoint]:
    """The latest checkpoints of all files of which fewer than `below` bytes were read."""
    rows = con.execute(
        f"SELECT {_COLUMNS} FROM checkpoints_latest WHERE fingerprint_len < {below} "
        "AND byte_offset > 0 ORDER BY byte_offset DESC"
    ).fetchall()
    return [Checkpoint(*row) for row in rows]


def with_head(con: duckdb.DuckDBPyConnection, fingerprint: str, length: int) -> list[Checkpoint]:
    """The latest checkpoints of all files that begin with these bytes."""
    rows = con.execute(
        f"SELECT {_COLUMNS} FROM checkpoints_latest WHERE fingerprint = {literal(fingerprint)} "
        f"AND fingerprint_len = {length} ORDER BY byte_offset DESC"
    ).fetchall()
    return [Checkpoint(*row) for row in rows]


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
