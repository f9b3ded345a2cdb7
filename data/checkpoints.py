"""How far each file has been read, and finding that again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

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
_SAME = "source_id, file_id, path, fingerprint, fingerprint_len"
FEW_TRACES = 1000  # to sum up so few checkpoints costs more than to hand them over
_LONG_AGO = datetime(1970, 1, 1)


def texts(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The long texts that states refer to, by hash."""
    return dict(con.execute("SELECT hash, text FROM checkpoint_texts").fetchall())


@dataclass(frozen=True, slots=True)
class Known:
    """What is stored of a file that is to be read, of its path and of its source.

    Attributes:
        seq: the highest under the path, 0 if it was never read.
        under_path: the latest checkpoint of the generation that was read last under the path,
            unless that has moved on under another name since.
        alike: the latest checkpoints of all files that begin as this one does, the longest first.
        read_at: when the source was read last, UTC; long ago if it never was.
        of_source: the latest checkpoint of the generation that the source read last.
    """

    seq: int
    under_path: Checkpoint | None
    alike: tuple[Checkpoint, ...]
    read_at: datetime
    of_source: Checkpoint | None


class _Trace(NamedTuple):
    """What a checkpoint says, or several of a generation that differ in how far it was read."""

    source_id: str
    file_id: str
    path: str
    fingerprint: str
    fingerprint_len: int
    seq: int
    at: datetime
    end: int


class _Beginning:
    """The first bytes of a file, as fingerprints tell them."""

    def __init__(self, head: bytes, most: int) -> None:
        self._head = head
        self._most = most
        self._hash = cache(lambda length: _hash(head[:length]))  # many files have the same length

    def is_of(self, fingerprint: str, length: int, end: int) -> bool:
        """Whether a file of which `end` bytes were read, with this fingerprint, begins so."""
        whole = length == self._most
        if not whole and not 0 < length == end <= min(len(self._head), self._most - 1):
            return False
        return bool(self._hash(length) == fingerprint)


def known(
    con: duckdb.DuckDBPyConnection,
    *,
    path: str | None = None,
    head: bytes = b"",
    most: int = 0,
    source_id: str | None = None,
) -> Known:
    """Find what was read, in two statements: a question costs more than its answer, and every file
    that is opened asks. The states are long, so they are looked up once it is known which.

    Args:
        head: the first `most` bytes of a file, or all that it has. A fingerprint is of so many;
            of a file of which fewer were read it is of all these.
    """
    traces = _traces(con, path, head, most, source_id)
    under = max((t for t in traces if t.path == path), key=lambda t: t.seq, default=None)
    read = [t for t in traces if t.source_id == source_id]
    last = max((t for t in read if t.end), key=lambda t: (t.at, t.seq), default=None)
    beginning = _Beginning(head, most)
    alike = [t for t in traces if beginning.is_of(t.fingerprint, t.fingerprint_len, t.end)]
    latest = _latest_of(con, [t for t in (under, last, *alike) if t is not None])
    began = [
        c
        for c in (latest[file_id] for file_id in dict.fromkeys(t.file_id for t in alike))
        if beginning.is_of(c.fingerprint, c.fingerprint_len, c.byte_offset)
    ]
    return Known(
        seq=under.seq if under else 0,
        under_path=latest[under.file_id] if under and latest[under.file_id].path == path else None,
        alike=tuple(sorted(began, key=lambda c: -c.byte_offset)),
        read_at=max((t.at for t in read), default=_LONG_AGO).replace(tzinfo=UTC),
        of_source=latest[last.file_id] if last else None,
    )


def _traces(
    con: duckdb.DuckDBPyConnection, path: str | None, head: bytes, most: int, source_id: str | None
) -> list[_Trace]:
    asked = {"path": path, "source_id": source_id}
    where = [f"{name} = {literal(text)}" for name, text in asked.items() if text is not None]
    if head:
        where.append(
            f"(fingerprint_len = {most} AND fingerprint = {literal(_hash(head))}) OR "
            f"(fingerprint_len < {most} AND fingerprint_len = byte_offset "
            f"AND fingerprint_len BETWEEN 1 AND {len(head)})"
        )
    found = f"FROM checkpoints WHERE {' OR '.join(where)}"
    each = f'SELECT {_SAME}, seq, "at", byte_offset {found} LIMIT {FEW_TRACES}'
    rows = con.execute(each).fetchall()
    if len(rows) == FEW_TRACES:  # there may be more
        summed = f'SELECT {_SAME}, max(seq), max("at"), max(byte_offset) {found} GROUP BY ALL'
        rows = con.execute(summed).fetchall()
    return [_Trace(*row) for row in rows]


def _latest_of(con: duckdb.DuckDBPyConnection, traces: Sequence[_Trace]) -> dict[str, Checkpoint]:
    """The latest checkpoints of these generations, by file id."""
    if not traces:
        return {}
    seqs: dict[str, int] = {}
    for trace in traces:
        seqs[trace.file_id] = max(trace.seq, seqs.get(trace.file_id, 0))
    where = " OR ".join(f"file_id = {literal(name)} AND seq >= {seq}" for name, seq in seqs.items())
    rows = con.execute(f"SELECT {_COLUMNS} FROM checkpoints WHERE {where}").fetchall()
    found = sorted((Checkpoint(*row) for row in rows), key=lambda checkpoint: checkpoint.seq)
    return {checkpoint.file_id: checkpoint for checkpoint in found}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def latest(con: duckdb.DuckDBPyConnection, file_id: str) -> Checkpoint | None:
    """The latest checkpoint of this generation."""
    row = con.execute(
        f"SELECT {_COLUMNS} FROM checkpoints WHERE file_id = {literal(file_id)} "
        "ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    return None if row is None else Checkpoint(*row)


def latest_seqs(con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """The highest seq of every generation."""
    return dict(
        con.execute("SELECT file_id, max(seq) FROM checkpoints GROUP BY file_id").fetchall()
    )


def latest_seq(con: duckdb.DuckDBPyConnection, file_id: str) -> int:
    """The highest seq of this generation, 0 if nothing of it is stored."""
    row = con.execute(
        f"SELECT max(seq) FROM checkpoints WHERE file_id = {literal(file_id)}"
    ).fetchone()
    return int(row[0]) if row and row[0] is not None else 0
