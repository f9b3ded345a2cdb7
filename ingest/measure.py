"""Printed samples to placed, ranked and timed ones: the steps between reading and storing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from ingest.runs import Run
from parsers.record_search import PRINTED
from parsers.records import (
    CHOICES,
    ENGINE,
    FEW_ROWS,
    HIT_RATE_SCOPE,
    KIND,
    SAMPLES,
    constant,
    empty,
    is_constant,
    says,
    with_columns,
)
from parsers.windows import Measured, Rank, RunClock
from parsers.windows_sglang import measure_sglang
from parsers.windows_vllm import measure_spec, measure_vllm

_RANK_COLUMNS = {"DP": "dp_rank", "TP": "tp_rank", "PP": "pp_rank", "EP": "ep_rank"}
_PREALLOCATED = ('"#prealloc-req"', '"pre-allocated usage"')
_RANK_NAMES = list(_RANK_COLUMNS.values())
_ONE_RANK = [*_RANK_NAMES, "engine_index"]
_PRINTED = PRINTED | {"engine": ENGINE, "kind": KIND}


def together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All samples of a block in file order, with every PRINTED column."""
    if not frames:
        return empty(_PRINTED)
    whole = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal")
    if whole["off"].is_sorted():
        return whole
    same = [column.name for column in whole.iter_columns() if is_constant(column)]
    varied = whole.drop(same).sort("off", maintain_order=True)
    every = whole.height
    return varied.with_columns(whole[name].head(1).new_from_index(0, every) for name in same)


def placed(printed: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
    """Samples with their times, places and ranks in contract columns."""
    columns = {column.name: column for column in (*printed.iter_columns(), *times.iter_columns())}
    placed = [columns.pop("off").alias("byte_offset"), columns.pop("no").alias("line_no")]
    ranks = _ranks(columns["ranks"])
    for name in ("stamp", "date", "time", "ranks"):
        del columns[name]
    return pl.DataFrame([*placed, *columns.values(), *ranks])


def _ranks(printed: pl.Series) -> Iterator[pl.Series]:
    """Rank numbers from printed tokens (" DP0 ATTN_CP1 TP2"): few spellings, so read once each."""
    few = printed.head(1) if is_constant(printed) else printed.unique()
    spellings = set(few.to_list())
    tokens = {s: dict(re.findall(r" ([A-Z_]+)([0-9]+)", s or "")) for s in spellings}
    for token, column in _RANK_COLUMNS.items():
        numbers = {s: int(t[token]) if token in t else None for s, t in tokens.items()}
        if len(set(numbers.values())) <= 1:
            number = next(iter(numbers.values()), None)
            yield constant(column, number, pl.Int32(), printed.len())
        else:
            yield printed.replace_strict(numbers, return_dtype=pl.Int32).alias(column)


def engine_indexed(rows: pl.DataFrame, last: int | None) -> tuple[pl.DataFrame, int | None]:
    """vLLM's engine numbers: a spec line carries none and belongs to the engine line before it,
    and so do the figures beside the samples that carry none."""
    if not says(rows["engine"], "vllm").any():
        return rows.hstack([constant("engine_index", None, pl.Int32(), rows.height)]), last
    own = pl.col("engine_no").cast(pl.Int32, strict=False)
    is_stats = pl.col("kind") == "stats"
    follows = (pl.col("kind") == "spec") | ((pl.col("kind") == "metrics") & own.is_null())
    # -1 stands for "a line without a number", so that it hides an older number from its spec line.
    seen = (
        pl.when(is_stats)
        .then(own.fill_null(-1))
        .forward_fill()
        .fill_null(-1 if last is None else last)
    )
    rows = rows.with_columns(
        engine_index=pl.when(follows).then(seen.replace(-1, None)).otherwise(own), _seen=seen
    )
    return rows.drop("_seen"), int(rows["_seen"][-1])


def by_run(
    rows: pl.DataFrame, starts: Sequence[tuple[int, Run]]
) -> Iterator[tuple[Run, pl.DataFrame]]:
    """The rows of each run of a block."""
    if not rows.height:
        return
    off = rows["byte_offset"].to_numpy()
    cuts = [0, *(int(off.searchsorted(start)) for start, _ in starts[1:]), rows.height]
    for (_, run), start, end in zip(starts, cuts[:-1], cuts[1:], strict=True):
        if end > start:
            named = constant("run_id", run.run_id, pl.String(), end - start)
            yield run, with_columns(rows.slice(start, end - start), named)


def by_rank(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of each rank, in file order."""
    if not rows.height:
        return
    one = all(is_constant(rows[name]) for name in ("engine", *_ONE_RANK))
    parts = [rows] if one else rows.partition_by("engine", *_ONE_RANK, maintain_order=True)
    for part in parts:
        yield rank_key(part), part


def by_kind(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """A rank's spec rows, its figures that have no window, and all others."""
    kind = rows["kind"]
    spec, beside = says(kind, "spec"), says(kind, "metrics")
    if not spec.any() and not beside.any():
        return rows.clear(), rows.clear(), rows
    return rows.filter(spec), rows.filter(beside), rows.filter(~spec & ~beside)


def rank_key(rows: pl.DataFrame) -> str:
    """Names the rank of rows that all have the same one."""
    first = (rows[name][0] for name in ("engine", *_ONE_RANK))
    return ",".join("" if value is None else str(value) for value in first)


def with_hit_scope(rows: pl.DataFrame, version: object) -> pl.DataFrame:
    """Stats rows with what their prefix hit rate is taken over: vLLM 0.7 resets it with every
    line, later releases take the last 1000 requests."""
    if not str(version or "").startswith("0.7."):
        return rows
    printed = (pl.col("kind") == "stats") & pl.col("prefix_hit_rate").is_not_null()
    interval = pl.lit("interval", HIT_RATE_SCOPE)
    return rows.with_columns(
        hit_rate_scope=pl.when(printed).then(interval).otherwise(pl.col("hit_rate_scope"))
    )


def admits_without_prefill(rows: pl.DataFrame) -> bool:
    """Whether a rank is a PD decode node, which its decode lines say even where no args are."""
    extra = rows["extra"]
    if extra.null_count() < extra.len():
        extra = extra.filter(rows["kind"] == "decode")
    first = extra[0] if extra.len() else None
    return first is not None and any(name in first for name in _PREALLOCATED)


def timed(rows: pl.DataFrame, rank: Rank, clock: RunClock) -> tuple[pl.DataFrame, Measured]:
    """A rank's decode and prefill or stats rows with their windows."""
    if rows["engine"][0] == "sglang":
        measured = measure_sglang(rows, rank, clock)
    else:
        measured = measure_vllm(rows, rank, clock, _default_interval(rows))
    return _with_windows(rows, measured), measured


def timed_spec(
    rows: pl.DataFrame, stats: pl.DataFrame, rank: Rank, engine: Rank
) -> tuple[pl.DataFrame, Measured]:
    """An engine's spec rows with their windows."""
    measured = measure_spec(rows, stats, rank, engine)
    return _with_windows(rows, measured), measured


def _with_windows(rows: pl.DataFrame, measured: Measured) -> pl.DataFrame:
    return with_columns(
        rows,
        pl.Series("interval_s", measured.interval_s, nan_to_null=True),
        _chosen("interval_from", measured.interval_from),
        _chosen("window", measured.window),
    )


def _chosen(name: str, places: npt.NDArray[np.int64]) -> pl.Series:
    """A column of texts, by their places among its choices."""
    choices, dtype = CHOICES[name], SAMPLES[name]
    if len(places) and (places == places[0]).all():
        return constant(name, choices[places[0]], dtype, len(places))
    if len(places) <= FEW_ROWS:
        return pl.Series(name, [choices[place] for place in places.tolist()], dtype=dtype)
    return pl.Series(name, places.astype(np.uint8)).cat.to(dtype)


def _default_interval(rows: pl.DataFrame) -> float:
    """Seconds between stats lines where nothing is learnt yet: V0 5, V1 10."""
    return 5.0 if bool(rows["extra"].str.contains('"Swapped"', literal=True).any()) else 10.0


def complete(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with every contract column, those that no line of the block had as null."""
    known = set(rows.columns)
    missing = tuple(name for name in SAMPLES if name not in known)
    few = rows.height <= FEW_ROWS
    nulls = _few_nulls(missing).head(rows.height) if few else _nulls(missing, rows.height)
    return rows.hstack(nulls.get_columns())


def _nulls(names: tuple[str, ...], rows: int) -> pl.DataFrame:
    return pl.DataFrame([constant(name, None, SAMPLES[name], rows) for name in names])


@lru_cache(32)
def _few_nulls(names: tuple[str, ...]) -> pl.DataFrame:
    return _nulls(names, FEW_ROWS)
