"""What time a sample describes: interval_s, interval_from and window."""

from __future__ import annotations

import pytest

from tests.logs import decode, prefill, read, sglang_boot, stats, text, timed

BOOT = sglang_boot("10:00:00")


def _decodes(lines: list[str]) -> list[dict[str, object]]:
    rows = timed(read(text(lines))).filter(kind="decode")
    return rows.select("interval_s", "interval_from", "window").to_dicts()


def test_a_steady_window_is_as_long_as_its_steps() -> None:
    lines = [*BOOT, prefill("10:00:01"), decode("10:00:02"), decode("10:00:02", rate=80)]
    steady = _decodes(lines)[1]
    assert steady == {"interval_s": 40 * 1 / 80, "interval_from": "steps", "window": "steady"}


def test_speculation_counts_accepted_tokens_into_the_steps() -> None:
    lines = [*BOOT, decode("10:00:02", accept=1.5), decode("10:00:03", 1, 120, accept=1.5)]
    assert _decodes(lines)[1]["interval_s"] == pytest.approx(40 * 1.5 / 120)


def test_lines_of_one_second_share_the_time_evenly() -> None:
    lines = [*BOOT, decode("10:00:02"), prefill("10:00:03", 2, 1)]
    lines += [decode("10:00:06", n, 90) for n in (3, 4, 5, 6)] + [decode("10:00:07", 9, 90)]
    rows = _decodes(lines)
    assert [row["interval_s"] for row in rows[1:]] == [1.0, 1.0, 1.0, 1.0, 1.0]
    assert {row["window"] for row in rows[1:]} == {"mixed"}


def test_the_windows_of_a_second_are_corrected_when_it_is_over() -> None:
    lines = [*BOOT, decode("10:00:02"), *(decode("10:00:04", n, 90) for n in (2, 3))]
    lines += [decode("10:00:05", 4, 90)]
    data = text(lines)
    cut = read(data, cuts=[5])
    assert cut.samples["interval_s"].to_list()[1] == 2.0  # all that was known then
    assert cut.intervals["interval_s"].to_list() == [1.0]
    assert timed(cut)["interval_s"].to_list() == timed(read(data))["interval_s"].to_list()


def test_milliseconds_are_not_shared() -> None:
    lines = [*BOOT, decode("10:00:02.100", 2), decode("10:00:02.400", 3), decode("10:00:03.150", 4)]
    rows = _decodes(lines)
    assert [row["interval_s"] for row in rows[1:]] == [pytest.approx(0.3), pytest.approx(0.75)]


def test_the_first_window_reaches_back_before_ready() -> None:
    lines = [*BOOT, decode("10:00:09", 1, 4), decode("10:00:10", 1, 80)]
    assert [row["window"] for row in _decodes(lines)] == ["startup", "steady"]


def test_a_window_after_idle_is_marked_and_keeps_the_clocks_length() -> None:
    lines = [*BOOT, decode("10:00:02"), decode("10:00:02"), decode("10:00:03")]
    lines += [prefill("10:01:00"), decode("10:01:01", 1, 0.7), decode("10:01:01")]
    rows = _decodes(lines)
    assert rows[3]["window"] == "after_idle"
    assert rows[3]["interval_from"] == "stamps"
    assert rows[3]["interval_s"] == pytest.approx((61 - 3) / 2)  # two lines share that second
    assert rows[4]["window"] == "steady"


def test_a_long_step_is_not_idle() -> None:
    """Nothing was admitted in between, so something ran all the time."""
    lines = [*BOOT, *(decode("10:00:02") for _ in range(4)), decode("10:00:12", 1, 4)]
    assert _decodes(lines)[4]["window"] == "steady"


def test_a_window_after_hours_is_after_idle_without_a_prefill_line() -> None:
    """Usual windows of 0.4 s: ten of them are a slow window, hours are none."""
    usual = [*BOOT, *(decode("10:00:02") for _ in range(4))]
    slow = _decodes([*usual, decode("10:00:06", 1, 10), decode("10:00:06")])
    assert [row["window"] for row in slow[4:]] == ["steady", "steady"]
    for running, rate in ((1, 0.01), (3, 40)):
        data = text([*usual, decode("13:00:02", running, rate), decode("13:00:02", running)])
        for cuts in ((), (7,)):
            rows = timed(read(data, cuts=cuts)).filter(kind="decode")
            assert rows["window"].to_list()[4:] == ["after_idle", "steady"]
            assert rows["interval_from"].to_list()[4] == "stamps"
    busy = [*usual, prefill("13:00:02", 1, 1), decode("13:00:02", 2)]
    assert _decodes(busy)[4]["window"] == "after_idle"


def test_a_prefill_inside_makes_the_window_mixed() -> None:
    lines = [*BOOT, decode("10:00:02", 2), prefill("10:00:02", 1, 2), decode("10:00:03", 2)]
    assert _decodes(lines)[1]["window"] == "mixed"


def test_single_stream_windows_are_measured_by_steps() -> None:
    lines = [*BOOT, decode("10:00:02"), prefill("10:00:02", 1, 0), decode("10:00:03", 1, 160)]
    row = _decodes(lines)[1]
    assert row == {"interval_s": 0.25, "interval_from": "steps", "window": "mixed"}


def test_a_rank_is_measured_by_its_own_lines() -> None:
    lines = [*BOOT]
    for second in range(2, 6):
        lines += [
            decode(f"10:00:0{second}", 2, 100, ranks=f" DP{rank} TP{rank}") for rank in (0, 1)
        ]
    rows = timed(read(text(lines)))
    assert rows["dp_rank"].to_list() == [0, 1] * 4
    assert rows["window"].to_list()[2:] == ["steady"] * 6
    assert rows["interval_s"].to_list()[2:] == [0.8] * 6


def test_vllm_is_measured_by_stamps() -> None:
    lines = [stats(f"05-04 10:00:{s}", 50, 2) for s in ("05", "15", "25")]
    rows = timed(read(text(lines)))
    assert rows["interval_s"].to_list() == [10.0, 10.0, 10.0]
    assert rows["interval_from"].to_list() == ["configured", "stamps", "stamps"]
    assert rows["window"].to_list() == ["mixed", "steady", "steady"]


def test_vllm_after_silence_counts_one_interval_of_its_timer() -> None:
    """The timer runs on while nothing is printed: the window is no longer than it."""
    lines = [stats(f"05-04 10:00:{s}", 50, 2) for s in ("00", "05", "10")]
    lines += [stats("05-04 10:00:15", 0.0, 0), stats("05-04 10:09:20", 30, 1, prompt=8.0)]
    last = timed(read(text(lines))).tail(1)
    assert last.select("interval_s", "interval_from", "window").row(0) == (
        5.0, "configured", "after_idle",
    )  # fmt: skip


def test_a_line_that_came_late_keeps_its_true_length() -> None:
    lines = [stats(f"05-04 10:00:{s}", 50, 2) for s in ("00", "10", "20", "47")]
    assert timed(read(text(lines)))["interval_s"].to_list()[-1] == 27.0


def test_a_clock_that_is_set_back_gives_no_interval() -> None:
    lines = [*BOOT, decode("10:00:05", 2), decode("10:00:03", 3), decode("10:00:04", 4)]
    assert [row["interval_s"] for row in _decodes(lines)[1:]] == [None, 1.0]
