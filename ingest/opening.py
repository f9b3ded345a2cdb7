"""Opens the store that a --store means, for reading logs of this machine into it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from data.errors import AwayError, CommandError
from data.lake_place import POSTGRES, LakePlace, is_lake
from data.store import Store
from ingest.backoff import Backoff
from ingest.sources import host

FIRST_PAUSE_S, MOST_PAUSE_S = 1.0, 5.0
Got = TypeVar("Got")


def opened(location: str, *, bulk: bool = False) -> Store:
    """The open store; StoreError says why it cannot be."""
    if is_lake(location):
        host.name_this_host()
        return Store.open(location, bulk=bulk)
    return Store.open(beside(location), bulk=bulk)


def patiently(
    work: Callable[[], Got], tell: Callable[[str], object], stopping: threading.Event
) -> Got:
    """What `work` gives, as soon as the server of the store answers; AwayError once `stopping`.

    `tell` hears why it has to wait, each reason once.
    """
    backoff, told = Backoff(FIRST_PAUSE_S, MOST_PAUSE_S), set[str]()
    while True:
        try:
            return work()
        except AwayError as error:
            if str(error) not in told:
                told.add(str(error))
                tell(f"{error}; waiting until it does")
            if stopping.wait(backoff.next()):
                raise


def beside(location: str) -> Path:
    """Beside which path this machine keeps what belongs to its use of a store."""
    if is_lake(location):
        return LakePlace.parse(location).local
    scheme, is_url, _ = location.partition("://")
    if is_url:
        raise CommandError(
            f"--store {scheme}://…: give a file, or {POSTGRES}host=… dbname=… (docs/fleet.md)"
        )
    try:
        return Path(location).expanduser().absolute()
    except RuntimeError as error:
        raise CommandError(f"{location}: no such user; choose another --store") from error
