"""Samples as the store keeps them: what many have in common once, and no column that a kind lacks.

Run, place, ranks, kind and everything else that takes few values is one number, explained in the
table `sample_groups`. The rest stands in one table a kind, with the columns that its lines can
fill. The view `samples` has the columns of the contract again. Half of a wide table would be
nulls, and appending a null costs as much as appending a number: this way it costs a third.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

import numpy as np
import polars as pl

from data import minutes
from parsers.records import CHOICES, SAMPLES, Schema, empty, is_constant, joined

_FEW_ROWS = 1000  # of one append: a part of their own would cost more than it saves
# What a group says of its samples. The first ones hardly ever differ within an append.
_SAME = (
    "run_id", "source_id", "file_id", "dp_rank", "tp_rank", "pp_rank", "ep_rank", "engine_index",
)  # fmt: skip
_FEW = (*CHOICES, "ts_inferred", "graph_on")
GROUP = tuple(name for name in SAMPLES if name in _SAME or name in _FEW)
_GROUPS: Schema = {
    "group_id": pl.Int64(),
    **{name: pl.String() if name in CHOICES else SAMPLES[name] for name in GROUP},
}
# How many values each of the few can take, null included; and all of them together.
_SIZES = {name: len(CHOICES.get(name, (False, True))) + 1 for name in _FEW}
_COMBINATIONS = math.prod(_SIZES.values())

_PLACE = ("byte_offset", "line_no", "ts")
_LOAD = ("running_reqs", "queued_reqs", "kv_tokens", "kv_usage")
_SPECULATION = (
    "accept_len", "accept_rate_raw", "draft_accept_rate", "accepted_tokens", "drafted_tokens",
    "accept_per_position", "request_steps",
)  # fmt: skip
_LAST = ("interval_s", "extra")
# The columns that lines of each kind can fill beside those of their group.
COLUMNS = {
    "decode": (
        *_PLACE, *_LOAD, "gen_tok_s", "accept_len", "accept_rate_raw", "draft_accept_rate",
        "request_steps", "retracted_reqs", *_LAST,
    ),
    "prefill": (
        *_PLACE, *_LOAD, "prompt_tok_s", "new_seqs", "new_tokens", "cached_tokens",
        "prefix_hit_rate", *_LAST,
    ),
    "stats": (
        *_PLACE, *_LOAD, "gen_tok_s", "prompt_tok_s", "prefix_hit_rate", "preemptions", *_LAST,
    ),
    "spec": (*_PLACE, *_SPECULATION, *_LAST),
    "metrics": (*_PLACE, "prefix_hit_rate", *_LAST),
}  # fmt: skip
TABLES = {kind: f"{kind}_rows" for kind in COLUMNS}
SQL_TYPES = {
    pl.String(): "VARCHAR", pl.Int32(): "INTEGER", pl.Int64(): "BIGINT", pl.Float64(): "DOUBLE",
    pl.Datetime("us"): "TIMESTAMP", pl.List(pl.Float64()): "DOUBLE[]",
}  # fmt: skip


def encode(
    parts: Sequence[pl.DataFrame], known: Collection[int] = ()
) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Rows by the table they go to, without columns that are all null; and the rows of
    `sample_groups` for every group that they name.

    Args:
        parts: samples parted by `parted`.
        known: groups whose rows are not asked for.
    """
    rows: dict[str, list[pl.DataFrame]] = {}
    groups: list[pl.DataFrame] = []
    for part in parts:
        numbers = _numbers(part)
        if (new := _named(part, numbers, known)) is not None:
            groups.append(new)
        for kind, mine in _by_kind(pl.DataFrame([numbers, *_filled(part)])):
            rows.setdefault(TABLES[kind], []).append(mine)
    full = {table: joined(of_table) for table, of_table in rows.items()}
    return full, joined(groups) if groups else empty(_GROUPS)


def _filled(frame: pl.DataFrame) -> Iterator[pl.Series]:
    """The columns of a frame that have a value."""
    return (column for column in frame.iter_columns() if column.null_count() < frame.height)


def _by_kind(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """What the table of each kind has columns for; ValueError for other values: never dropped."""
    left = {column.name: column.count() for column in rows.iter_columns()}
    kinds = rows["kind"].unique().to_list()
    for kind in kinds:
        names = [name for name in ("group_id", *COLUMNS[kind]) if name in left]
        mine = rows.drop(left.keys() - set(names))
        if len(kinds) > 1:
            mine = pl.DataFrame([*_filled(mine.filter(rows["kind"] == kind))])
        for column in mine.iter_columns():
            left[column.name] -= column.count()
        yield kind, mine
    for name, values in left.items():
        if values and name not in GROUP:
            has = rows["kind"].filter(rows[name].is_not_null()).unique().to_list()
            odd = ", ".join(kind for kind in has if name not in COLUMNS[kind])
            raise ValueError(f"samples of kind {odd} have no column {name}")


def parted(samples: pl.DataFrame, appends: int = 1) -> list[pl.DataFrame]:
    """Samples in parts that are each of one run, file and rank; few of each stay together.

    Args:
        appends: from how many they come, as of sources that are followed beside each other.
    """
    if samples.height <= _FEW_ROWS * appends or _is_one(samples):
        return [samples] if samples.height else []
    return samples.partition_by(_SAME, maintain_order=True)


def _is_one(samples: pl.DataFrame) -> bool:
    return all(is_constant(samples[name]) for name in _SAME)


def _numbers(part: pl.DataFrame) -> pl.Series:
    """The group of each row of a part.

    A group's number is that of its run, file and rank, with the place of its few values among
    all their combinations in the lowest bits: numbers of one run lie close together.
    """
    if part.height <= _FEW_ROWS:
        rows = zip(*(part[name].to_list() for name in (*_SAME, *_FEW)), strict=True)
        numbers = [_number(*row[: len(_SAME)]) + _place(*row[len(_SAME) :]) for row in rows]
        return pl.Series("group_id", numbers, dtype=pl.Int64)
    places = _places(part)
    if _is_one(part):
        return places + _number(*(part[name][0] for name in _SAME))
    ranks = zip(*(part[name].to_list() for name in _SAME), strict=True)
    return places + pl.Series([_number(*rank) for rank in ranks], dtype=pl.Int64)


def _named(part: pl.DataFrame, numbers: pl.Series, known: Collection[int]) -> pl.DataFrame | None:
    """Rows of `sample_groups` for the groups of a part that are not known; None: all are."""
    found = numbers.to_list() if part.height <= _FEW_ROWS else numbers.unique().to_list()
    if all(number in known for number in found):
        return None
    places = numbers.arg_unique()
    first = {numbers[place]: place for place in places.to_list() if numbers[place] not in known}
    named = part.select(GROUP)[list(first.values())]
    named = named.with_columns(pl.col(name).cast(pl.String) for name in CHOICES)
    return named.insert_column(0, pl.Series("group_id", list(first), dtype=pl.Int64))


def _places(part: pl.DataFrame) -> pl.Series:
    """The place of each row's few values among all their combinations; most are all the same."""
    place, weight = np.zeros(part.height, np.int32), _COMBINATIONS
    for name, size in _SIZES.items():
        weight //= size
        column = part[name].head(1) if is_constant(part[name]) else part[name]
        code = column.to_physical().cast(pl.UInt8) + 1
        if code.null_count():
            code = code.fill_null(0)
        place += code.to_numpy() * np.int32(weight)
    return pl.Series("group_id", place, dtype=pl.Int64)


@lru_cache(1024)
def _place(*values: object) -> int:
    """The place of a row's few values: what `_places` gives for a column of them."""
    place, weight = 0, _COMBINATIONS
    for (name, size), value in zip(_SIZES.items(), values, strict=True):
        weight //= size
        if value is not None:
            place += (1 + CHOICES.get(name, (False, True)).index(value)) * weight
    return place


@lru_cache(1024)
def _number(*values: object) -> int:
    """A number for these values whose lowest bits are free for a combination."""
    text = "\0".join("" if value is None else str(value) for value in (*values, *_SIZES.values()))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    bits = _COMBINATIONS.bit_length()
    return int.from_bytes(digest, "big", signed=True) >> bits << bits


_GROUPS_ONCE = "(SELECT DISTINCT * FROM sample_groups)"
# The groups of ranks that count, with the number that stands for the rank (view run_ranks).
COUNTED_GROUPS = f"""(
    SELECT g.*, coalesce(g.dp_rank, g.engine_index, 0) AS rank
    FROM {_GROUPS_ONCE} g JOIN run_ranks r
        ON r.run_id = g.run_id
        AND r.dp_rank IS NOT DISTINCT FROM g.dp_rank
        AND r.engine_index IS NOT DISTINCT FROM g.engine_index
        AND r.tp = coalesce(g.tp_rank, 0) AND r.pp = coalesce(g.pp_rank, 0)
)"""


def _union(groups: str, *, counted: bool = False) -> str:
    """All samples, with the columns of `groups` in their places.

    `counted`: also the number of the rank, and the extremes of what was rolled up.
    """
    spans = ("gen_tok_s_min", "gen_tok_s_max")
    parts = [(table, _columns(kind), own_extremes(kind)) for kind, table in TABLES.items()]
    parts.append((minutes.TABLE, _columns_of_minutes(), [f"r.{name}" for name in spans]))
    return " UNION ALL ".join(
        f"SELECT {', '.join([*columns, *(['g.rank', *extremes] if counted else [])])} "
        f"FROM {table} r JOIN {groups} g ON g.group_id = r.group_id"
        for table, columns, extremes in parts
    )


def own_extremes(kind: str) -> list[str]:
    """The lowest and the highest of what stands for one line: its own value."""
    value = "r.gen_tok_s" if "gen_tok_s" in COLUMNS[kind] else "NULL::DOUBLE"
    return [f"{value} AS gen_tok_s_min", f"{value} AS gen_tok_s_max"]


def _columns(kind: str) -> Iterator[str]:
    for name, dtype in SAMPLES.items():
        if name in GROUP:
            yield f'g."{name}"'
        elif name in COLUMNS[kind]:
            yield f'r."{name}"'
        else:
            yield f'NULL::{SQL_TYPES[dtype]} AS "{name}"'


def _columns_of_minutes() -> Iterator[str]:
    for name, dtype in SAMPLES.items():
        of_group = name in GROUP and name != "interval_from"
        yield f'g."{name}"' if of_group else minutes.column(name, SQL_TYPES.get(dtype, ""))


VIEWS = f"""
CREATE OR REPLACE VIEW samples AS {_union(_GROUPS_ONCE)};
CREATE OR REPLACE VIEW counted_samples AS {_union(COUNTED_GROUPS, counted=True)};
"""
