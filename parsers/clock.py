"""Printed stamps to times. Byte order is the truth; what a stamp leaves out is inferred.

SGLang prints local time without a zone, vLLM neither zone nor year, old SGLang no date, and some
lines nothing. Missing years come from the file's own time and survive New Year; a line without a
stamp takes the one before it. Both are marked as inferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from parsers.records import TIME


@dataclass(slots=True)
class Clock:
    """What is known of a source's clock; small and serialisable.

    Attributes:
        zone: IANA name of the printed clock's zone, or None when unknown (taken as UTC).
        hint: a time at or after the last line (the file's time), printed clock.
        year, month: of the last stamp without a year.
        last: last resolved time (ISO, as stored), for lines without any stamp.
    """

    zone: str | None = None
    hint: str | None = None
    year: int | None = None
    month: int | None = None
    last: str | None = None

    def resolve(self, stamps: pl.DataFrame) -> pl.DataFrame:
        """Columns ts and ts_inferred for stamps in file order.

        Args:
            stamps: columns stamp (whole, or null), date (YYYY-MM-DD, MM-DD or null) and time
                (HH:MM:SS[.fff] or null).
        """
        printed = self._to_utc(stamps["stamp"])
        if stamps.height and not printed.null_count():
            self.last = printed[-1].isoformat()
            return pl.DataFrame(
                {"ts": printed, "ts_inferred": pl.repeat(False, len(printed), eager=True)}
            )
        length = stamps["date"].str.len_bytes()
        bare = bool((length == 5).any())
        date = self._with_years(stamps["date"], length) if bare else stamps["date"]
        if stamps["date"].null_count() and stamps["time"].null_count() < stamps.height:
            day = self._hint().strftime("%Y-%m-%d")  # up to SGLang 0.3.3: time of day only
            date = pl.select(pl.coalesce(date, pl.lit(day))).to_series()
        text = (date + " " + stamps["time"]).alias("stamp")
        ts = text.str.slice(0, 19).str.to_datetime(
            "%Y-%m-%d %H:%M:%S", strict=False, time_unit="us"
        )
        if (text.str.len_bytes() > 20).any():
            fraction = text.str.slice(20, 6).str.pad_end(6, "0").cast(pl.Int64, strict=False)
            ts = ts + (fraction.fill_null(0) * 1000).cast(pl.Duration("ns")).cast(pl.Duration("us"))
        ts = self._to_utc(ts)
        inferred = printed.is_null() & ((length != 10).fill_null(True) | ts.is_null())
        ts = pl.select(pl.coalesce(printed, ts)).to_series()
        if ts.null_count():
            last = datetime.fromisoformat(self.last) if self.last else None
            ts = ts.fill_null(strategy="forward")
            if last:
                ts = ts.fill_null(last)
        if ts.len() and ts[-1] is not None:
            self.last = ts[-1].isoformat()
        return pl.DataFrame({"ts": ts.cast(TIME), "ts_inferred": inferred})

    def _to_utc(self, ts: pl.Series) -> pl.Series:
        if self.zone is None:
            return ts
        local = ts.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null")
        return local.dt.convert_time_zone("UTC").dt.replace_time_zone(None)

    def _hint(self) -> datetime:
        return datetime.fromisoformat(self.hint) if self.hint else datetime.now()

    def _with_years(self, date: pl.Series, length: pl.Series) -> pl.Series:
        """Puts years before MM-DD; a step from December to January is a New Year."""
        month = date.str.slice(0, 2).cast(pl.Int32, strict=False).set(length != 5, None)
        known = month.drop_nulls()
        if self.year is None:
            self.year, self.month = self._first_year(date.filter(length == 5)[0]), known[0]
        before = pl.concat([pl.Series([self.month], dtype=pl.Int32), known])
        step = before.diff().slice(1)
        years = (
            pl.select(
                pl.when(step <= -6).then(1).when(step >= 6).then(-1).otherwise(0).cum_sum()
            ).to_series()
            + self.year
        )
        self.year, self.month = int(years[-1]), int(known[-1])
        full = pl.Series([None] * date.len(), dtype=pl.Int32)
        full = full.scatter((length == 5).fill_null(False).arg_true(), years.cast(pl.Int32))
        dated = full.cast(pl.String) + "-" + date
        return pl.select(pl.when(length == 5).then(dated).otherwise(date)).to_series()

    def _first_year(self, date: str) -> int:
        hint = self._hint()
        latest = (hint + timedelta(days=1)).strftime("%m-%d")
        if (hint + timedelta(days=1)).year > hint.year:  # New Year's Eve: tomorrow is 01-01
            return hint.year if date > latest else hint.year + 1
        return hint.year if date <= latest else hint.year - 1
