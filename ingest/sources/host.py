"""What local files are called in a store that many machines share: `gpu1:/var/log/server.log`.

In a store of one machine they are called by their path alone, and nothing is set here.
"""

from __future__ import annotations

import os
import re
import socket

from data.errors import SourceError

VARIABLE = "SERVESCOPE_HOST"
_prefix: list[str] = []


def name_this_host() -> None:
    """From now on what is read here has this machine's name in front.

    The name must stay the same: a container that is made anew is given it in SERVESCOPE_HOST.
    """
    name = os.environ.get(VARIABLE) or socket.gethostname()
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise SourceError(f"{VARIABLE}={name!r}: give letters, digits, dots and hyphens")
    _prefix[:] = [f"{name}:"]


def forget() -> None:
    """As it was at the start."""
    _prefix.clear()


def named(local: str) -> str:
    """What a path, a container or a stream of this machine is called in the store."""
    return "".join(_prefix) + local


def path_of(name: str) -> str:
    """The path that such a name means here; a plain path is one already."""
    return name.removeprefix("".join(_prefix))


def is_here(name: str) -> bool:
    """Whether it is the name of a path of this machine."""
    return path_of(name).startswith("/")
