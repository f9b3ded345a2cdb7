"""What lies where the store is to be, before DuckDB sees it.

DuckDB opens more than its own files: for an SQLite file it looks for an extension, and at a pipe
it waits for a writer.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from data.errors import StoreError

_MAGIC, _MAGIC_AT = b"DUCK", 8


def refuse_other_files(place: Path) -> None:
    """StoreError for anything but a DuckDB file, an empty file, or nothing yet."""
    try:
        mode = os.stat(place).st_mode
        if stat.S_ISDIR(mode):
            raise StoreError(f"{place}: is a folder; --store takes a file")
        if not stat.S_ISREG(mode):
            raise StoreError(f"{place}: is not a regular file; choose another --store")
        with place.open("rb") as file:
            head = file.read(_MAGIC_AT + len(_MAGIC))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(
            f"{place}: cannot be read ({error.strerror}); choose another --store"
        ) from error
    if head and head[_MAGIC_AT:] != _MAGIC:
        raise StoreError(f"{place}: is not a store (not a DuckDB file); choose another --store")


def drop_empty(place: Path) -> None:
    """Remove an empty file, as a full disk leaves one: DuckDB begins only where none is."""
    target = place.resolve()
    if target.exists() and not target.stat().st_size:
        target.unlink()
