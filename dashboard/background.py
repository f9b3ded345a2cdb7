"""Work that takes longer than a page may: done beside it, one at a time, with a line that says so.

A page asks for it by a key and says what the store holds (the stamp). While it is not there the
page shows the rest of what it has and looks each second. Of a run that is being written every
look finds another stamp: then what was finished a moment ago is good enough.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, TypeVar

import streamlit as st

from dashboard import words

_MOST: Final = 32  # that are remembered
_FRESH_S: Final = 30.0
_TIMES: Final = 5.0  # as long as it took, what it found is fresh


Stamp = TypeVar("Stamp", bound=Hashable)


@dataclass(slots=True)
class _Job:
    stamp: Hashable
    begun: float = field(default_factory=monotonic)
    ended: float | None = None
    future: Future[None] | None = None

    def is_fresh(self) -> bool:
        """Whether what was found is good enough for another stamp."""
        assert self.ended is not None
        lasted = self.ended - self.begun
        return monotonic() - self.ended < max(_FRESH_S, _TIMES * lasted)


_turn = threading.Lock()
_jobs: dict[Hashable, _Job] = {}
_worker = ThreadPoolExecutor(1, thread_name_prefix="analysis")


def done(key: Hashable, stamp: Stamp, work: Callable[[Stamp], Any], said: str) -> Stamp | None:
    """The stamp that the work was done for, so that what it left in a cache is found; None while
    it goes on, and then a line on the page says so.

    Args:
        work: fills a cache; what it gives is not kept.
        said: what is going on, in words.
    """
    with _turn:
        job = _jobs.get(key)
        over = job is not None and job.ended is not None
        if job is None or (over and job.stamp != stamp and not job.is_fresh()):
            job = _jobs[key] = _begin(stamp, work)
            while len(_jobs) > _MOST:
                del _jobs[next(iter(_jobs))]
    assert job.future is not None
    if not job.future.done():
        st.fragment(_wait, run_every="1s")(job, said)
        return None
    error = job.future.exception()
    if error is not None:
        with _turn:
            _jobs.pop(key, None)  # the next visit tries again
        raise error
    return job.stamp  # type: ignore[return-value]


def _begin(stamp: Any, work: Callable[[Any], Any]) -> _Job:
    job = _Job(stamp)

    def run() -> None:
        try:
            work(stamp)
        finally:
            job.ended = monotonic()

    job.future = _worker.submit(run)
    return job


def _wait(job: _Job, said: str) -> None:
    """Until it is done: then all of the page is drawn anew."""
    assert job.future is not None
    if job.future.done():
        st.rerun()
    st.caption(words.plain(f"{said} … {monotonic() - job.begun:.0f} s"))


def settle() -> None:
    """Wait for all that goes on, and forget it."""
    with _turn:
        waiting = [job.future for job in _jobs.values() if job.future is not None]
        _jobs.clear()
    for future in waiting:
        future.exception()
