"""Numbers, times and states in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import pytest

from dashboard import live_state, sentences, words
from dashboard.followed import Remote
from data.names import tame
from data.run_curves import LiveTiles
from ingest.status import SourceStatus

AT = datetime(2026, 11, 29, 15, 4, 31)


def tiles(**values: Any) -> LiveTiles:
    known: dict[str, Any] = {
        "last_ts": AT, "gen_tok_s": 412.4, "running_reqs": 8, "running_cap": 48, "queued_reqs": 0,
        "kv_usage": 0.5, "accept_len": 1.65, "draft_accept_rate": 0.2167, "idle_after_s": 3.0,
        "ranks_seen": 1, "ranks_idle": 0, "ranks_expected": 1,
    }  # fmt: skip
    return LiveTiles(**known | values)


def card(**values: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "end_state": "running", "started_at": AT, "ready_at": AT.replace(minute=1),
        "ready_after_s": 44.0,
        "ended_at": None, "last_ts": AT, "duration_s": 391.0, "n_faults": 0,
        "spec_algorithm": None,
    }  # fmt: skip
    return known | values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0.0, "0"), (0.554, "0.55"), (5.28, "5.28"), (63.6, "63.6"), (99.96, "100"),
        (412.4, "412"), (2370.0, "2,370"), (-1.5, "-1.5"),
    ],
)  # fmt: skip
def test_numbers_keep_three_digits(value: float | None, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"), (0.44, "0.4 s"), (12.4, "12 s"), (59.6, "1 min"), (200, "3 min 20 s"),
        (7200, "2 h"), (7500, "2 h 5 min"), (273_600, "3 d 4 h"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(None, "–"), (0.0, "0 %"), (0.004, "0.4 %"), (0.2167, "22 %"), (1.0, "100 %")],
)
def test_fractions(fraction: float | None, text: str) -> None:
    assert words.percent(fraction) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (812, "812 bytes"), (1_400_000, "1.4 MB")]
)
def test_sizes(count: int, text: str) -> None:
    assert words.size(count) == text


def test_markup_in_names_is_shown_as_it_is() -> None:
    assert words.plain("a_b [x](y) :red[z] $m$") == r"a\_b \[x\]\(y\) \:red\[z\] \$m\$"


@pytest.mark.parametrize(
    "link", ["http://a.example/x", "HTTPS://a.example", "www.a.example", "me@a.example"]
)
def test_an_address_in_a_name_becomes_no_link(link: str) -> None:
    broken = words.plain(f"run {link}").replace("\\", "")
    assert link not in broken
    assert broken.replace("\N{WORD JOINER}", "") == f"run {link}"


def test_a_name_turns_no_text_around() -> None:
    name = "\x1b[31mred \u202egnp.exe\u2066 \u05d0\u05d1 two\nlines\u2028"
    assert tame(name) == "�[31mred �gnp.exe� \u05d0\u05d1 two lines�"
    assert "\u202e" not in words.plain(name)


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    """The day of the tests' log."""
    monkeypatch.setattr(words, "today", AT.date)


def test_another_day_is_named() -> None:
    assert words.moment(AT) == "15:04:31"
    assert words.moment(AT.replace(day=28)) == "2026-11-28 15:04:31"


@pytest.mark.parametrize(
    ("run", "now", "quiet_s", "sentence"),
    [
        ({}, {}, 0.5, "Generating 412 tok/s with 8 of 48 running; nothing queued."),
        ({}, {"queued_reqs": 12}, 0.5, "Generating 412 tok/s with 8 of 48 running; 12 queued."),
        ({}, {"running_cap": None, "queued_reqs": None}, 1, "Generating 412 tok/s with 8 running."),
        ({}, {"gen_tok_s": None}, 1, "Working on prompts with 8 of 48 running; nothing queued."),
        ({}, {"running_reqs": 0}, 3.5, "Idle since 15:04:31."),
        (
            {}, {"running_reqs": 3, "queued_reqs": 9}, 3.5,
            "Silent since 15:04:31 with 3 running and 9 queued.",
        ),
        ({}, {"running_reqs": 3}, 59, "Silent since 15:04:31 with 3 running."),
        (
            {}, {"running_reqs": 3, "queued_reqs": 9}, 61,
            "Silent since 15:04:31 with 3 running and 9 queued; the server may be stuck or gone.",
        ),
        # Its windows are longer than a minute: so is its silence before it means anything.
        (
            {}, {"idle_after_s": 90.0}, 61,
            "Generating 412 tok/s with 8 of 48 running; nothing queued.",
        ),
        (
            {}, {"running_reqs": 3}, 601,
            "Silent since 15:04:31 with 3 running; the server is lost.",
        ),
        (
            {"end_state": "lost", "ready_at": None}, None, 0,
            "No line since 15:04:31; was still starting.",
        ),
        ({}, {"gen_tok_s": 0.0, "running_reqs": 0}, 0.5, "Idle since 15:04:31."),
        ({"end_state": "stopped"}, {}, 0, "Server stopped at 15:04:31 after 6 min 31 s."),
        (
            {
                "end_state": "crashed", "n_faults": 1,
                "fault": {"title": "Out of memory", "detail": "tried 2 GB"},
            }, {}, 0,
            "Server crashed at 15:04:31 after 6 min 31 s. Out of memory: tried 2 GB (1 fault).",
        ),
        (
            {"end_state": "crashed", "n_faults": 1}, {}, 0,
            "Server crashed at 15:04:31 after 6 min 31 s: 1 fault, marked on the charts.",
        ),
        (
            {"ready_at": AT.replace(minute=5)}, {}, 9, "Ready after 44 s; no request yet."
        ),
        ({"ready_at": None}, {}, 9, "Starting since 15:04:31; not ready yet."),
        ({"ready_at": None, "started_at": None}, {"running_reqs": 0}, 9, "Idle since 15:04:31."),
        ({}, None, 0, "Ready after 44 s; no request yet."),
        ({"ready_at": None}, None, 0, "Starting since 15:04:31; not ready yet."),
    ],
)  # fmt: skip
def test_the_first_line_answers(
    run: dict[str, Any], now: dict[str, Any] | None, quiet_s: float, sentence: str
) -> None:
    current = None if now is None else tiles(**now)
    assert sentences.headline(card(**run), current, quiet_s) == sentence


def test_states_are_told_by_words() -> None:
    at = datetime(2026, 11, 29, tzinfo=UTC)
    status = SourceStatus("/srv/server.log", None, "catching up", 43.4, last_line_at=at)
    assert sentences.reading(status).word == "catching up 43 %"
    assert sentences.reading(SourceStatus("/srv/server.log", None, "ended")).word == "ended"
    assert sentences.server(card(), tiles(), 0.5).word == "generating"
    assert sentences.server(card(), tiles(gen_tok_s=None), 0.5).word == "working on prompts"
    assert sentences.server(card(), tiles(running_reqs=0), 9.0).word == "idle since 15:04:31"
    silent, stuck = (sentences.server(card(), tiles(), quiet_s) for quiet_s in (9.0, 61.0))
    assert (silent.word, silent.colour) == ("silent", "gray")
    assert (stuck.word, stuck.colour) == ("silent", "orange")
    assert sentences.server(card(), tiles(), 601.0).word == "lost"
    assert sentences.server(card(end_state="stopped"), tiles(), 0).word == "server stopped"
    assert sentences.readiness(card()) == "ready after 44 s"
    assert sentences.age(status, 4.2) == "last line came 4 s ago, 0 bytes behind"
    assert sentences.age(status, 4.2, AT.replace(day=28)) == (
        "last line came 4 s ago, 0 bytes behind; last sample stamped 2026-11-28 15:04:31"
    )


def test_tiles_say_the_strict_rate_and_never_a_rate_when_idle() -> None:
    shown = sentences.tiles(card(spec_algorithm="EAGLE3"), tiles(), idle=False)
    assert [tile.value for tile in shown] == ["412", "8 of 48", "0", "1.65", "50 %"]
    assert shown[3].detail == "strict rate 22 %"
    assert sentences.tiles(card(), tiles(), idle=True)[0].value == "silent"
    idle = sentences.tiles(card(), tiles(running_reqs=0), idle=True)[0]
    assert (idle.value, idle.detail) == ("idle", "last 412")
    assert [tile.value for tile in sentences.tiles(card(), None, idle=False)] == ["–"] * 5


def test_missing_ranks_are_said() -> None:
    assert sentences.ranks(tiles()) is None
    assert "1 of 8" in (sentences.ranks(tiles(ranks_expected=8)) or "")


def test_a_sample_not_seen_before_is_as_old_as_the_last_line() -> None:
    """A log of yesterday that is read under an open page is not a server at work."""
    early, late = (datetime(2026, 4, 1, 10, minute) for minute in (0, 5))
    live_state._seen.clear()
    assert live_state.quiet_s("a", early, None) == inf  # nothing reads it: a past run
    assert live_state.quiet_s("b", early, followed(0.0)) < 60
    assert live_state.quiet_s("b", late, followed(72_000.0)) >= 72_000
    assert live_state.quiet_s("b", late, followed(1.0)) >= 72_000  # a line, but no sample
    # Of another machine, whose clock is 20 hours behind: what comes while we look is new.
    assert live_state.quiet_s("c", early, elsewhere(72_000.0)) >= 72_000
    assert live_state.quiet_s("c", late, elsewhere(72_000.0)) < 60


def followed(age_s: float) -> SourceStatus:
    """A source whose last line is so old."""
    return SourceStatus("/log", None, last_line_at=datetime.now(UTC) - timedelta(seconds=age_s))


def elsewhere(age_s: float, by: str | None = "process 7 on gpu1") -> Remote:
    """The same, followed by another process."""
    moment = datetime.now(UTC) - timedelta(seconds=age_s)
    return Remote("gpu1:/log", None, "r1", by, moment, "following" if by else "not followed")


def test_who_follows_a_source_elsewhere_is_said() -> None:
    assert sentences.age(elsewhere(3.2), 3.2) == (
        "followed by process 7 on gpu1, last line stored 3 s ago"
    )
    assert sentences.age(elsewhere(3.2, by=None), None) == "followed by nobody now"
    assert sentences.reading(elsewhere(3.2, by=None)).word == "not followed"
