"""Ctrl-C while libraries work that have a way of their own with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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


@contextmanager
def plainly() -> Iterator[None]:
    """While this lasts Ctrl-C is a KeyboardInterrupt of the main thread.

    Polars, when it is loaded, puts a handler of its own in the place of Python's: waits go on, and
    what a thread does with polars at that moment ends in place of the program. DuckDB ends what it
    does with a RuntimeError.
    """
    signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
