"""Windows that were corrected after their samples were stored, and what that adds to the sums.

The next line of a log may say more of the window before it (lines that share a second divide it),
so such a correction mostly is of a sample stored a moment ago. Those are remembered here: looking
for them in the store would read every file of a lake whose rows lie at similar places.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from data.summary import without_metrics
from parsers.records import is_constant

_KEPT = 512  # samples of each file
_RANK = ("run_id", "dp_rank", "engine_index", "tp_rank", "pp_rank")
_VALUES = ("kind", "window", "running_reqs", "gen_tok_s", "prompt_tok_s", "interval_s")
_COLUMNS = ("file_id", "byte_offset", *_RANK, *_VALUES)
_RATED = ("decode", "stats")  # of other kinds no line prints a rate
_PLACE = ["file_id", "byte_offset"]


class Recent:
    """The latest samples of each file that were handed to the store."""

    def __init__(self) -> None:
        self._frames: dict[str, pl.DataFrame] = {}

    def add(self, parts: Sequence[pl.DataFrame]) -> None:
        """Samples in the order of their files."""
        for part in parts:
            # Figures of kind `metrics` stand at the place of a sample.
            lines = without_metrics(part)
            if not lines.height:
                continue
            one = is_constant(lines["file_id"])
            last = (lines.tail(_KEPT) if one else lines).select(_COLUMNS)
            for rows in [last] if one else last.partition_by("file_id"):
                self._add(str(rows["file_id"][0]), rows)

    def _add(self, file_id: str, rows: pl.DataFrame) -> None:
        known = self._frames.get(file_id)
        self._frames[file_id] = (rows if known is None else pl.concat([known, rows])).tail(_KEPT)

    def forget(self) -> None:
        """Nothing of it may be stored."""
        self._frames.clear()

    def sums(self, late: pl.DataFrame) -> pl.DataFrame | None:
        """Rows of run_summary_parts for corrected windows; None if one of their samples is not
        remembered."""
        frames = [self._frames.get(file_id) for file_id in late["file_id"].unique()]
        known = [frame for frame in frames if frame is not None]
        if len(known) < len(frames):
            return None
        late = late.select(*_PLACE, pl.col("interval_s").alias("late_s"))
        found = late.join(pl.concat(known), on=_PLACE, how="inner", maintain_order="left")
        if found.height < late.height:
            return None
        return found.filter(pl.col("kind").is_in(_RATED)).group_by(_RANK).agg(_sums())


def _sums() -> list[pl.Expr]:
    def total(values: pl.Expr, name: str) -> pl.Expr:
        """The sum, null where there is nothing to sum."""
        return pl.when(values.count() > 0).then(values.sum()).alias(name)

    more = pl.col("late_s") - pl.col("interval_s").fill_null(0.0)
    rate, steady = pl.col("gen_tok_s"), pl.col("window") == "steady"
    alone = steady & (pl.col("running_reqs") == 1)
    tokens, seconds = rate * more, more.filter
    return [
        total((pl.col("prompt_tok_s") * more).filter(pl.col("kind") == "stats"), "prompt_tokens"),
        total(tokens, "gen_tokens"),
        total(tokens.filter(steady), "steady_tokens"),
        total(seconds(steady & rate.is_not_null()), "steady_s"),
        total(tokens.filter(alone), "at1_tokens"),
        total(seconds(alone & rate.is_not_null()), "at1_s"),
    ]
