"""Printed stamps to times. Byte order is the truth; what a stamp leaves out is inferred.

SGLang prints local time without a zone, vLLM neither zone nor year, old SGLang no date, and some
lines nothing. Missing years come from the file's own time and survive New Year; a line without a
stamp takes the one before it. Both are marked as inferred. The stamp of a wrapper gives a line
its time where it has none, the year where it prints none, and the zone where both stand there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache

import polars as pl

from parsers.records import TIME
from parsers.stamps import NO_YEAR, moment

QUARTER = timedelta(minutes=15)  # zones differ by multiples of it
_FAR = timedelta(hours=15)  # no two zones are further apart: such a stamp tells of a later copy
_DAY = timedelta(days=1)
_NO = pl.Series("ts_inferred", [False])
_BACK = timedelta(minutes=30)
_HOUR_S = 3600.0


@dataclass(slots=True)
class Clock:
    """What is known of a source's clock; small and serialisable.

    Attributes:
        zone: IANA name of the printed clock's zone, or None when unknown (taken as UTC, or as
            far ahead of it as the stamps of a wrapper showed).
        hint: a time at or after the last line (the file's time), printed clock.
        as_printed: times are to be those of the printed clock, whatever its zone.
        year, month: of the last stamp without a year; wrap_year, wrap_month: of the last one of
            a wrapper without a year.
        last: last resolved time (ISO, as stored), for lines without any stamp.
        ahead_s: seconds that the printed clock is ahead of UTC, by stamps of wrappers with a
            zone; shift_s: ahead of the local clock of a wrapper that prints none.
        printed: the last printed clock (ISO); again: it stands in the hour that a change of the
            clock repeats, for the second time.
    """

    zone: str | None = None
    hint: str | None = None
    as_printed: bool = False
    year: int | None = None
    month: int | None = None
    wrap_year: int | None = None
    wrap_month: int | None = None
    last: str | None = None
    ahead_s: float | None = None
    shift_s: float | None = None
    printed: str | None = None
    again: bool = False

    def resolve(self, stamps: pl.DataFrame) -> pl.DataFrame:
        """Columns ts and ts_inferred for stamps in file order.

        Args:
            stamps: columns stamp (whole, or null), date (YYYY-MM-DD, MM-DD or null) and time
                (HH:MM:SS[.fff] or null); and in a wrapped block wrap and zoned, as
                `parsers.wrappers` gives them.
        """
        whole = stamps["stamp"]
        if "wrap" in stamps.columns and stamps["wrap"].null_count() < stamps.height:
            ts, inferred = self._with_wraps(stamps)
        elif stamps.height and not whole.null_count():
            ts, inferred = self._to_utc(whole), printed_in_full(len(whole))
        else:
            printed, inferred = self._printed(stamps)
            ts = self._to_utc(printed)
        if ts.null_count():
            before = datetime.fromisoformat(self.last) if self.last else None
            ts = ts.fill_null(strategy="forward")
            if before:
                ts = ts.fill_null(before)
        last = ts[-1] if ts.len() else None
        if last is not None:
            self.last = last.isoformat()
        return pl.DataFrame([ts.cast(TIME).alias("ts"), inferred.alias("ts_inferred")])

    def ahead_of(self, times: Sequence[datetime], last: datetime) -> timedelta | None:
        """How far the printed clock is ahead of the times to be stored; None where that may differ
        among these. If it is told, the clock has gone on to the last one.

        Args:
            times: as printed, in no order; the first and the last of those between will do.
            last: which of them is the last one in the file.
        """
        if self.as_printed:
            ahead: timedelta | None = timedelta(0)
        elif self.zone is None:
            ahead = timedelta(seconds=self.ahead_s or 0)
        else:
            ahead = _ahead(self.zone, min(times), max(times))
        if ahead is not None:
            if self.zone is not None and not self.as_printed:
                self.printed, self.again = last.isoformat(), False
            self.last = (last - ahead).isoformat()
        return ahead

    def _printed(self, stamps: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """The printed clock of each line, null where there is none; whether any of it is not
        printed on the line."""
        whole = stamps["stamp"]
        others = whole.is_null()
        if others.all():
            return self._in_parts(stamps)
        at = others.arg_true()
        ts, inferred = self._in_parts(stamps[at])
        none = pl.repeat(False, len(whole), dtype=pl.Boolean(), eager=True)
        return whole.scatter(at, ts), none.scatter(at, inferred)

    def _in_parts(self, stamps: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """The same for lines without a whole stamp."""
        length = stamps["date"].str.len_bytes()
        bare = bool((length == 5).any())
        date = self._with_years(stamps["date"], length) if bare else stamps["date"]
        if stamps["date"].null_count() and stamps["time"].null_count() < stamps.height:
            day = self._hint().strftime("%Y-%m-%d")  # up to SGLang 0.3.3: time of day only
            date = pl.select(pl.coalesce(date, pl.lit(day))).to_series()
        text = (date + " " + stamps["time"]).alias("text")
        ts = pl.select(moment(pl.lit(text))).to_series()
        inferred = (length != 10).fill_null(True) | ts.is_null()
        return ts, inferred

    def _with_wraps(self, stamps: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """Times of lines in wrappers that have stamps of their own. The difference of the two
        stamps of a line, whole quarters of an hour, is no delay but a zone."""
        wrap = self._wraps(stamps["wrap"])
        bare = (stamps["date"].str.len_bytes() == 5) & wrap.is_not_null()
        dates = _nearest_years(stamps["date"], wrap, bare) if bare.any() else stamps["date"]
        printed, inferred = self._printed(stamps.with_columns(date=dates))
        if bare.any():
            last = dates.filter(bare)[-1]
            self.year, self.month = int(last[:4]), int(last[5:7])
            inferred |= bare
        rows = pl.DataFrame({"p": printed, "w": wrap, "zoned": stamps["zoned"]}).with_columns(
            d=((pl.col("p") - pl.col("w")) / QUARTER).round() * QUARTER.total_seconds()
        )
        near = pl.col("d").abs() < _FAR.total_seconds()
        zoned = pl.col("zoned")
        told = rows.select(
            ahead=pl.when(near & zoned).then("d"),
            shift=pl.when(near & ~zoned & pl.col("w").is_not_null()).then("d"),
        )
        rows = rows.with_columns(
            ahead=_settled(told["ahead"], self.ahead_s), shift=_settled(told["shift"], self.shift_s)
        )
        self.ahead_s, self.shift_s = rows["ahead"][-1], rows["shift"][-1]
        # A line with the wrapper's stamp alone, on the printed clock.
        offset = pl.when(zoned).then("ahead").otherwise("shift").fill_null(0)
        clock = pl.coalesce("p", pl.col("w") + _seconds(offset))
        rows = rows.with_columns(clock=clock)
        inferred = inferred & wrap.is_null() | bare
        if self.as_printed:
            return rows["clock"], inferred
        if self.zone is None:
            utc = rows.select(pl.col("clock") - _seconds(pl.col("ahead").fill_null(0))).to_series()
        else:
            utc = self._in_zone(rows["clock"])
        is_utc = zoned & pl.col("p").is_null()
        return rows.select(pl.when(is_utc).then("w").otherwise(utc)).to_series(), inferred

    def _wraps(self, wrap: pl.Series) -> pl.Series:
        """The stamps of wrappers, those without a year with one."""
        yearless = (wrap.dt.year() == NO_YEAR).fill_null(False)
        if not yearless.any():
            return wrap
        date = wrap.dt.strftime("%m-%d").set(~yearless, None)
        own = self.year, self.month
        self.year, self.month = self.wrap_year, self.wrap_month
        dated = self._with_years(date, date.str.len_bytes())
        self.wrap_year, self.wrap_month = self.year, self.month
        self.year, self.month = own
        years = dated.str.slice(0, 4).cast(pl.Int32, strict=False)
        return pl.select(
            pl.when(yearless).then(wrap.dt.replace(year=years)).otherwise(wrap)
        ).to_series()

    def _to_utc(self, ts: pl.Series) -> pl.Series:
        if self.as_printed:
            return ts
        if self.zone is not None:
            return self._in_zone(ts)
        return ts - timedelta(seconds=self.ahead_s) if self.ahead_s else ts

    def _in_zone(self, ts: pl.Series) -> pl.Series:
        """UTC of a clock in the zone. The hour that a change of the clock repeats is its second
        one once the clock has stepped back in it; a time that the change leaves out is null."""
        ends = _ends(ts)
        ahead = _ahead(self.zone, *ends) if ends else None
        if ahead is not None:
            self.printed, self.again = ts[-1].isoformat(), False
            return ts - ahead
        first, second = (
            ts.dt.replace_time_zone(self.zone, ambiguous=which, non_existent="null")
            .dt.convert_time_zone("UTC")
            .dt.replace_time_zone(None)
            for which in ("earliest", "latest")
        )
        before = datetime.fromisoformat(self.printed) if self.printed else None
        clock = ts.fill_null(strategy="forward")
        if clock.len() and clock[-1] is not None:
            self.printed = clock[-1].isoformat()
        repeated = (first != second).fill_null(False)
        if not repeated.any():
            self.again = False if ts.null_count() < ts.len() else self.again
            return first
        steps = clock - clock.shift(1, fill_value=before)
        back = (steps < -_BACK).fill_null(False) & repeated
        if self.again and repeated[0]:
            back[0] = True
        rows = pl.DataFrame({"back": back, "hour": repeated.rle_id()})
        again = rows.select(pl.col("back").cum_max().over("hour")).to_series() & repeated
        self.again = bool(again[-1])
        return pl.select(pl.when(again).then(second).otherwise(first)).to_series()

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


def printed_in_full(n: int) -> pl.Series:
    """Column ts_inferred of so many times of which nothing is."""
    return _NO.new_from_index(0, n)


def _ends(ts: pl.Series) -> tuple[datetime, datetime] | None:
    """The first and the last of some times; None where some are missing."""
    try:
        first, last = ts.min(), ts.max()
    except (OverflowError, ValueError):  # the year 0, or one behind the last
        return None
    if ts.null_count() or not (isinstance(first, datetime) and isinstance(last, datetime)):
        return None
    return first, last


def _ahead(zone: str | None, first: datetime, last: datetime) -> timedelta | None:
    """How far a zone is ahead of UTC from one time of its clock to another; None where that
    changes near them."""
    if last - first > _DAY:
        return None
    try:
        ahead = {_ahead_on(zone, day) for day in {first.date(), last.date()}}
    except (OverflowError, ValueError):  # the first year, or the last one
        return None
    return ahead.pop() if len(ahead) == 1 else None


@lru_cache(64)
def _ahead_on(zone: str | None, day: date) -> timedelta | None:
    """How far a zone is ahead of UTC on a day; None if that changes then or the day before or
    after."""
    begin = datetime(day.year, day.month, day.day)
    clock = pl.datetime_range(begin - _DAY, begin + 2 * _DAY, "15m", eager=True, time_unit="us")
    found = {
        ahead
        for which in ("earliest", "latest")
        for ahead in (
            clock
            - clock.dt.replace_time_zone(zone, ambiguous=which, non_existent="null")
            .dt.convert_time_zone("UTC")
            .dt.replace_time_zone(None)
        ).to_list()
    }
    return found.pop() if len(found) == 1 else None


def _nearest_years(dates: pl.Series, wrap: pl.Series, bare: pl.Series) -> pl.Series:
    """MM-DD with the year that puts it nearest to the wrapper's stamp."""
    rows = pl.DataFrame({"date": dates, "wrap": wrap, "bare": bare})
    month, stamped = pl.col("date").str.slice(0, 2).cast(pl.Int32, strict=False), pl.col("wrap").dt
    over = pl.when(month - stamped.month() > 6).then(-1).when(month - stamped.month() < -6).then(1)
    year = (stamped.year() + over.otherwise(0)).cast(pl.String)
    full = pl.concat_str(year, pl.lit("-"), "date")
    return rows.select(pl.when("bare").then(full).otherwise("date").alias("date")).to_series()


def _seconds(seconds: pl.Expr) -> pl.Expr:
    return (seconds * 1_000_000).cast(pl.Int64).cast(pl.Duration("us"))


def _settled(differences: pl.Series, last: float | None) -> pl.Series:
    """The zone at each line, by the differences of its stamps in seconds. A runtime that takes
    lines late makes a difference smaller, as no change of the clock by less than an hour does."""
    runs = differences.rle().struct.unnest()
    settled: list[float | None] = []
    for value in runs["value"]:
        late = value is not None and last is not None and 0 < last - value < _HOUR_S
        last = last if value is None or late else value
        settled.append(last)
    if not settled:
        return pl.Series(dtype=pl.Float64)
    lengths = runs["len"].to_list()
    return pl.concat(
        [
            pl.repeat(value, n, dtype=pl.Float64, eager=True)
            for value, n in zip(settled, lengths, strict=True)
        ]
    )
