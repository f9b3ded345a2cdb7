"""Log files on another host, read over SFTP: nothing is run, written or left behind there."""

from __future__ import annotations

import contextlib
import posixpath
import stat
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import paramiko

from data.errors import SourceError
from ingest import zones
from ingest.blocks import BLOCK_BYTES
from ingest.sources import names
from ingest.sources.address import SshAddress
from ingest.sources.log_file import HEAD_BYTES, Entry, LogFile, Place
from ingest.sources.names import LOGS
from ingest.sources.packed import unpacking
from ingest.sources.sftp_reads import Reads
from ingest.sources.ssh import Connection
from ingest.sources.ssh_packed import BACKLOG_BYTES, CHECKED_BYTES, PackedStretch, Refused

# SFTP tells times in whole seconds: for so long after a change there may have been another one.
_SETTLE_S = 2.5
_MAX_FOLDERS = 1000


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
        with _asking(connection, self.name):
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
        with _asking(self._connection, self.name):
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
            with _asking(self._connection, self.name):
                there = self._connection.sftp().stat(path)
        except SourceError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        length = before[0]
        if not length <= (there.st_size or 0) <= self._stat()[0]:
            return False
        settled = self._seen is not None and time.monotonic() - self._seen_at > _SETTLE_S
        return (settled and before == _mark(there)) or self._same_content(path, length)

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
        with _asking(self._connection, self.name):
            return _mark(self._handle.stat())


class SshPlace(Place):
    """A path, a folder or a glob on another host."""

    kind = "ssh"
    remote = True

    def __init__(self, location: str) -> None:
        self._address = SshAddress.parse(location)
        self._path = posixpath.normpath(self._address.path)
        self.source_id = self._address.at(self._path)
        self._connection = Connection(self._address.host)
        self._folder: bool | None = None

    def newest(self) -> str | None:
        """The one file to follow; None while there is none."""
        if not self._is_many():
            return self.source_id
        try:
            with self._asking():
                found = self._listed()
        except SourceError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        if self._folder:
            base = posixpath.basename
            found = [e for e in found if names.is_log(base(e.name), rotated=False)]
        latest = names.newest(found)
        return latest.name if latest else None

    def all(self, suffixes: tuple[str, ...] = LOGS) -> list[str]:
        """All files of the place, oldest first."""
        return [entry.name for entry in names.in_order(self.entries(suffixes))]

    def entries(self, suffixes: tuple[str, ...] = LOGS) -> list[Entry]:
        """The same in no order, with their sizes and times."""
        with self._asking():
            if not self._is_many():
                size, changed = _mark(self._connection.sftp().stat(self._path))
                return [Entry(self.source_id, size, changed * 1_000_000_000)]
            return list(self._walk(self._path, suffixes)) if self._folder else self._listed()

    def before(self, name: str) -> Sequence[Entry]:
        """The files before this one, the latest first."""
        with self._asking():
            if self._is_many():
                others = [
                    entry
                    for entry in self._listed()
                    if entry.name != name and names.is_log(posixpath.basename(entry.name))
                ]
                return names.in_order(others)[::-1]
            folder, current = posixpath.split(self._path)
            rotated = [
                entry
                for entry in self._files(folder or ".")
                if names.rotated_from(posixpath.basename(entry.name), current)
            ]
        return names.latest_first(rotated)

    def open(self, name: str) -> LogFile:
        """Open one file, unpacked if it is packed."""
        return unpacking(SshFile(self._connection, SshAddress.parse(name)))

    def reaches_name(self, name: str) -> bool:
        """Whether it is an address on this host."""
        return name.startswith(self._address.at("/"))

    def size_of(self, name: str) -> int | None:
        """Bytes under this address; None if there is nothing."""
        try:
            with self._asking():
                return self._connection.sftp().stat(SshAddress.parse(name).path).st_size
        except SourceError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def greeting(self) -> str | None:
        """Whom the host let in, and the key it showed."""
        return self._connection.greeting()

    def zone(self) -> str | None:
        """The zone of the host's clock: where its /etc/localtime leads, or what it says."""
        with self._connection.talking():
            sftp = self._connection.sftp()
            with contextlib.suppress(OSError):
                target = sftp.readlink("/etc/localtime") or ""
                if (name := zones.known(target.rpartition("zoneinfo/")[2])) is not None:
                    return name
            with contextlib.suppress(OSError), sftp.open("/etc/timezone") as file:
                if name := zones.known(file.read(200).decode(errors="replace").strip()):
                    return name
        return None

    def close(self) -> None:
        """Hang up."""
        self._connection.end()

    def _asking(self) -> contextlib.AbstractContextManager[None]:
        return _asking(self._connection, self.source_id)

    def _is_many(self) -> bool:
        """Whether it is a folder or a glob; asked again while there is nothing."""
        if self._folder is None:
            with self._asking():
                try:
                    mode = self._connection.sftp().stat(self._path).st_mode or 0
                except FileNotFoundError:
                    return names.is_glob(self._path)
            self._folder = stat.S_ISDIR(mode)
        return self._folder

    def _listed(self) -> list[Entry]:
        """The files in the folder, or that the glob means."""
        if self._folder:
            return list(self._files(self._path))
        parts: list[str] = []
        root = self._path
        while names.is_glob(root):
            root, part = posixpath.split(root)
            parts.insert(0, part)
        return list(self._matching(root or ".", parts))

    def _matching(self, folder: str, parts: Sequence[str]) -> Iterator[Entry]:
        first, *rest = parts
        for entry in self._connection.sftp().listdir_attr(folder):
            hidden = entry.filename.startswith(".") and not first.startswith(".")
            if hidden or not fnmatchcase(entry.filename, first):
                continue
            path = posixpath.join(folder, entry.filename)
            if rest and stat.S_ISDIR(entry.st_mode or 0):
                yield from self._matching(path, rest)
            elif not rest:
                yield from self._regular(path, entry)

    def _files(self, folder: str) -> Iterator[Entry]:
        for entry in self._connection.sftp().listdir_attr(folder):
            yield from self._regular(posixpath.join(folder, entry.filename), entry)

    def _walk(self, folder: str, suffixes: tuple[str, ...]) -> Iterator[Entry]:
        """Every log below a folder; symbolic links to folders are not followed."""
        waiting, seen = [folder], 0
        while waiting:
            here = waiting.pop()
            seen += 1
            if seen > _MAX_FOLDERS:
                raise SourceError(f"{self.source_id}: holds over {_MAX_FOLDERS} folders; name one")
            for entry in self._connection.sftp().listdir_attr(here):
                path = posixpath.join(here, entry.filename)
                if stat.S_ISDIR(entry.st_mode or 0) and not entry.filename.startswith("."):
                    waiting.append(path)
                elif names.is_log(posixpath.relpath(path, folder), suffixes):
                    yield from self._regular(path, entry)

    def _regular(self, path: str, found: paramiko.SFTPAttributes) -> Iterator[Entry]:
        if stat.S_ISLNK(found.st_mode or 0):
            try:
                found = self._connection.sftp().stat(path)
            except FileNotFoundError:
                return
        if stat.S_ISREG(found.st_mode or 0):
            size, changed = _mark(found)
            yield Entry(self._address.at(path), size, changed * 1_000_000_000)


@contextlib.contextmanager
def _asking(connection: Connection, name: str) -> Iterator[None]:
    """What the host refuses is about the file; anything else means that the host is gone."""
    with connection.talking():
        try:
            yield
        except FileNotFoundError as error:
            raise _Refused(f"{name}: no such file; check the path") from error
        except PermissionError as error:
            raise _Refused(
                f"{name}: cannot be read (Permission denied); check its rights on the host"
            ) from error


class _Refused(SourceError):
    """The host answered, and said no."""


def _mark(found: paramiko.SFTPAttributes) -> tuple[int, int]:
    return found.st_size or 0, found.st_mtime or 0
