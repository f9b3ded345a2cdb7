"""Expressions that read printed stamps."""

from __future__ import annotations

import polars as pl

NO_YEAR = 2000  # of stamps without a year; a leap year, so that the last of February stands too


def moment(stamp: pl.Expr) -> pl.Expr:
    """The clock of "YYYY-MM-DD HH:MM:SS[.fff]" (or with a T), to the microsecond."""
    seconds = (
        stamp.str.slice(0, 19)
        .str.replace("T", " ", literal=True)
        .str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="us")
    )
    fraction = stamp.str.slice(20, 6).str.pad_end(6, "0").cast(pl.Int64, strict=False)
    return seconds + pl.duration(microseconds=fraction.fill_null(0))


def ahead_of_utc(zone: pl.Expr) -> pl.Expr:
    """How far a clock with this mark ("Z", "+02:00", "-0530") is ahead of UTC."""
    digits = zone.str.replace_all("[^0-9]", "")
    hours, minutes = (digits.str.slice(at, 2).cast(pl.Int64, strict=False) for at in (0, 2))
    sign = pl.when(zone.str.starts_with("-")).then(-1).otherwise(1)
    return pl.duration(minutes=((hours * 60 + minutes) * sign).fill_null(0))
