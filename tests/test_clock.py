"""Stamps without a year, a zone, a date or anything at all."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest

from ingest.pipeline import SourceInfo
from parsers.clock import Clock
from tests.logs import decode, read, stats, text


def _resolve(clock: Clock, *stamps: tuple[str | None, str | None]) -> pl.DataFrame:
    frame = pl.DataFrame(stamps, schema={"date": pl.String, "time": pl.String}, orient="row")
    return clock.resolve(frame.with_columns(stamp=pl.lit(None, pl.Datetime("us"))))


@pytest.mark.parametrize(
    ("hint", "year"),
    [
        ("2026-05-05T00:00:00", 2026),
        ("2026-05-03T12:00:00", 2026),  # a day of slack for zones
        ("2026-01-02T00:00:00", 2025),
        ("2026-12-31T23:00:00", 2026),
    ],
)
def test_the_year_comes_from_the_files_time(hint: str, year: int) -> None:
    ts = _resolve(Clock(hint=hint), ("05-04", "10:00:00"))
    assert ts.row(0) == (datetime(year, 5, 4, 10), True)


def test_new_year_is_survived_within_and_between_blocks() -> None:
    clock = Clock(hint="2026-01-02T00:00:00")
    first = _resolve(clock, ("12-31", "23:59:59"), ("01-01", "00:00:00"))
    assert first["ts"].dt.year().to_list() == [2025, 2026]
    clock = Clock(hint="2026-01-02T00:00:00")
    parts = [_resolve(clock, ("12-31", "23:59:59")), _resolve(clock, ("01-01", "00:00:00"))]
    assert pl.concat(parts).equals(first)


def test_a_line_without_a_stamp_takes_the_one_before() -> None:
    clock = Clock()
    _resolve(clock, ("2026-05-04", "10:00:00"))
    ts = _resolve(clock, (None, None), ("2026-05-04", "10:00:09"), (None, None))
    assert ts["ts"].dt.second().to_list() == [0, 9, 9]
    assert ts["ts_inferred"].to_list() == [True, False, True]


def test_milliseconds_are_kept() -> None:
    ts = _resolve(Clock(), ("2026-05-04", "10:00:00.125"), ("2026-05-04", "10:00:00,250"))
    assert ts["ts"].dt.microsecond().to_list() == [125_000, 250_000]


def test_a_zone_makes_utc_of_the_printed_clock() -> None:
    source = SourceInfo("s", zone="Europe/Berlin")
    ts = read(text([decode("10:00:00")]), source=source).samples["ts"][0]
    assert ts == datetime(2026, 5, 4, 8)


def test_the_repeated_hour_of_a_clock_change_stays_in_file_order_by_offset() -> None:
    clock = Clock(zone="Europe/Berlin")
    ts = _resolve(clock, ("2026-10-25", "01:59:59"), ("2026-10-25", "02:30:00"))["ts"]
    assert ts.to_list() == [datetime(2026, 10, 24, 23, 59, 59), datetime(2026, 10, 25, 0, 30)]


def test_vllm_stamps_get_the_sources_year() -> None:
    source = SourceInfo("s", clock_hint=datetime(2024, 6, 1))
    row = read(text([stats("05-04 10:00:05", 50, 2)]), source=source).samples.row(0, named=True)
    assert (row["ts"], row["ts_inferred"]) == (datetime(2024, 5, 4, 10, 0, 5), True)
