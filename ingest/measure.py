"""Printed samples to placed, ranked and timed ones: the steps between reading and storing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from ingest.runs import Run
from parsers import windows
from parsers.record_search import PRINTED
from parsers.records import ENGINE, HIT_RATE_SCOPE, INTERVAL_FROM, KIND, SAMPLES, WINDOW
from parsers.windows import Measured, Rank, RunClock

_RANK_COLUMNS = {"DP": "dp_rank", "TP": "tp_rank", "PP": "pp_rank", "EP": "ep_rank"}
_RANK_NAMES = list(_RANK_COLUMNS.values())
_ONE_RANK = [*_RANK_NAMES, "engine_index"]


def together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All samples of a block in file order, with every PRINTED column."""
    if not frames:
        return pl.DataFrame(schema=PRINTED | {"engine": ENGINE, "kind": KIND})
    return pl.concat(frames, how="diagonal").sort("off", maintain_order=True)


def placed(printed: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
    """Samples with their times, places and ranks in contract columns."""
    rows = printed.hstack(times).rename({"off": "byte_offset", "no": "line_no"})
    return _with_ranks(rows).drop("stamp", "date", "time", "ranks")


def _with_ranks(rows: pl.DataFrame) -> pl.DataFrame:
    """Rank numbers from printed tokens (" DP0 ATTN_CP1 TP2"): few spellings, so read once each."""
    spellings = rows["ranks"].unique().to_list()
    tokens = {s: dict(re.findall(r" ([A-Z_]+)([0-9]+)", s or "")) for s in spellings}
    return rows.with_columns(
        (
            pl.lit(_only(tokens, token))
            if len(spellings) == 1
            else pl.col("ranks").replace_strict(
                {s: int(t[token]) if token in t else None for s, t in tokens.items()},
                return_dtype=pl.Int32,
            )
        )
        .cast(pl.Int32)
        .alias(column)
        for token, column in _RANK_COLUMNS.items()
    )


def _only(tokens: Mapping[str | None, Mapping[str, str]], token: str) -> int | None:
    (found,) = tokens.values()
    return int(found[token]) if token in found else None


def engine_indexed(rows: pl.DataFrame, last: int | None) -> tuple[pl.DataFrame, int | None]:
    """vLLM's engine numbers: a spec line carries none and belongs to the engine line before it,
    and so do the figures beside the samples that carry none."""
    own = pl.col("engine_no").cast(pl.Int32, strict=False)
    is_stats = pl.col("kind") == "stats"
    follows = (pl.col("kind") == "spec") | ((pl.col("kind") == "metrics") & own.is_null())
    if not rows.height or not (rows["engine"] == "vllm").any():
        return rows.with_columns(pl.lit(None, pl.Int32).alias("engine_index")), last
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
    edges = [start for start, _ in starts[1:]]
    cuts = [0, *(int(rows["byte_offset"].search_sorted(e)) for e in edges), rows.height]
    for (_, run), start, end in zip(starts, cuts[:-1], cuts[1:], strict=True):
        if end > start:
            part = rows.slice(start, end - start)
            yield run, part.with_columns(pl.lit(run.run_id).alias("run_id"))


def by_rank(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of each rank, in file order."""
    if not rows.height:
        return
    one = all(rows[name].n_unique() == 1 for name in ("engine", *_ONE_RANK))
    parts = [rows] if one else rows.partition_by("engine", *_ONE_RANK, maintain_order=True)
    for part in parts:
        yield rank_key(part), part


def by_kind(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """A rank's spec rows, its figures that have no window, and all others."""
    kind = rows["kind"]
    spec, beside = kind == "spec", kind == "metrics"
    if not spec.any() and not beside.any():
        return rows.clear(), rows.clear(), rows
    return rows.filter(spec), rows.filter(beside), rows.filter(~spec & ~beside)


def rank_key(rows: pl.DataFrame) -> str:
    """Names the rank of rows that all have the same one."""
    return ",".join("" if v is None else str(v) for v in rows.select("engine", *_ONE_RANK).row(0))


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
    extra = rows.filter(pl.col("kind") == "decode")["extra"].head(1)
    return bool(extra.str.contains('"#prealloc-req"|"pre-allocated usage"').any())


def timed(rows: pl.DataFrame, rank: Rank, clock: RunClock) -> tuple[pl.DataFrame, Measured]:
    """A rank's decode and prefill or stats rows with their windows."""
    if rows["engine"][0] == "sglang":
        measured = windows.measure_sglang(rows, rank, clock)
    else:
        measured = windows.measure_vllm(rows, rank, clock, _default_interval(rows))
    return _with_windows(rows, measured), measured


def timed_spec(
    rows: pl.DataFrame, stats: pl.DataFrame, rank: Rank, engine: Rank
) -> tuple[pl.DataFrame, Measured]:
    """An engine's spec rows with their windows."""
    measured = windows.measure_spec(rows, stats, rank, engine)
    return _with_windows(rows, measured), measured


def _with_windows(rows: pl.DataFrame, measured: Measured) -> pl.DataFrame:
    return rows.with_columns(
        pl.Series("interval_s", measured.interval_s),
        pl.Series("interval_from", measured.interval_from.astype(np.uint8)),
        pl.Series("window", measured.window.astype(np.uint8)),
    ).with_columns(
        pl.col("interval_s").fill_nan(None),
        pl.col("interval_from").cat.to(INTERVAL_FROM),
        pl.col("window").cat.to(WINDOW),
    )


def _default_interval(rows: pl.DataFrame) -> float:
    """Seconds between stats lines where nothing is learnt yet: V0 5, V1 10."""
    return 5.0 if bool(rows["extra"].str.contains('"Swapped"', literal=True).any()) else 10.0


def complete(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with every contract column, those that no line of the block had as null."""
    return rows.with_columns(
        pl.lit(None, dtype).alias(name)
        for name, dtype in SAMPLES.items()
        if name not in rows.columns
    )
