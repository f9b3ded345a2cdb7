"""A look at all sources before they are followed: what can never work is refused at once, and what
may work later keeps nobody waiting.

Later there may be a file that is not there yet, and a host that is away. No right to read, a folder
in place of a file, a login that is refused or a host key that nobody trusts need somebody who mends
them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from data.errors import AbsentError, LoginError, UnreachableError
from ingest.config import SourceSpec
from ingest.probe import check
from ingest.sources.address import SSH, SshAddress
from ingest.sources.secret import prompting

AT_ONCE_S = 5.0  # a host that says nothing for so long is left to those who follow its sources


def look(specs: Sequence[SourceSpec], tell: Callable[[str], object]) -> list[str]:
    """SourceError for what can never be followed, and where all that is given is missing: then the
    path is most likely mistyped.

    `tell` hears of files that are waited for.

    Returns:
        what is wrong with each host that is away, for whoever tries it again to tell.
    """
    wanted = [spec for spec in specs if not spec.paused]
    hosts = [_Host(group) for group in _by_host(wanted)]
    for host in hosts:
        host.start()
    missing = _missing(spec for spec in wanted if not spec.location.startswith(SSH))
    away: list[str] = []
    deadline = time.monotonic() + AT_ONCE_S
    for host in hosts:
        host.join(max(0.0, deadline - time.monotonic()))
    for host in hosts:
        missing += host.found()
        away += [host.away] if host.away else []
    if missing and len(missing) == len(specs):
        raise missing[0]
    for error in missing:
        tell(f"{error.name}: no such {error.what} yet; followed as soon as it is there")
    return away


class _Host(threading.Thread):
    """Looks at the sources of one host; while it does so the next host is looked at too.

    Attributes:
        away: why it is not reached.
    """

    def __init__(self, specs: list[SourceSpec]) -> None:
        super().__init__(name=f"look at {specs[0].location}", daemon=True)
        self.away: str | None = None
        self._specs = specs
        self._missing: list[AbsentError] = []
        self._refused: Exception | None = None

    def run(self) -> None:
        """Look, as far as it can be reached."""
        try:
            self._missing = _missing(self._specs)
        except UnreachableError as error:
            self.away = str(error)
        except Exception as error:  # raised where it is waited for
            self._refused = error

    def found(self) -> list[AbsentError]:
        """What is missing there, once it was waited for; SourceError for what can never work."""
        if self.is_alive():
            host = SshAddress.parse(self._specs[0].location).host
            self.away = f"{host}: no answer within {AT_ONCE_S:g} s"
            return []
        if isinstance(self._refused, LoginError) and os.isatty(0):
            with prompting():  # for the passphrase of a key: one question at a time
                self._refused = None
                self.run()
        if self._refused is not None:
            raise self._refused
        return self._missing


def _by_host(specs: Iterable[SourceSpec]) -> Iterable[list[SourceSpec]]:
    groups: dict[str, list[SourceSpec]] = {}
    for spec in specs:
        if spec.location.startswith(SSH):
            host = SshAddress.parse(spec.location).host
            groups.setdefault(str(host), []).append(spec)
    return groups.values()


def _missing(specs: Iterable[SourceSpec]) -> list[AbsentError]:
    """Those of which nothing is there; SourceError for what is worse."""
    found: list[AbsentError] = []
    for spec in specs:
        try:
            check(spec)
        except AbsentError as error:
            found.append(error)
    return found
