"""First contact with a host: its key is shown, and trusted only if the user says so."""

from __future__ import annotations

from collections.abc import Callable

import paramiko

from data.errors import HostKeyError
from ingest.sources.address import SSH, HostAddress
from ingest.sources.host_keys import add, fingerprint
from ingest.sources.ssh import Connection
from ingest.sources.ssh_config import Hop


def trust(text: str, ask: Callable[[str], bool], tell: Callable[[str], object]) -> bool:
    """Make the keys of a host, and of those on the way to it, known.

    Args:
        text: `[user@]host[:port]`, or an address of a file there.
        ask: whether the user trusts what is said.
        tell: what was done.

    Returns:
        whether all of them are trusted now. HostKeyError where a known key has changed.
    """
    host = HostAddress.parse(text.removeprefix(SSH).partition("/")[0])
    met: list[Hop] = []

    def meet(hop: Hop, key: paramiko.PKey) -> bool:
        place = f"{hop.name} ({hop.host} port {hop.port})"
        if not ask(f"{place} shows the host key {fingerprint(key)}. Trust it?"):
            return False
        met.append(hop)
        tell(f"{place}: its key is in {add(hop, key)} now")
        return True

    connection = Connection(host, meet)
    try:
        connection.transport()
    except HostKeyError as error:
        if error.changed:
            raise
        return False
    finally:
        connection.end()
    if not met:
        tell(f"{host}: its host key is trusted already")
    return True
