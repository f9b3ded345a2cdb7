"""Log files on this machine: read by bytes, known by their content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from data.errors import AbsentError, SourceError
from ingest.sources import host, names
from ingest.sources.log_file import Entry, LogFile, Place
from ingest.sources.names import LOGS
from ingest.sources.packed import unpacking


class LocalFile(LogFile):
    """An open regular file of this machine."""

    shared = True
    watch: Callable[[int, bytes], object] | None = None  # sees what is read, and where

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = host.named(names.shown(str(path)))
        try:
            # Without O_NONBLOCK the opening of a FIFO would wait for a writer.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise AbsentError(path) from error
        except OSError as error:
            raise _unreadable(path, error) from error
        mode = os.fstat(self._fd).st_mode
        if not stat.S_ISREG(mode):
            os.close(self._fd)
            is_folder = stat.S_ISDIR(mode)
            what = "a folder; name a file in it" if is_folder else "not a regular file; name a log"
            raise SourceError(f"{path}: is {what}")

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._fd).st_size

    def change_mark(self) -> tuple[int, int]:
        """Moves whenever somebody wrote: size and time of the last change."""
        now = os.fstat(self._fd)
        return now.st_size, now.st_mtime_ns

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer only at the end of the file."""
        try:
            data = os.pread(self._fd, size, offset)
            while data and len(data) < size:
                more = os.pread(self._fd, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise _unreadable(self.path, error) from error
        if self.watch is not None:
            self.watch(offset, data)
        return data

    def identity(self) -> tuple[int, int]:
        """Device and inode: the same for every name of this file while it is open."""
        here = os.fstat(self._fd)
        return here.st_dev, here.st_ino

    def is_at(self, name: str) -> bool | None:
        """Whether the path still leads to this file; None when it leads nowhere."""
        try:
            there = os.stat(host.path_of(name))
        except OSError:
            return None
        return (there.st_dev, there.st_ino) == self.identity()

    def close(self) -> None:
        """Let the handle go."""
        os.close(self._fd)


class LocalPlace(Place):
    """A path, a folder or a glob on this machine."""

    kind = "file"

    def __init__(self, location: str) -> None:
        self._path = str(place(location))
        self.source_id = host.named(names.shown(self._path))
        self.folder = folder_of(location)
        path = Path(self._path)
        self.watched = None if path.is_dir() or _is_glob(path) else path.name

    def newest(self) -> str | None:
        """The one file to follow; None while there is none."""
        found = newest(self._path)
        return host.named(str(found)) if found is not None else None

    def all(self, suffixes: tuple[str, ...] = LOGS) -> list[str]:
        """All files of the place, oldest first."""
        return [host.named(str(path)) for path in expand(self._path, suffixes)]

    def before(self, name: str) -> Sequence[Entry]:
        """The files before this one, the latest first."""
        path, current = Path(self._path), Path(host.path_of(name))
        try:
            if path.is_dir() or _is_glob(path):
                found = path.iterdir() if path.is_dir() else iter(_glob(path))
                others = [e for e in found if e != current and names.is_log(e.name) and e.is_file()]
                return _named(names.in_order(map(_entry, others))[::-1])
            rotated = [
                entry
                for entry in path.parent.iterdir()
                if names.rotated_from(entry.name, path.name) and entry.is_file()
            ]
            return _named(names.latest_first(map(_entry, rotated)))
        except FileNotFoundError:  # one vanished meanwhile: looked at again soon
            return []
        except OSError as error:
            raise _unreadable(path, error) from error

    def open(self, name: str) -> LogFile:
        """Open one file, unpacked if it is packed."""
        return unpacking(LocalFile(Path(host.path_of(name))))

    def reaches_name(self, name: str) -> bool:
        """Whether it is a path of this machine."""
        return host.is_here(name)

    def size_of(self, name: str) -> int | None:
        """Bytes under this path; None if there is nothing."""
        try:
            return os.stat(host.path_of(name)).st_size
        except OSError:
            return None


def expand(text: str, suffixes: tuple[str, ...] = LOGS) -> list[Path]:
    """The files that a path, a folder with all below it, or a glob names, oldest first.

    Of a folder those with one of the suffixes, that of a log unless told otherwise.

    SourceError if there is no such place or it may not be read.
    """
    path = place(text)
    try:
        if path.is_dir():
            os.scandir(path).close()  # what may not be read would look empty
            found = [
                entry
                for entry in path.rglob("*")
                if names.is_log(str(entry.relative_to(path)), suffixes) and entry.is_file()
            ]
        elif _is_glob(path):
            found = [entry for entry in _glob(path) if entry.is_file()]
        elif path.exists():
            return [path]
        else:
            raise AbsentError(path)
        return [Path(entry.name) for entry in names.in_order(map(_entry, found))]
    except OSError as error:
        raise _unreadable(path, error) from error


def newest(text: str) -> Path | None:
    """The one file to follow of a path, a folder or a glob; None while there is none."""
    path = place(text)
    try:
        if path.is_dir():
            found = [e for e in path.iterdir() if names.is_log(e.name, rotated=False)]
        elif _is_glob(path):
            found = _glob(path)
        else:
            return path
        entries = [_entry(entry) for entry in found if entry.is_file()]
    except FileNotFoundError:  # one vanished meanwhile
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    latest = names.newest(entries)
    return Path(latest.name) if latest else None


def place(text: str) -> Path:
    """The absolute path that a user's text means."""
    if not text:
        raise SourceError("'' is no path; give a log file, a folder or a glob")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise SourceError(f"{text}: no such user; check the path") from error


def folder_of(text: str) -> Path:
    """The folder in which changes of a source show."""
    path = place(text)
    try:
        if path.is_dir():
            return path
        while _is_glob(path.parent):
            path = path.parent
    except OSError as error:
        raise _unreadable(path, error) from error
    return path.parent


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(f"{path}: cannot be read ({error.strerror}); check the path and its rights")


def _is_glob(path: Path) -> bool:
    return names.is_glob(str(path)) and not path.exists()


def _glob(path: Path) -> list[Path]:
    root = folder_of(str(path))
    if root.is_dir():
        os.scandir(root).close()  # what may not be read would look empty
    return list(root.glob(str(path.relative_to(root))))


def _named(entries: Sequence[Entry]) -> list[Entry]:
    return [replace(entry, name=host.named(entry.name)) for entry in entries]


def _entry(path: Path) -> Entry:
    found = path.stat()
    return Entry(str(path), found.st_size, found.st_mtime_ns)
