"""Has commits of a lake take turns with those who delete from the tables that they add to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from data.errors import BusyError, DeletingError
from data.lake_fence import DELETING
from data.lake_place import LakePlace
from data.lake_session import LakeSession
from data.patience import Patience

# For the commits of imports: meanwhile nobody else commits, and one that stands still never does.
IMPORTS_WAIT_S = 20.0
_ITS_TURN: ContextVar[bool] = ContextVar("its_turn", default=False)


class Turns:
    """What this process stores, one try after another."""

    def __init__(self, place: LakePlace, patience: Patience) -> None:
        self._place = place
        self._patience = patience

    @property
    def is_ours(self) -> bool:
        """Whether this thread is in its turn: while it lasts nobody deletes."""
        return _ITS_TURN.get()

    def again(self, tries: int, work: Callable[[], None]) -> None:
        """Do it, and once more each time that others came first, up to so many times in all."""
        while True:
            try:
                return self._once(work)
            except BusyError:
                tries -= 1
                if not tries:
                    raise

    def _once(self, work: Callable[[], None]) -> None:
        """Do it; where somebody deletes, after them and before they go on."""
        try:
            work()
        except DeletingError:
            with self._in_line():
                work()

    @contextlib.contextmanager
    def _in_line(self) -> Iterator[None]:
        """Our turn, once we have it."""
        with (
            contextlib.closing(LakeSession(self._place)) as session,
            contextlib.ExitStack() as turn,
        ):
            what = f"{session.holder(DELETING)} has been deleting what is rolled up"
            with self._patience.asked(what):
                turn.enter_context(session.turn(shared=True))
            its = _ITS_TURN.set(True)
            try:
                yield
            finally:
                _ITS_TURN.reset(its)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """While this lasts nobody else commits."""
        session = LakeSession(self._place, IMPORTS_WAIT_S)
        with (
            contextlib.closing(session),
            session.turn(),
            self._patience.asked("this process has been deleting what is rolled up"),
        ):
            yield
