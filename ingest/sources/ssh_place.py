"""Log files of another host: which there are, and which to follow."""

from __future__ import annotations

import contextlib
import posixpath
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import paramiko

from data.errors import AbsentError, SourceError
from ingest import zones
from ingest.sources import names
from ingest.sources.address import SshAddress
from ingest.sources.log_file import Entry, LogFile, Place
from ingest.sources.names import LOGS
from ingest.sources.packed import unpacking
from ingest.sources.ssh import Connection
from ingest.sources.ssh_file import SshFile, asking, mark

_MAX_FOLDERS = 1000


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
        except AbsentError:
            return None
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
                size, changed = mark(self._connection.sftp().stat(self._path))
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
        except AbsentError:
            return None

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
        return asking(self._connection, self.source_id)

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
            size, changed = mark(found)
            yield Entry(self._address.at(path), size, changed * 1_000_000_000)
