"""Times of all that a block dates: samples, marks, requests and minutes of access lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from ingest.access_rows import Stamp
from parsers import records
from parsers.clock import Clock
from parsers.marks import Mark
from parsers.requests import Request


def times_of(
    clock: Clock, text: pl.DataFrame, printed: pl.DataFrame, dated: Sequence[Mark | Request | Stamp]
) -> tuple[pl.DataFrame, list[datetime | None]]:
    """Times of samples and of all else that has a stamp, resolved together in file order.

    Args:
        clock: of the source; goes on with the block.
        text: the block's lines, with columns wrap and zoned where they stand in wrappers.
        printed: its samples (off, stamp, date, time).
        dated: places and stamps of all else.

    Returns:
        columns ts and ts_inferred of the samples; the times of `dated`.
    """
    names = ["stamp", "date", "time"]
    wrapped = "wrap" in text.columns
    if not dated and not wrapped:
        return clock.resolve(printed.select(names)), []
    said = pl.DataFrame(
        {
            "off": [m.off for m in dated],
            "date": [m.date for m in dated],
            "time": [m.time for m in dated],
            "stamp": [_whole(m.date, m.time) for m in dated],
        },
        schema={"off": pl.Int64, "date": pl.String, "time": pl.String, "stamp": records.TIME},
    )
    both = pl.concat(
        [
            printed.select("off", *names, item=pl.lit(None, pl.Int64)),
            said.with_columns(item=pl.int_range(len(dated), dtype=pl.Int64)).select(
                "off", *names, "item"
            ),
        ]
    ).sort("off", maintain_order=True)
    if wrapped:
        both = both.join_asof(text.select("off", "wrap", "zoned"), on="off").with_columns(
            pl.col("zoned").fill_null(False)
        )
        names += ["wrap", "zoned"]
    resolved = both.hstack(clock.resolve(both.select(names)))
    of_items = resolved.filter(pl.col("item").is_not_null()).sort("item")["ts"].to_list()
    return resolved.filter(pl.col("item").is_null()).select("ts", "ts_inferred"), of_items


def _whole(date: str | None, time: str | None) -> datetime | None:
    """A stamp that is printed in full, to the second."""
    if date is None or time is None or (len(date), len(time)) != (10, 8):
        return None
    try:
        return datetime.fromisoformat(f"{date} {time}")
    except ValueError:
        return None
