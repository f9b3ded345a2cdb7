"""Log files on another host, read over SFTP: nothing is run, written or left behind there."""

from __future__ import annotations

import contextlib
import stat
import time
from collections.abc import Iterator

import paramiko

from data.errors import AbsentError, SourceError
from ingest.blocks import BLOCK_BYTES
from ingest.sources.address import SshAddress
from ingest.sources.log_file import HEAD_BYTES, LogFile
from ingest.sources.sftp_reads import Reads
from ingest.sources.ssh import Connection
from ingest.sources.ssh_packed import BACKLOG_BYTES, CHECKED_BYTES, PackedStretch, Refused

# SFTP tells times in whole seconds: for so long after a change there may have been another one.
_SETTLE_S = 2.5


class SshFile(LogFile):
    """An open regular file of another host."""

    def __init__(self, connection: Connection, address: SshAddress) -> None:
        self.name = str(address)
        self._address = address
        self._connection = connection
        self._seen: tuple[int, int] | None = None
        self._seen_at = 0.0
        self._looks = 0
        self._packable = True
        self._stretch: PackedStretch | None = None
        with asking(connection, self.name):
            # Its handles mean nothing, or another file, to the one after a reconnection.
            sftp = self._sftp = connection.sftp()
            if not stat.S_ISREG(sftp.stat(address.path).st_mode or 0):  # a FIFO would never open
                raise SourceError(
                    f"{self.name}: is not a regular file; give a log file or a folder"
                )
            self._handle = sftp.open(address.path, "rb", 0)
            self._request = connection.request_bytes()

    def size(self) -> int:
        """Bytes in the file now."""
        return self._stat()[0]

    def change_mark(self) -> tuple[int, int]:
        """Moves whenever somebody wrote, and for some seconds after: then it may have to."""
        found = self._stat()
        if found != self._seen:
            self._seen, self._seen_at = found, time.monotonic()
        if time.monotonic() - self._seen_at < _SETTLE_S:
            self._looks += 1
        return found[0], found[1] * 1_000_000_000 + self._looks

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on: packed where there is much, else with many
        requests on the way at once."""
        if size >= BLOCK_BYTES and (data := self._packed(offset, size)) is not None:
            return data
        return self._asked(offset, size)

    def _packed(self, offset: int, size: int) -> bytes | None:
        """What a packed stretch gives; None without one. It is read under the file's name, so
        both ends of a block are held against the file that is open."""
        if self._stretch is None and (left := self.size() - offset) >= BACKLOG_BYTES:
            self._stretch = self._begin_stretch(offset, left)
        if self._stretch is None:
            return None
        data = self._stretch.read(offset, size)
        if data and self._agrees(offset, data):
            return data + self._asked(offset + len(data), size - len(data))
        self._packable = not data  # with other bytes in it, the name leads elsewhere by now
        self._stretch.close()
        self._stretch = None
        return None

    def _begin_stretch(self, offset: int, length: int) -> PackedStretch | None:
        if not (self._packable and self._connection.packs):
            return None
        try:
            return PackedStretch(self._connection, self._address.path, offset, length)
        except Refused:
            self._connection.packs = False
            return None

    def _agrees(self, offset: int, data: bytes) -> bool:
        end = max(0, len(data) - CHECKED_BYTES)
        return data.startswith(self._asked(offset, CHECKED_BYTES)) and data[end:] == self._asked(
            offset + end, CHECKED_BYTES
        )

    def _asked(self, offset: int, size: int) -> bytes:
        """Bytes over SFTP."""
        with asking(self._connection, self.name):
            there = size
            if size > self._request:  # of several requests most would find the end behind them
                there = min(size, (self._handle.stat().st_size or 0) - offset)
            reads = Reads(self._sftp, self._handle.handle, self._request)
            return reads.read(offset, there) if there > 0 else b""

    def identity(self) -> tuple[object, ...]:
        """SFTP tells no inode: host and path."""
        return str(self._address.host), self._address.path

    def is_at(self, name: str) -> bool | None:
        """Whether the address still leads to this file.

        Without inodes: sizes that agree in between two looks at the handle, and while the last
        change is fresh the content too.
        """
        path = SshAddress.parse(name).path
        before = self._stat()
        try:
            with asking(self._connection, self.name):
                there = self._connection.sftp().stat(path)
        except AbsentError:
            return None
        length = before[0]
        if not length <= (there.st_size or 0) <= self._stat()[0]:
            return False
        settled = self._seen is not None and time.monotonic() - self._seen_at > _SETTLE_S
        return (settled and before == mark(there)) or self._same_content(path, length)

    def _same_content(self, path: str, length: int) -> bool:
        """Whether another path leads to the same bytes, as far as both had come."""
        other = SshFile(self._connection, SshAddress(self._address.host, path))
        try:
            head = min(length, HEAD_BYTES)
            return self.fingerprint(head) == other.fingerprint(head) and self.tail_hash(
                length
            ) == other.tail_hash(length)
        finally:
            other.close()

    def close(self) -> None:
        """Let the handle go."""
        if self._stretch is not None:
            self._stretch.close()
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            self._handle.close()

    def _stat(self) -> tuple[int, int]:
        with asking(self._connection, self.name):
            return mark(self._handle.stat())


@contextlib.contextmanager
def asking(connection: Connection, name: str) -> Iterator[None]:
    """What the host refuses is about the file; anything else means that the host is gone."""
    with connection.talking():
        try:
            yield
        except FileNotFoundError as error:
            raise AbsentError(name) from error
        except PermissionError as error:
            raise SourceError(
                f"{name}: cannot be read (Permission denied); check its rights on the host"
            ) from error


def mark(found: paramiko.SFTPAttributes) -> tuple[int, int]:
    """Size, and the time of the last change in whole seconds."""
    return found.st_size or 0, found.st_mtime or 0
