"""Times of all that a block dates: samples, marks, requests and minutes of access lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from ingest.access_rows import Stamp
from parsers import records
from parsers.clock import Clock, printed_in_full
from parsers.marks import Mark
from parsers.requests import Request

_TIMES = {name: records.SAMPLES[name] for name in ("ts", "ts_inferred")}


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
    if not dated and not printed.height:
        return records.empty(_TIMES), []
    stamps = [_whole(m.date, m.time) for m in dated]
    if not wrapped and (found := _at_once(clock, printed, dated, stamps)):
        return found
    if not dated and not wrapped:
        return clock.resolve(printed.select(names)), []
    said = pl.DataFrame(
        {
            "off": [m.off for m in dated],
            "date": [m.date for m in dated],
            "time": [m.time for m in dated],
            "stamp": stamps,
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


def _at_once(
    clock: Clock,
    printed: pl.DataFrame,
    dated: Sequence[Mark | Request | Stamp],
    stamps: Sequence[datetime | None],
) -> tuple[pl.DataFrame, list[datetime | None]] | None:
    """The same where all stamps are whole and equally far from UTC: the way of most blocks."""
    whole = printed["stamp"]
    told = [stamp for stamp in stamps if stamp is not None]
    if whole.null_count() or len(told) < len(stamps):
        return None
    ends = list(zip((m.off for m in dated), told, strict=True))
    if printed.height:
        ends.append((printed["off"][-1], whole[-1]))
    _, last = max(ends, key=lambda at: at[0])
    extremes = (time for time in (whole.min(), whole.max()) if isinstance(time, datetime))
    ahead = clock.ahead_of([*extremes, *told], last)
    if ahead is None:
        return None
    ts = pl.DataFrame([(whole - ahead).cast(records.TIME).alias("ts"), printed_in_full(len(whole))])
    return ts, [stamp - ahead for stamp in told]


def _whole(date: str | None, time: str | None) -> datetime | None:
    """A stamp that is printed in full, to the second."""
    if date is None or time is None or (len(date), len(time)) != (10, 8):
        return None
    try:
        return datetime.fromisoformat(f"{date} {time}")
    except ValueError:
        return None
