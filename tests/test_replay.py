"""The demo's replay: a finished log becomes a growing one, with its order, pace and format."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from ingest.pipeline import Pipeline, SourceInfo
from ingest.replay import MAX_GAP_S, SERVERS, STARTUP_S, Replay, plan, restamp
from tests.waiting import until

NOW = datetime(2031, 2, 3, 4, 5, 6, 78_901)

LOG = b"""starting without a stamp
[2030-12-31 23:59:00] server_args={'model_path': '/m'}
[2030-12-31 23:59:40] The server is fired up and ready to roll!
[2030-12-31 23:59:42] Decode batch, #running-req: 1
[2030-12-31 23:59:42] Decode batch, #running-req: 2
[2030-12-31 23:59:42] Decode batch, #running-req: 3
[2030-12-31 23:59:43] Decode batch, #running-req: 4
[2031-01-01 00:09:43] Decode batch, #running-req: 5
"""


def test_keeps_every_line_in_order() -> None:
    assert b"".join(step.line for step in plan(LOG)) == LOG


def test_speeds_up_the_start_and_shortens_silence_but_keeps_the_pace_between() -> None:
    delays = [step.delay_s for step in plan(LOG)]
    assert sum(delays[:3]) == pytest.approx(STARTUP_S)
    # Three lines share 23:59:42: they are spread over that second.
    assert delays[3:] == pytest.approx([2, 1 / 3, 1 / 3, 1 / 3, MAX_GAP_S])


def test_a_clock_that_goes_back_never_waits() -> None:
    log = b"[2030-01-01 00:00:09] a\n[2030-01-01 00:00:03] b\n[2030-01-01 00:00:10] c\n"
    assert [step.delay_s for step in plan(log)] == pytest.approx([0, 0.5, 0.5])


def test_a_last_line_without_an_end_gets_one() -> None:
    assert [step.line for step in plan(b"one\ntwo")] == [b"one\n", b"two\n"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"[2030-12-31 23:59:00] Decode", b"[2031-02-03 04:05:06] Decode"),
        (b"[2030-12-31 23:59:00.123 DP1 TP0] D", b"[2031-02-03 04:05:06.078 DP1 TP0] D"),
        (b"(APIServer pid=7) INFO 12-31 23:59:00 [a.py:1] E", None),
        (b'{"asctime": "2030-12-31 23:59:00,776", "m": 1}', None),
        (b"no stamp, build 12-31 23:59:00, of 2030-12-31 23:59:00", None),
        (b"bar 100%\r[2030-12-31 23:59:00] glued", b"bar 100%\r[2031-02-03 04:05:06] glued"),
    ],
)
def test_stamps_move_and_keep_their_form(line: bytes, expected: bytes | None) -> None:
    if expected is None:
        expected = line.replace(b"INFO 12-31 23:59:00", b"INFO 02-03 04:05:06").replace(
            b'"2030-12-31 23:59:00,776"', b'"2031-02-03 04:05:06,078"'
        )
    assert restamp(line, NOW) == expected


@pytest.mark.parametrize("name", SERVERS)
def test_bundled_logs_replay_whole_and_soon(name: str) -> None:
    log = SERVERS[name].read_bytes()
    steps = plan(log)
    assert b"".join(step.line for step in steps).removesuffix(b"\n") == log.removesuffix(b"\n")
    assert all(0 <= step.delay_s <= MAX_GAP_S for step in steps)
    samples = [step.line for step in steps if b"throughput" in step.line]
    assert samples
    assert all(restamp(line, NOW) != line for line in samples)


@pytest.mark.parametrize("name", SERVERS)
def test_a_replayed_log_reads_like_the_real_one(name: str) -> None:
    log = SERVERS[name].read_bytes()
    now = NOW
    written = []
    for step in plan(log):
        now += timedelta(seconds=step.delay_s)
        written.append(restamp(step.line, now))
    real = printed(log)
    assert real
    assert printed(b"".join(written)) == real


def printed(log: bytes) -> list[tuple[object, ...]]:
    """What the lines of a log print, times left out."""
    info = SourceInfo("s", clock_hint=NOW)
    batch = Pipeline(info, "f").feed(log if log.endswith(b"\n") else log + b"\n")
    columns = ["line_no", "kind", "running_reqs", "gen_tok_s", "accept_len", "kv_usage"]
    return batch.samples.select(columns).rows()


def test_growing_files_start_over_until_stopped(tmp_path: Path) -> None:
    sample = tmp_path / "sample.log"
    sample.write_bytes(LOG)
    replay = Replay(tmp_path, speed=1000, servers={"a.log": sample, "b.log": sample})
    replay.start()
    try:
        until(lambda: all(path.read_bytes().count(b"ready to roll") > 2 for path in replay.paths))
    finally:
        replay.stop()
    for path in replay.paths:
        content = path.read_bytes()
        assert content.endswith(b"\n")
        assert b"2030-12-31" not in content
        lines = content.split(b"\n")
        starts = [index for index, line in enumerate(lines) if b"server_args" in line]
        assert all(after - before == len(plan(LOG)) for before, after in pairwise(starts))
