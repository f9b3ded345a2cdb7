"""The store and the port of `servescope up`: the port answers even while the store does not."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

from data.errors import AwayError
from data.lake_place import is_lake
from data.store import Store
from ingest import control, opening
from ingest.interrupts import plainly
from ingest.terminal import warn

AT_ONCE_S = 2.0  # where opening takes longer, pages say so meanwhile
Meanwhile = Callable[[threading.Event, Sequence[socket.socket]], None]


@contextlib.contextmanager
def opened(
    location: str, port: int, address: str, meanwhile: Meanwhile
) -> Iterator[tuple[Store, list[socket.socket], str]]:
    """The open store, the sockets to serve it at and their URL (`control.listening`).

    `meanwhile`: serves at these sockets until the event is set. A store of many machines may be
    waited for; of a file it is known at once whether it can be opened.
    """
    with plainly(), contextlib.ExitStack() as stack:
        at = None
        if is_lake(location):
            attempt = _Attempt(location)
            stack.callback(attempt.give_up)
            if not attempt.over.wait(AT_ONCE_S):
                at = stack.enter_context(control.listening(port, address))
                print(f"Servescope: {at[1]} (waiting for the store; stop with Ctrl-C)", flush=True)
                meanwhile(attempt.over, at[0])
            store = stack.enter_context(attempt.store())
        else:
            store = stack.enter_context(opening.opened(location))
        sockets, url = at or stack.enter_context(control.listening(port, address))
        yield store, sockets, url


class _Attempt:
    """A thread that opens a store as soon as its server answers.

    Attributes:
        over: it is open, or never will be.
    """

    def __init__(self, location: str) -> None:
        self.over = threading.Event()
        self._stopping = threading.Event()
        self._got: Store | BaseException = AwayError(f"{location}: was not waited for")
        self._thread = threading.Thread(
            target=self._open, args=[location], name="opening", daemon=True
        )
        self._thread.start()

    def store(self) -> Store:
        """What was opened; the error that ended it."""
        self.over.wait()
        if isinstance(self._got, BaseException):
            raise self._got
        return self._got

    def give_up(self) -> None:
        """Wait no longer. A server that stands still in the midst of it would hold us for ever,
        so the thread is left to itself."""
        self._stopping.set()

    def _open(self, location: str) -> None:
        try:
            self._got = opening.patiently(lambda: opening.opened(location), warn, self._stopping)
        except BaseException as error:
            self._got = error
        self.over.set()
