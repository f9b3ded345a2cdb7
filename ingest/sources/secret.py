"""Passphrases of private keys: from the environment or the terminal, kept in memory only."""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Iterator

VARIABLE = "SERVESCOPE_SSH_PASSPHRASE"
_known: dict[str, str] = {}
_prompting: list[bool] = []


@contextlib.contextmanager
def prompting() -> Iterator[None]:
    """While this lasts the user may be asked on the terminal, if there is one."""
    _prompting.append(True)
    try:
        yield
    finally:
        _prompting.pop()


def passphrase(path: str) -> str | None:
    """The passphrase of a key file; None if nobody has said it."""
    known = _known.get(path) or os.environ.get(VARIABLE)
    if not known and _prompting and os.isatty(0):
        known = getpass.getpass(f"Passphrase of {path}: ")
        _known[path] = known
    return known


def forget(path: str) -> None:
    """It was wrong."""
    _known.pop(path, None)
