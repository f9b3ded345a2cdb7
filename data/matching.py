"""Steady windows of several runs laid side by side at equal running counts.

A cell is one exact running count (per rank) in one graph state and, where it is known, one
captured graph size; windows of different cells are never pooled. Rates of cells are combined
with weights that both sides share: else a run that spent more time at high counts would look
faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from data import intervals
from data import windows as w
from data.intervals import Interval, Spread
from data.run_data import RunData

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cell:
    """What two sides do at one running count in one graph state."""

    running: int  # requests per rank
    graph: str  # on, off, unknown
    capture: int | None  # captured batch size that the count is padded to
    base_tok_s: float
    tok_s: float
    ratio: float
    base_s: float  # seconds of steady windows
    seconds: float
    base_windows: int
    windows: int
    base_kv_per_req: float | None  # KV tokens per running request
    kv_per_req: float | None


@dataclass(frozen=True, slots=True)
class Match:
    """Two sides at equal running counts."""

    base_tok_s: float  # with the common weights
    tok_s: float
    ratio: float
    difference_tok_s: float
    interval: Interval | None
    interval_note: str  # why there is none
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    starts: tuple[int, int]  # of the base and of the other


def capture_sizes(run: RunData) -> tuple[int, ...] | None:
    """The batch sizes that a run captured decode graphs for; None where its arguments do not say.

    SGLang: cuda_graph_bs (0.4.1.post7 to 0.5.13), cuda_graph_config.decode.bs (0.5.14 on).
    vLLM: compilation_config.cudagraph_capture_sizes, if set by the user.
    """
    args = run.args
    config = args.get("cuda_graph_config")
    decode = config.get("decode") if isinstance(config, dict) else None
    compilation = args.get("compilation_config")
    found: Any = args.get("cuda_graph_bs")
    if isinstance(decode, dict) and decode.get("backend") != "disabled":
        found = decode.get("bs")
    elif isinstance(compilation, dict):
        found = compilation.get("cudagraph_capture_sizes")
    sizes = found if isinstance(found, list) else []
    return tuple(sorted(s for s in sizes if isinstance(s, int))) or None


def with_cells(
    rows: pl.DataFrame, sizes: tuple[int, ...] | None, *, by_graph: bool
) -> pl.DataFrame:
    """Steady windows with the columns graph, capture and `cell`, the key of both sides.

    Args:
        rows: steady windows of one run.
        sizes: its captured batch sizes, where both sides know theirs.
        by_graph: both sides print their graph state. If not, of each running count the state
            with most seconds stands for it.
    """
    rows = rows.with_columns(
        graph=pl.when("graph_on").then(pl.lit("on")).when(~pl.col("graph_on")).then(pl.lit("off"))
        .otherwise(pl.lit("unknown"))
    )  # fmt: skip
    if not by_graph and rows.height:
        spent = rows.group_by("running_reqs", "graph").agg(_s=pl.col("interval_s").sum())
        most = spent.sort("_s", "graph").group_by("running_reqs").agg(pl.col("graph").last())
        rows = rows.join(most, on=["running_reqs", "graph"], how="semi")
    captures = {
        n: next((size for size in sizes or () if size >= n), None)
        for n in rows["running_reqs"].unique().to_list()
    }
    capture = pl.col("running_reqs").replace_strict(captures, return_dtype=pl.Int32, default=None)
    rows = rows.with_columns(capture=pl.when(pl.col("graph") == "on").then(capture))
    key = [pl.col("running_reqs").cast(pl.String)]
    if by_graph:
        key += [pl.col("graph"), pl.col("capture").cast(pl.String).fill_null("-")]
    return rows.with_columns(cell=pl.concat_str(key, separator="/"))


def celled(groups: Sequence[Sequence[RunData]]) -> list[list[pl.DataFrame]]:
    """The steady windows of every start of every side, with keys that mean the same in all."""
    runs = [run for group in groups for run in group]
    by_graph = all(run.steady["graph_on"].is_not_null().any() for run in runs)
    sizes = {id(run): capture_sizes(run) for run in runs}
    if not all(sizes.values()):
        sizes = dict.fromkeys(sizes)
    return [
        [with_cells(run.steady, sizes[id(run)], by_graph=by_graph) for run in group]
        for group in groups
    ]


def match(base: Sequence[RunData], other: Sequence[RunData]) -> Match | str:
    """Two configurations at equal running counts, or in words why they cannot be compared.

    Args:
        base: starts of one configuration.
        other: starts of another.
    """
    ranks = [{run.ranks for run in side} for side in (base, other)]
    if ranks[0] != ranks[1]:
        return f"{_join(ranks[1])} ranks against {_join(ranks[0])}: counts per rank do not compare"
    sides = celled([base, other])
    starts = [rows for side in sides for rows in side]
    common = sorted(set.intersection(*(set(rows["cell"]) for rows in starts)))
    if not common:
        return _nothing_common(sides)
    weights = _weights(starts, common)
    spreads = [[_spread(rows, common, weights) for rows in side] for side in sides]
    levels = [float(np.mean([value for value, _ in side])) for side in spreads]
    interval, note = _interval(spreads)
    base_tok_s, tok_s = (float(np.exp(level)) for level in levels)
    cells = tuple(_cells(sides, common, [base, other]))
    left_out = tuple(_left_out(sides, common))
    return Match(
        base_tok_s, tok_s, tok_s / base_tok_s, tok_s - base_tok_s, interval, note, cells, left_out,
        (len(base), len(other)),
    )  # fmt: skip


def _join(numbers: set[int]) -> str:
    return " and ".join(map(str, sorted(numbers)))


def _nothing_common(sides: list[list[pl.DataFrame]]) -> str:
    counts = [
        sorted({n for rows in side for n in rows["running_reqs"].unique().to_list()})
        for side in sides
    ]
    if not all(counts):
        return "one side has no steady window in its logs"
    if set(counts[0]) & set(counts[1]):
        return "the running counts that both held differ in graph state or captured graph size"
    shown = [", ".join(map(str, side[:8])) + (" …" if len(side) > 8 else "") for side in counts]
    return f"no running count that both held steady ({shown[1]} against {shown[0]})"


def _sums(rows: pl.DataFrame, common: Sequence[str], blocks: int = 1) -> Floats:
    """Tokens and seconds of each cell, in columns side by side; one row a block of neighbouring
    windows in the order of time."""
    at = rows.filter(pl.col("cell").is_in(common))
    place = {cell: i for i, cell in enumerate(common)}
    column = at["cell"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
    block = np.arange(at.height) * blocks // max(1, at.height)
    out = np.zeros((blocks, 2 * len(common)))
    np.add.at(out, (block, column), at["tokens"].to_numpy())
    np.add.at(out, (block, column + len(common)), at["interval_s"].to_numpy())
    return out


def _weights(starts: Sequence[pl.DataFrame], common: Sequence[str]) -> Floats:
    """The least time that any start spent in each cell."""
    spent = [_sums(rows, common)[0, len(common) :] for rows in starts]
    return np.asarray(np.min(spent, axis=0))


def _spread(
    rows: pl.DataFrame, common: Sequence[str], weights: Floats
) -> tuple[float, Spread | None]:
    """The logarithm of one start's combined rate, and how it varies within the run."""
    whole = _sums(rows, common)
    log_of = partial(_log_rate, weights=weights, otherwise=_rates(whole[0], len(common)))
    count = intervals.block_count(rows.filter(pl.col("cell").is_in(common)).height)
    spread = count and intervals.resampled_blocks(_sums(rows, common, count), log_of)
    return float(log_of(whole)[0]), spread or None


def _rates(sums: Floats, cells: int) -> Floats:
    return np.asarray(sums[..., :cells] / sums[..., cells:])


def _log_rate(sums: Floats, weights: Floats, otherwise: Floats) -> Floats:
    """Logarithm of Σ weight · rate / Σ weight; a cell that a draw left out keeps its rate."""
    cells = len(weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = np.where(sums[:, cells:] > 0, _rates(sums, cells), otherwise)
    return np.asarray(np.log(rates @ weights / weights.sum()))


def _interval(spreads: list[list[tuple[float, Spread | None]]]) -> tuple[Interval | None, str]:
    base, other = spreads
    if len(base) + len(other) > 2:
        return intervals.over_starts([v for v, _ in other], [v for v, _ in base]), ""
    within = base[0][1], other[0][1]
    if within[0] is None or within[1] is None:
        return None, f"fewer than {intervals.MIN_BLOCKS} steady windows on one side: no interval"
    return (within[1] - within[0]).interval(intervals.WITHIN_RUN), ""


def kv_per_request(rows: pl.DataFrame, pool_tokens: int | None) -> float | None:
    """KV tokens per running request over windows, weighted by seconds.

    vLLM prints a share of the pool, to 0.1 %; below 0.5 % it says too little.
    """
    share = pl.when(pl.col("kv_usage") >= 0.005).then(pl.col("kv_usage") * (pool_tokens or 0))
    held = pl.coalesce("kv_tokens", share if pool_tokens else pl.lit(None, pl.Float64))
    known = rows.with_columns(_held=held / pl.col("running_reqs")).filter(pl.col("_held") > 0)
    return w.weighted(known, "_held", "interval_s")


def _cells(
    sides: list[list[pl.DataFrame]], common: Sequence[str], groups: Sequence[Sequence[RunData]]
) -> list[Cell]:
    pooled = [pl.concat(side) for side in sides]
    pools = [group[0].card["max_total_tokens"] for group in groups]
    found = []
    for cell in common:
        base, other = (rows.filter(pl.col("cell") == cell) for rows in pooled)
        base_tok_s, tok_s = w.rate(base) or 0.0, w.rate(other) or 0.0
        found.append(Cell(
            int(other["running_reqs"][0]), str(other["graph"][0]), other["capture"][0],
            base_tok_s, tok_s, tok_s / base_tok_s,
            w.total(base["interval_s"]), w.total(other["interval_s"]), base.height, other.height,
            kv_per_request(base, pools[0]), kv_per_request(other, pools[1]),
        ))  # fmt: skip
    return sorted(found, key=lambda c: (c.running, c.graph))


def _left_out(sides: list[list[pl.DataFrame]], common: Sequence[str]) -> list[str]:
    """What was not compared although both sides held that count."""
    held = [{n for rows in side for n in rows["running_reqs"].unique().to_list()} for side in sides]
    matched = {int(cell.split("/")[0]) for cell in common}
    other = sorted((held[0] & held[1]) - matched)
    if not other:
        return []
    counts = ", ".join(map(str, other))
    return [f"left out, since graph state or captured size differ: running {counts}"]
