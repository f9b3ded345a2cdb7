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


def test_a_wrappers_stamp_gives_the_zone_the_year_and_the_missing_times() -> None:
    """A container prints UTC beside a line's local clock, seven hours behind it."""
    lines = [
        f"2026-01-01T02:59:58.5Z {stats('12-31 19:59:58', 5, 1)}",
        "2026-01-01T03:00:01Z Traceback (most recent call last):",
        f"2026-01-01T08:00:08Z {stats('01-01 01:00:08', 6, 1)}",
    ]
    rows = read(text(lines)).samples
    assert rows["ts"].to_list() == [datetime(2026, 1, 1, 2, 59, 58), datetime(2026, 1, 1, 8, 0, 8)]
    assert rows["ts_inferred"].to_list() == [True, True]  # the year is not on the line itself


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2, 3)])
def test_new_year_between_a_wrapper_and_its_line(cuts: tuple[int, ...]) -> None:
    """Eight hours ahead the line is in the new year already; eight behind still in the old."""
    for stamp, own, year in (
        ("2025-12-31T17:{}:00.1Z", "01-01 01:{}:00", 2025),
        ("2026-01-01T07:{}:00.1Z", "12-31 23:{}:00", 2026),
    ):
        lines = [f"{stamp.format(m)} {stats(own.format(m), 5, 1)}" for m in range(10, 14)]
        ts = read(text(lines), cuts).samples["ts"]
        assert ts.dt.year().unique().to_list() == [year]
        assert ts.dt.minute().to_list() == [10, 11, 12, 13]


def test_a_zone_that_is_set_is_not_inferred() -> None:
    line = f"2026-05-04T08:00:01Z {decode('10:00:00')}"
    source = SourceInfo("s", zone="Europe/Berlin")
    assert read(text([line]), source=source).samples["ts"][0] == datetime(2026, 5, 4, 8)


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2, 3)])
def test_a_collector_that_takes_lines_late_is_no_zone(cuts: tuple[int, ...]) -> None:
    minutes = [("08:00:01", "10:00:00"), ("08:34:00", "10:10:00"), ("08:20:01", "10:20:00")]
    lines = [f"2026-05-04T{late}Z {decode(own)}" for late, own in minutes]
    ts = read(text(lines), cuts).samples["ts"]
    assert [t.strftime("%H:%M") for t in ts] == ["08:00", "08:10", "08:20"]


def test_a_copy_of_an_old_log_tells_no_zone() -> None:
    line = f"2026-11-04T10:03:01Z {decode('10:00:00')}"
    assert read(text([line])).samples["ts"][0] == datetime(2026, 5, 4, 10)


def test_lines_without_a_wrapper_keep_the_zone_that_others_told() -> None:
    lines = [f"2026-05-04T08:00:00Z {decode('10:00:00')}", decode("10:00:10")]
    for cuts in ((), (1,)):
        ts = read(text(lines), cuts).samples["ts"].to_list()
        assert ts == [datetime(2026, 5, 4, 8), datetime(2026, 5, 4, 8, 0, 10)]


def test_syslogs_clock_is_brought_to_the_lines() -> None:
    """syslog of a host whose clock is seven hours off: the lines' own clock is the truth."""
    lines = [
        f"May  4 03:00:00 gpu llm[7]: {decode('10:00:00')}",
        "May  4 03:00:30 gpu llm[7]: Segmentation fault (core dumped)",
    ]
    batch = read(text(lines), source=SourceInfo("s", clock_hint=datetime(2026, 5, 5)))
    assert batch.events["ts"].to_list() == [datetime(2026, 5, 4, 10, 0, 30)]


def test_samples_without_any_stamp_of_their_own_take_the_wrappers() -> None:
    """SGLang 0.1 prints none."""
    old = "#running-req: {}, #token: 6144, token usage: 0.14, #queue-req: 3"
    lines = [f"2026-05-04T08:00:0{i}.25Z {old.format(i)}" for i in range(1, 4)]
    rows = read(text(lines)).samples
    assert rows["ts"].dt.second().to_list() == [1, 2, 3]
    assert rows["ts"].dt.microsecond().to_list() == [250_000] * 3
    assert not rows["ts_inferred"].any()


def test_a_log_without_any_stamp_has_no_times() -> None:
    rows = read(text(["#running-req: 1, #token: 6144, token usage: 0.14, #queue-req: 3"])).samples
    assert rows["ts"].to_list() == [None]


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (3,), (4,), (1, 2, 3, 4, 5)])
def test_the_hour_that_a_clock_change_repeats_does_not_go_back(cuts: tuple[int, ...]) -> None:
    stamps = ["01:50:00", "02:10:00", "02:50:00", "02:05:00", "02:55:00", "03:00:00"]
    lines = [decode(t, i + 1).replace("2026-05-04", "2026-10-25") for i, t in enumerate(stamps)]
    ts = read(text(lines), cuts, SourceInfo("s", zone="Europe/Berlin")).samples["ts"]
    assert [t.strftime("%H:%M") for t in ts] == [
        "23:50",
        "00:10",
        "00:50",
        "01:05",
        "01:55",
        "02:00",
    ]


def test_a_clock_change_under_a_wrapper() -> None:
    """The difference of the two stamps changes by an hour: no time is lost or repeated."""
    pairs = [("00:50", "02:50"), ("00:59", "02:59"), ("01:01", "02:01"), ("01:59", "02:59")]
    lines = [
        f"2026-10-25T{utc}:01Z {decode(f'{own}:01').replace('2026-05-04', '2026-10-25')}"
        for utc, own in pairs
    ]
    ts = read(text(lines)).samples["ts"]
    assert [t.strftime("%H:%M") for t in ts] == [utc for utc, _ in pairs]


def test_the_spring_gap_takes_the_stamp_before() -> None:
    stamps = ["01:59:59", "02:30:00", "03:00:01"]
    lines = [decode(t).replace("2026-05-04", "2026-03-29") for t in stamps]
    ts = read(text(lines), source=SourceInfo("s", zone="Europe/Berlin")).samples["ts"]
    assert [t.strftime("%H:%M:%S") for t in ts] == ["00:59:59", "00:59:59", "01:00:01"]


def test_times_of_day_alone_get_the_files_day() -> None:
    """SGLang 0.2.15 to 0.3.3."""
    lines = [decode("10:00:00").replace("2026-05-04 ", "")]
    rows = read(text(lines), source=SourceInfo("s", clock_hint=datetime(2024, 9, 3, 11))).samples
    assert rows.select("ts", "ts_inferred").row(0) == (datetime(2024, 9, 3, 10), True)


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (3,)])
def test_access_lines_of_vllm_take_the_minute_before_them(cuts: tuple[int, ...]) -> None:
    asked = 'INFO:     10.0.0.9:5 - "GET /v1/models HTTP/1.1" 200 OK'
    lines = [stats("05-04 10:00:55", 5, 1), asked, stats("05-04 10:01:05", 5, 1), asked, asked]
    source = SourceInfo("s", clock_hint=datetime(2026, 5, 5))
    counts = read(text(lines), cuts, source).access_counts.group_by("minute").agg(pl.sum("n"))
    assert counts.sort("minute").rows() == [
        (datetime(2026, 5, 4, 10, 0), 1), (datetime(2026, 5, 4, 10, 1), 2),
    ]  # fmt: skip


def test_the_printed_clock_where_it_is_asked_for() -> None:
    line = f"2026-05-04T08:00:01Z {decode('10:00:00')}"
    source = SourceInfo("s", as_printed=True)
    assert read(text([line]), source=source).samples["ts"][0] == datetime(2026, 5, 4, 10)
