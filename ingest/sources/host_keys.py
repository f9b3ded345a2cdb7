"""Which host keys are trusted: those in known_hosts, nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry

from data.errors import HostKeyError, SourceError
from ingest.sources.ssh_config import Hop, known_hosts_path

_SYSTEM = Path("/etc/ssh/ssh_known_hosts")


class KnownHosts:
    """The host keys that the user, or who runs this machine, has trusted."""

    def __init__(self) -> None:
        self._hosts = paramiko.HostKeys()
        self._revoked: set[str] = set()
        for path in (known_hosts_path(), _SYSTEM):
            for number, line in enumerate(_lines(path), 1):
                self._take(line, number)

    def _take(self, line: str, number: int) -> None:
        if line.startswith("@"):  # @cert-authority is not understood: its hosts stay unknown
            if line.startswith("@revoked"):
                self._revoked.add(line.split()[-1] if len(line.split()) < 5 else line.split()[3])
            return
        try:
            entry = HostKeyEntry.from_line(line, number)
        except Exception:  # a damaged line trusts nobody
            return
        if entry is not None and entry.key is not None:
            for name in entry.hostnames or ():
                self._hosts.add(name, entry.key.get_name(), entry.key)

    def kinds(self, hop: Hop) -> list[str]:
        """The kinds of keys that are known of a host."""
        known = self._hosts.lookup(hop.known_name)
        return list(known.keys()) if known else []

    def check(self, hop: Hop, key: paramiko.PKey) -> None:
        """HostKeyError unless this key is trusted for this host."""
        known = self._hosts.lookup(hop.known_name)
        shown = fingerprint(key)
        if key.get_base64() in self._revoked:
            raise HostKeyError(
                f"{hop.known_name}: its host key {shown} was revoked in known_hosts; "
                "ask who runs the host",
                changed=True,
            )
        if known is None:
            raise HostKeyError(
                f"{hop.known_name}: its host key {shown} is not known; compare it with the "
                f"host's own, then run: servescope trust {_address(hop)}",
                changed=False,
            )
        trusted = known.get(key.get_name())
        if trusted is None or trusted.asbytes() != key.asbytes():
            raise HostKeyError(
                f"{hop.known_name}: its host key has changed to {shown}: somebody may be in "
                "between, or the host was set up anew; if you know why, run: "
                f"ssh-keygen -R '{hop.known_name}' and servescope trust {_address(hop)}",
                changed=True,
            )


def fingerprint(key: paramiko.PKey) -> str:
    """A key as `ssh-keygen -l` shows it: SHA256:… (ED25519)."""
    kind = key.get_name().removeprefix("ssh-").removeprefix("ecdsa-sha2-").upper()
    return f"{key.fingerprint} ({kind})"


def add(hop: Hop, key: paramiko.PKey) -> Path:
    """Write a key down as trusted; gives the file."""
    path = known_hosts_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b", buffering=0) as file:
            size = os.fstat(fd).st_size
            cut = size and os.pread(fd, 1, size - 1) != b"\n"
            line = f"{hop.known_name} {key.get_name()} {key.get_base64()}\n"
            file.write((b"\n" if cut else b"") + line.encode())
    except OSError as error:
        raise SourceError(f"{path}: cannot be written ({error.strerror})") from error
    return path


def _address(hop: Hop) -> str:
    return hop.name if hop.name != hop.host or hop.port == 22 else f"{hop.name}:{hop.port}"


def _lines(path: Path) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from error
    yield from (line.strip() for line in text.splitlines() if line.strip()[:1] not in ("", "#"))
