"""What other processes follow into a store of many machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import duckdb

from data.lake_fence import key

_SOURCES: Final = """
SELECT source_id, label, stored_at
FROM (SELECT source_id, arg_max(label, "at") AS label FROM sources GROUP BY source_id)
LEFT JOIN (SELECT source_id, max("at") AS stored_at FROM checkpoints GROUP BY source_id)
    USING (source_id)
ORDER BY source_id
"""


class Elsewhere(NamedTuple):
    """A source of another process."""

    source_id: str
    label: str | None
    by: str | None  # the process that follows it, None: it did until now
    stored_at: datetime | None  # UTC, by its clock: when it stored lines of it last


def lock_of(source_id: str) -> str:
    """The lock that is held by whoever follows a source."""
    return f"source {source_id}"


def followed(
    con: duckdb.DuckDBPyConnection, holders: Mapping[int, str], before: Sequence[Elsewhere]
) -> list[Elsewhere]:
    """What others follow now, and what they did.

    A collector that is started anew holds no lock for a moment, and its source is none less.

    Args:
        holders: of locks, by number.
        before: the answer of the last time.
    """
    known = {source.source_id for source in before}
    found = []
    for source_id, label, stored_at in con.execute(_SOURCES).fetchall():
        by = holders.get(key(lock_of(source_id)))
        if by is not None or source_id in known:
            found.append(Elsewhere(source_id, label, by, stored_at))
    return found
