"""Addresses of sources on other hosts: `ssh://[user@]host[:port]/path`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from data.errors import SourceError

SSH = "ssh://"
# No leading dash and no shell's signs: host and user also end up in a ProxyCommand.
_HOST = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.@\\-]*)@)?"
    r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True, slots=True)
class HostAddress:
    """A host as the user names it: often an alias of `~/.ssh/config`."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{user}{host}{port}"

    @classmethod
    def parse(cls, text: str) -> HostAddress:
        """From `[user@]host[:port]`; SourceError if it is none."""
        match = _HOST.fullmatch(text)
        if match is None or not 0 < int(match["port"] or 22) < 65536:
            hint = "; no password may stand in an address" if ":" in text.split("@")[0] else ""
            raise SourceError(f"{text!r} is no host; give [user@]host[:port]{hint}")
        port = int(match["port"]) if match["port"] else None
        return cls(match["host"].strip("[]"), match["user"], port)


@dataclass(frozen=True, slots=True)
class SshAddress:
    """A path, a folder or a glob on another host. Relative to the home folder after `/~/`."""

    host: HostAddress
    path: str

    def __str__(self) -> str:
        return self.at(self.path)

    def at(self, path: str) -> str:
        """The address of another path on this host."""
        return f"{SSH}{self.host}{path if path.startswith('/') else f'/~/{path}'}"

    @classmethod
    def parse(cls, text: str) -> SshAddress:
        """From `ssh://[user@]host[:port]/path`; SourceError if it is none."""
        host, slash, path = text.removeprefix(SSH).partition("/")
        if not slash or not path:
            raise SourceError(f"{text}: names no file; give ssh://[user@]host[:port]/path")
        path = path.removeprefix("~/") if path.startswith("~/") else f"/{path}"
        return cls(HostAddress.parse(host), path or ".")
