"""What fails again and again is told once, and once when it works again."""

from __future__ import annotations

import logging

import pytest

from ingest import telling
from ingest.telling import Telling


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(telling, "time", clock)
    return clock


def attempts(told: Telling, clock: Clock, text: str, seconds: int, *, reason: str = "") -> None:
    """One a second, each fails."""
    for _ in range(seconds):
        clock.now += 1
        told.fails(text, reason=reason)


def test_once_at_first_and_once_when_it_is_over(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    told = Telling("the store")
    attempts(told, clock, "it is away", 50)
    told.works()
    told.works()
    assert caplog.messages == ["it is away", "the store: goes on after 49 s"]


def test_again_after_a_minute_and_at_other_words(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    told = Telling("the store")
    attempts(told, clock, "it is away", 59)
    attempts(told, clock, "it starts", 1)
    attempts(told, clock, "it is away", 2)
    assert caplog.messages == ["it is away", "it starts", "it is away"]


def test_words_that_mean_the_same_are_told_once(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    told = Telling("the store")
    for text in ("refused", "starting up", "closed"):
        attempts(told, clock, text, 3, reason="away")
    assert caplog.messages == ["refused"]


def test_what_comes_and_goes_is_no_flood(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    told = Telling("gpu1")
    for _ in range(15):
        attempts(told, clock, "it is away", 1)
        clock.now += 1
        told.works()
    assert caplog.messages == ["it is away", "gpu1: goes on after 1 s"]
    attempts(told, clock, "it is away", 32)
    told.works()
    assert caplog.messages[2:] == ["it is away", "gpu1: goes on after 31 s"]


def test_an_error_of_ours_is_told_with_its_place(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    told, error = Telling("gpu1"), ValueError("never")
    for _ in range(3):
        told.fails("reading failed", trace=error)
    assert [record.exc_info and record.exc_info[1] for record in caplog.records] == [error]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
