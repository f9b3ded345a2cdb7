"""How decode windows vary at the running counts that configurations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from data import matching
from data.compare import Group

_COUNTS: Final = 8  # running counts shown, those with most seconds
_QUANTILES: Final = {"p10": 0.10, "p25": 0.25, "p50": 0.50, "p75": 0.75, "p90": 0.90}

SPREAD: Final[dict[str, pl.DataType]] = {
    "label": pl.String(),
    "running_reqs": pl.Int64(),  # per rank
    "graph": pl.String(),  # on, off, unknown
    "windows": pl.Int64(),
    **dict.fromkeys(_QUANTILES, pl.Float64()),  # tokens per second of one request
}


def spread(groups: Sequence[Group]) -> pl.DataFrame:
    """Quantiles over steady windows, where the first group and another hold the same count.

    A window's value is its throughput over its running requests: what one request gets, so that
    counts stand side by side on one axis. Graph states and captured sizes are never pooled; a
    configuration with another number of ranks is left out, since counts are per rank.
    """
    base = groups[0]
    like = [group for group in groups if group.runs[0].ranks == base.runs[0].ranks]
    if len(like) < 2:
        return pl.DataFrame(schema=SPREAD)
    sides = [pl.concat(parts) for parts in matching.celled([group.runs for group in like])]
    held = [set(rows["cell"]) for rows in sides]
    shared = held[0] & set.union(*held[1:])
    rows = pl.concat([
        rows.filter(pl.col("cell").is_in(list(shared))).select(
            pl.lit(group.label).alias("label"), "cell", "running_reqs", "graph", "interval_s",
            value=pl.col("tokens") / pl.col("interval_s") / pl.col("running_reqs"),
        )
        for group, rows in zip(like, sides, strict=True)
    ])  # fmt: skip
    most = rows.group_by("cell").agg(s=pl.col("interval_s").sum()).sort("s", "cell")
    order = {group.label: at for at, group in enumerate(like)}
    return (
        rows.filter(pl.col("cell").is_in(most["cell"].tail(_COUNTS).to_list()))
        .group_by("label", "running_reqs", "graph", "cell")
        .agg(
            windows=pl.len(),
            **{n: pl.col("value").quantile(q, "linear") for n, q in _QUANTILES.items()},
        )
        .sort("running_reqs", "cell", pl.col("label").replace_strict(order))
        .select(pl.col(name).cast(kind) for name, kind in SPREAD.items())
    )
