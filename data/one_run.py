"""Queries over the view `counted_timed`, for one run at half the cost.

The view knows of every kind of sample and all its columns, and a question on a few rows of it is
planned longer than it is answered. So the page that asks each second asks of what its run has:
the same rows, of the kinds that the run has, with the columns that the queries need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb

from data import compact, minutes
from data.compact import COLUMNS, GROUP, TABLES, own_extremes
from parsers.records import SAMPLES

_NEEDED = (
    "run_id", "file_id", "kind", "window", "byte_offset", "line_no", "ts", "running_reqs",
    "queued_reqs", "kv_usage", "gen_tok_s", "prompt_tok_s", "new_tokens", "accept_len",
    "draft_accept_rate", "request_steps", "interval_s",
)  # fmt: skip
_EXTREMES = ("gen_tok_s_min", "gen_tok_s_max")


@dataclass(frozen=True, slots=True)
class Held:
    """What the store has of a run."""

    kinds: tuple[str, ...]
    by_minute: bool  # some of it was rolled up


def held(con: duckdb.DuckDBPyConnection, run_id: str) -> Held:
    """What the store has of this run."""
    kinds = con.execute(
        "SELECT DISTINCT kind FROM sample_groups WHERE run_id = $run_id ORDER BY kind",
        {"run_id": run_id},
    ).fetchall()
    rolled = con.execute(
        f"SELECT 1 FROM {minutes.TABLE} WHERE group_id IN "
        "(SELECT group_id FROM sample_groups WHERE run_id = $run_id) LIMIT 1",
        {"run_id": run_id},
    ).fetchone()
    return Held(tuple(kind for (kind,) in kinds), rolled is not None)


def at_most(con: duckdb.DuckDBPyConnection, of: Held, place: Mapping[str, Any]) -> int:
    """How many samples of its own a run has in a time, those of ranks that do not count too.

    Args:
        place: run_id, start, end.
    """
    if not of.kinds:
        return 0
    tables = " UNION ALL ".join(f"SELECT group_id, ts FROM {TABLES[kind]}" for kind in of.kinds)
    row = con.execute(
        f"SELECT count(*) FROM ({tables}) WHERE ts BETWEEN $start AND $end AND group_id IN "
        "(SELECT group_id FROM sample_groups WHERE run_id = $run_id)",
        dict(place),
    ).fetchone()
    return 0 if row is None else int(row[0])


def narrowed(query: str, of: Held) -> str:
    """A query over `counted_timed s` with the parameter run_id, as one over what this run has."""
    return _narrowed(query, of.kinds, of.by_minute) if of.kinds else query


@cache
def _narrowed(query: str, kinds: tuple[str, ...], rolled: bool) -> str:
    union = " UNION ALL ".join(_parts(kinds, rolled))
    first = f"""WITH groups AS MATERIALIZED (
    SELECT * FROM {compact.COUNTED_GROUPS} WHERE run_id = $run_id
), mine AS (
    {union}
), timed AS (
    SELECT m.* REPLACE (coalesce(i.interval_s, m.interval_s) AS interval_s)
    FROM mine m LEFT JOIN (SELECT * FROM sample_intervals WHERE run_id = $run_id) i
        ON i.file_id = m.file_id AND i.byte_offset = m.byte_offset
), """
    narrowed, found = re.subn(r"^WITH ", first, query, count=1, flags=re.MULTILINE)
    assert found == 1
    return narrowed.replace("counted_timed s", "timed s")


def _parts(kinds: tuple[str, ...], rolled: bool) -> Iterator[str]:
    def of(table: str, columns: Iterator[str]) -> str:
        return (
            f"SELECT g.rank, {', '.join(columns)} FROM {table} r "
            "JOIN groups g ON g.group_id = r.group_id"
        )

    for kind in kinds:
        yield of(TABLES[kind], _columns(kind))
    if rolled:
        yield of(minutes.TABLE, _columns_of_minutes())


def _columns(kind: str) -> Iterator[str]:
    for name in _NEEDED:
        if name in GROUP:
            yield f'g."{name}"'
        elif name in COLUMNS[kind]:
            yield f"r.{name}"
        else:
            yield f"NULL::{compact.SQL_TYPES[SAMPLES[name]]} AS {name}"
    yield from own_extremes(kind)


def _columns_of_minutes() -> Iterator[str]:
    for name in _NEEDED:
        sql_type = compact.SQL_TYPES.get(SAMPLES[name], "")
        yield f'g."{name}"' if name in GROUP else minutes.column(name, sql_type)
    yield from (f"r.{name}" for name in _EXTREMES)
