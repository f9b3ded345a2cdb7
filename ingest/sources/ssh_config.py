"""What `~/.ssh/config` says of a host, and the hosts on the way to it.

Only the user's own file is read, since it may name a command to run (ProxyCommand). Like ssh
itself we refuse one that somebody else could have written.
"""

from __future__ import annotations

import getpass
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import paramiko

from data.errors import SourceError
from ingest.sources.address import HostAddress

_DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
_MAX_HOPS = 8
_MAX_INCLUDES = 16


@dataclass(frozen=True, slots=True)
class Hop:
    """One host to log in to, with all that is needed for it."""

    name: str  # as the user names it
    host: str
    port: int
    user: str
    known_as: str  # in known_hosts
    keys: tuple[str, ...]  # private key files
    keys_only: bool  # of the agent's keys only those that these files name
    agent: bool
    proxy_command: str | None

    @property
    def known_name(self) -> str:
        """The name under which known_hosts has the host."""
        return self.known_as if self.port == 22 else f"[{self.known_as}]:{self.port}"


def route(address: HostAddress) -> list[Hop]:
    """The hosts to log in to one through the other, the last one being the address itself."""
    return _route(address, _load(_config_path()), 0)


def known_hosts_path() -> Path:
    """The user's own list of host keys."""
    return Path("~/.ssh/known_hosts").expanduser()


def _route(address: HostAddress, config: paramiko.SSHConfig, depth: int) -> list[Hop]:
    if depth > _MAX_HOPS:
        raise SourceError(f"{_config_path()}: ProxyJump of {address.host} leads in a circle")
    try:
        found = config.lookup(address.host)
    except ImportError as error:  # paramiko would need another package to run the command
        raise SourceError(
            f"{_config_path()}: 'Match exec' is not understood; name {address.host} in a Host block"
        ) from error
    except paramiko.SSHException as error:
        raise SourceError(f"{_config_path()}: {error}") from error
    jumps = found.get("proxyjump", "none")
    if jumps.lower() == "none":
        return [_hop(address, found)]
    first, *others = [HostAddress.parse(jump.strip()) for jump in jumps.split(",")]
    hops = _route(first, config, depth + 1)
    hops += [_route(jump, config, depth + 1)[-1] for jump in others]
    return [*hops, _hop(address, {**found, "proxycommand": None})]


def _hop(address: HostAddress, found: Mapping[str, object]) -> Hop:
    def text(name: str, default: str) -> str:
        value = found.get(name)
        return str(value) if value else default

    named = found.get("identityfile")
    host = text("hostname", address.host)
    return Hop(
        name=address.host,
        host=host,
        port=address.port or int(text("port", "22")),
        user=address.user or text("user", getpass.getuser()),
        known_as=text("hostkeyalias", host),
        keys=tuple(map(os.path.expanduser, named if isinstance(named, list) else _DEFAULT_KEYS)),
        keys_only=text("identitiesonly", "no").lower() == "yes",
        agent=text("identityagent", "").lower() != "none",
        proxy_command=text("proxycommand", "") or None,
    )


def _config_path() -> Path:
    return Path("~/.ssh/config").expanduser()


def _load(path: Path) -> paramiko.SSHConfig:
    try:
        return paramiko.SSHConfig.from_text("\n".join(_lines(path, 0)))
    except (paramiko.SSHException, ValueError) as error:
        raise SourceError(f"{path}: {error}; mend it") from error


def _lines(path: Path, depth: int) -> Iterator[str]:
    """The lines of a configuration and of those it includes, which paramiko would pass over."""
    block = "Host *"
    for line in _text(path).splitlines():
        word, _, rest = line.strip().replace("=", " ", 1).partition(" ")
        if word.lower() == "include" and depth < _MAX_INCLUDES:
            for pattern in rest.split():
                base = Path(os.path.expanduser(pattern.strip('"')))
                base = base if base.is_absolute() else _config_path().parent / base
                for included in sorted(Path(base.anchor).glob(str(base.relative_to(base.anchor)))):
                    yield from _lines(included, depth + 1)
            yield block  # what follows belongs to the block that the include stands in
            continue
        if word.lower() in ("host", "match"):
            block = line
        yield line


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            found = os.fstat(file.fileno())
            if found.st_uid not in (0, os.getuid()) or found.st_mode & (
                stat.S_IWGRP | stat.S_IWOTH
            ):
                raise SourceError(f"{path}: others may write to it; chmod 600 it")
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from error
