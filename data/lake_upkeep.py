"""Keeps a lake small: of all processes that could, one does it at a time."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from typing import TYPE_CHECKING, Final

import duckdb

from data import space
from data.errors import StoreError
from data.fold import fold
from data.lake_place import LakePlace
from data.lake_session import ELECTED, UPKEEP, LakeSession

if TYPE_CHECKING:
    from data.lake_store import LakeStore

EVERY_S = 60.0
FOLD_CHECKPOINTS = 5_000
# A thread waits by it: the state that all of a program shares is for who seeds it.
_CHANCE: Final = random.Random()
_log = logging.getLogger(__name__)


class Upkeep:
    """A thread that is elected by a lock; whoever dies loses it."""

    def __init__(self, store: LakeStore, place: LakePlace) -> None:
        self._store = store
        self._place = place
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after what is being done."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        session: LakeSession | None = None
        while not self._stopping.wait(EVERY_S * _CHANCE.uniform(0.5, 1.0)):
            try:
                session = session or LakeSession(self._place)
                if session.hold(ELECTED) and session.hold(UPKEEP):
                    try:
                        self._once()
                    finally:
                        session.release(UPKEEP)
            except (StoreError, duckdb.Error) as error:
                # An append that came between, or a server that is away: the next time will do.
                _log.info("upkeep: %s", str(error).split("\n", 1)[0])
        if session is not None:
            session.close()

    def _once(self) -> None:
        with contextlib.closing(self._store.cursor()) as con:
            row = con.execute("SELECT count(*) FROM checkpoints").fetchone()
            if row is not None and row[0] > FOLD_CHECKPOINTS:
                self._store.transact(fold, deletes=True)
            if space.noted_s_ago(con) >= space.NOTED_EVERY_S:
                space.note_size(con, self._store.size_bytes())
        self._store.tidy()
