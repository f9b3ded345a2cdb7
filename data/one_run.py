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
import polars as pl

from data import compact, minutes
from data.asked import asked
from data.compact import COLUMNS, GROUP, TABLES, own_extremes
from data.literal import literal
from parsers.records import SAMPLES

_NEEDED = (
    "run_id", "file_id", "kind", "window", "byte_offset", "line_no", "ts", "running_reqs",
    "queued_reqs", "kv_usage", "gen_tok_s", "prompt_tok_s", "new_tokens", "accept_len",
    "draft_accept_rate", "request_steps", "interval_s",
)  # fmt: skip
_OWN = tuple(name for name in _NEEDED if name not in GROUP)
_EXTREMES = ("gen_tok_s_min", "gen_tok_s_max")


_GROUPS = (
    'SELECT group_id, file_id, kind, "window", dp_rank, engine_index, '
    "coalesce(tp_rank, 0) AS tp, coalesce(pp_rank, 0) AS pp FROM sample_groups "
    "WHERE run_id = $run_id"
)
_LISTED = 256  # groups that a query names; of more it asks


@dataclass(frozen=True, slots=True)
class Held:
    """What the store has of a run."""

    run_id: str
    groups: pl.DataFrame  # of the ranks that count: group_id, file_id, kind, window, rank
    kinds: tuple[str, ...]
    by_minute: bool  # some of it was rolled up


def held(con: duckdb.DuckDBPyConnection, run_id: str) -> Held:
    """What the store has of this run."""
    groups = asked(con, _GROUPS, {"run_id": run_id}).unique()
    rolled = con.execute(
        f"SELECT 1 FROM {minutes.TABLE} WHERE group_id IN "
        "(SELECT group_id FROM sample_groups WHERE run_id = $run_id) LIMIT 1",
        {"run_id": run_id},
    ).fetchone()
    return Held(run_id, _counted(groups), tuple(groups["kind"].unique().sort()), rolled is not None)


def _counted(groups: pl.DataFrame) -> pl.DataFrame:
    """The groups of the view run_ranks' ranks, with the number that stands for the rank."""
    lane = ["dp_rank", "engine_index"]
    lowest = (
        groups.filter(pl.col("kind") != "metrics")
        .select(*lane, "pp", "tp")
        .sort("pp", "tp")
        .unique(lane, keep="first", maintain_order=True)
    )
    counted = groups.join(lowest, on=[*lane, "pp", "tp"], how="semi", nulls_equal=True)
    rank = pl.coalesce("dp_rank", "engine_index", 0)
    return counted.select("group_id", "file_id", "kind", "window", rank=rank)


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


def between(of: Held) -> str:
    """A query for the samples of the groups that count, from $start to two minutes after $end:
    group_id and the columns that are no group's, windows as they were first stored.

    Nothing is joined in it: planning that would take longer than all else.
    """
    found = of.groups["group_id"]
    listed = ", ".join(map(str, found)) if 0 < len(found) <= _LISTED else None
    mine = listed or f"SELECT group_id FROM sample_groups WHERE run_id = {literal(of.run_id)}"
    return " UNION ALL ".join(
        f"SELECT group_id, {', '.join(columns)} FROM {table} r WHERE group_id IN ({mine}) "
        "AND ts >= $start AND ts <= $end::TIMESTAMP + INTERVAL 2 MINUTE"
        for table, columns in _tables(of.kinds, of.by_minute)
    )


@cache
def _tables(kinds: tuple[str, ...], rolled: bool) -> list[tuple[str, list[str]]]:
    """The tables of a run, each with its columns."""
    told = [kind for kind in kinds if kind != "metrics"] or ["decode"]
    of_kinds = [(TABLES[kind], list(_own(kind))) for kind in told]
    return [*of_kinds, (minutes.TABLE, list(_own_of_minutes()))] if rolled else of_kinds


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
    of_group = ", ".join(f'g."{name}"' for name in _NEEDED if name in GROUP)
    own = [(TABLES[kind], _own(kind)) for kind in kinds]
    for table, columns in [*own, (minutes.TABLE, _own_of_minutes())] if rolled else own:
        yield (
            f"SELECT g.rank, {of_group}, {', '.join(columns)} FROM {table} r "
            "JOIN groups g ON g.group_id = r.group_id"
        )


def _own(kind: str) -> Iterator[str]:
    """The columns that stand with each row, not with its group."""
    for name in _OWN:
        if name in COLUMNS[kind]:
            yield f"r.{name}"
        else:
            yield f"NULL::{compact.SQL_TYPES[SAMPLES[name]]} AS {name}"
    yield from own_extremes(kind)


def _own_of_minutes() -> Iterator[str]:
    for name in _OWN:
        yield minutes.column(name, compact.SQL_TYPES[SAMPLES[name]])
    yield from (f"r.{name}" for name in _EXTREMES)
