"""Long runs: the page comes at once and tells what goes on; the analysis follows, the same."""

from __future__ import annotations

import threading

import pytest
from streamlit.testing.v1 import AppTest

from dashboard import background, run_cache
from data import long_run
from data.store import Store
from tests.pages import first_line, forget, run_of, shown


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The analysis goes on once this is set."""
    opened = threading.Event()
    load = run_cache.loaded

    def waiting(*asked: object) -> object:
        assert opened.wait(60)
        return load(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(run_cache, "loaded", waiting)
    return opened


def told(test: AppTest) -> list[str]:
    """All that a page says, in its order, but how long something takes."""
    blocks = (*test.subheader, *test.warning, *test.info, *test.text, *test.markdown)
    return [block.value for block in blocks]


def check(page: str, store: Store, said: str, gate: threading.Event,
          monkeypatch: pytest.MonkeyPatch, **address: str) -> AppTest:  # fmt: skip
    """The page as a long run's; gives what it shows before its analysis is there."""
    forget()
    gate.set()
    at_once = shown(page, store, address)
    forget()
    gate.clear()
    monkeypatch.setattr(run_cache, "LONG", 10)
    early = shown(page, store, address)
    assert any(block.value.startswith(said) for block in early.caption)
    assert len(told(early)) < len(told(at_once))
    gate.set()
    for job in list(background._jobs.values()):
        assert job.future is not None
        job.future.result(60)
    late = early.run()
    assert not late.exception
    assert told(late) == told(at_once)
    assert not any(block.value.startswith(said) for block in late.caption)
    return early


def test_a_long_run_s_page_is_there_before_its_findings(
    small: Store, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Looking for findings in"
    run_id = run_of(small, "sglang-0.5.23-ngram")
    check("run", small, said, gate, monkeypatch, run=run_id)


def test_long_runs_are_compared_beside_the_page(
    small: Store, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, other = run_of(small, "sglang-0.5.23-base"), run_of(small, "sglang-0.5.23-ngram")
    address = {"base": base, "with": other}
    test = check("compare", small, "Comparing", gate, monkeypatch, **address)
    assert "is faster" in first_line(test)


def test_a_run_that_is_analysed_in_pieces_says_so(
    small: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget()
    monkeypatch.setattr(long_run, "MOST", 10)
    base, other = run_of(small, "sglang-0.5.23-base"), run_of(small, "sglang-0.5.23-ngram")
    tests = (
        shown("run", small, {"run": base}),
        shown("compare", small, {"base": base, "with": other}),
    )
    for test in tests:
        assert any("are analysed in pieces of some minutes" in c.value for c in test.caption)
    forget()


def test_of_a_run_that_is_written_what_was_found_a_moment_ago_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dashboard.background.st.fragment", lambda *_, **__: lambda *_: None)
    seen: list[int] = []
    clock = [0.0]
    monkeypatch.setattr("dashboard.background.monotonic", lambda: clock[0])

    def ask(stamp: int) -> int | None:
        found = background.done("run", stamp, seen.append, "Looking")
        for job in list(background._jobs.values()):
            assert job.future is not None
            job.future.result(10)
        return found

    background.settle()
    ask(1)
    assert [ask(1), ask(2)] == [1, 1]
    clock[0] += 31
    ask(3)
    assert ask(3) == 3
    assert seen == [1, 3]


def test_an_analysis_that_fails_is_told_and_tried_again() -> None:
    background.settle()

    def fails(_: int) -> None:
        raise ZeroDivisionError

    for _ in range(2):
        job = background._jobs["run"] = background._begin(1, fails)
        assert job.future is not None
        assert isinstance(job.future.exception(10), ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            background.done("run", 1, fails, "Looking")
        assert background._jobs == {}
