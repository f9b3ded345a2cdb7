"""One process owns a store: an advisory lock beside it that can say who the owner is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path

from data.errors import StoreError


class StoreLock:
    """Holds `<store>.lock` for as long as the process lives; the kernel drops it at any death.

    The file stays when the lock is given up: removing it would let two processes hold locks
    on two different files of one name.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = store.with_name(store.name + ".lock")
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"{store}: cannot create the lock file beside it ({error.strerror}); "
                "choose a folder you may write to with --store"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = self._owner()
            os.close(self._fd)
            raise StoreError(f"{store}: in use by {owner}; stop it or use --store") from error
        self.announce(None)

    def announce(self, url: str | None) -> None:
        """Write down who we are, for the message that a second process shows."""
        text = json.dumps({"pid": os.getpid(), "url": url}).encode()
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only its owner is unknown
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, text, 0)

    def release(self) -> None:
        """Give the store up."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def _owner(self) -> str:
        try:
            owner = json.loads(os.pread(self._fd, 4096, 0))
            url = f" (servescope up at {owner['url']})" if owner["url"] else ""
            return f"process {owner['pid']}{url}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
