"""Opens the store that a --store means, for reading logs of this machine into it."""

from __future__ import annotations

from pathlib import Path

from data.errors import CommandError
from data.lake_place import LakePlace, is_lake
from data.store import Store
from ingest.sources import host


def opened(location: str, *, bulk: bool = False) -> Store:
    """The open store; StoreError says why it cannot be."""
    if is_lake(location):
        host.name_this_host()
        return Store.open(location, bulk=bulk)
    return Store.open(beside(location), bulk=bulk)


def beside(location: str) -> Path:
    """Beside which path this machine keeps what belongs to its use of a store."""
    if is_lake(location):
        return LakePlace.parse(location).local
    try:
        return Path(location).expanduser().absolute()
    except RuntimeError as error:
        raise CommandError(f"{location}: no such user; choose another --store") from error
