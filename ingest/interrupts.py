"""Ctrl-C while libraries work that have a way of their own with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_LOOK_S = 0.5


@contextmanager
def between_steps() -> Iterator[Callable[[], None]]:
    """While this lasts Ctrl-C waits for the next call of what is given here, which raises
    KeyboardInterrupt then; a second one does not wait. Outside the main thread, where no signal
    comes, nothing changes.

    For imports: polars reacts to the signal in whichever thread is inside of it, so that a step
    under way would end half done, and not always as a KeyboardInterrupt.
    """
    come = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if come.is_set():
            raise KeyboardInterrupt
        come.set()

    def check() -> None:
        if come.is_set():
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    # Setting a handler through Python also takes that of polars out of the way.
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield check
        check()
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for_one() -> NoReturn:
    """Wait until somebody ends us, which is a KeyboardInterrupt.

    At its first use, in whichever thread, polars puts a handler of its own in the place of
    Python's, and outside of polars that one does nothing: so ours is set anew all the while.
    """
    never, ours = threading.Event(), signal.getsignal(signal.SIGINT)
    while True:
        never.wait(_LOOK_S)
        signal.signal(signal.SIGINT, ours)


@contextmanager
def plainly() -> Iterator[None]:
    """DuckDB ends what it does at Ctrl-C with a RuntimeError: here it is a KeyboardInterrupt, as it
    is everywhere else."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
