"""A log file on this machine: read by bytes, known by its content."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

from data.errors import SourceError

HEAD_BYTES = 1024
TAIL_BYTES = 256
_ROTATION = re.compile(r"(?<=.)(\.\d{1,3}|[-.]\d{8}(-?\d{2,6})?)$")  # server.log.1, -20261129
_TEXT_CONTROLS = frozenset(b"\t\n\r\x1b\b\f\0")


class LocalFile:
    """An open regular file. The handle keeps the content readable after a rename or removal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Without O_NONBLOCK the opening of a FIFO would wait for a writer.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise SourceError(f"{path}: no such file; check the path") from error
        except OSError as error:
            raise _unreadable(path, error) from error
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            os.close(self._fd)
            raise SourceError(f"{path}: is not a regular file; give a log file or a folder")

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._fd).st_size

    def change_mark(self) -> tuple[int, int]:
        """Moves whenever somebody wrote: size and time of the last change."""
        now = os.fstat(self._fd)
        return now.st_size, now.st_mtime_ns

    def changed_at(self) -> datetime:
        """When somebody last wrote, UTC: what places stamps that print no year."""
        changed = datetime.fromtimestamp(os.fstat(self._fd).st_mtime, UTC)
        return changed.replace(tzinfo=None)

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
        return data

    def fingerprint(self, length: int) -> str:
        """SHA-256 of the first `length` bytes."""
        return hashlib.sha256(self.read(0, length)).hexdigest()

    def tail_hash(self, offset: int) -> str:
        """SHA-256 of the last bytes before `offset`."""
        start = max(0, offset - TAIL_BYTES)
        return hashlib.sha256(self.read(start, offset - start)).hexdigest()

    def identity(self) -> tuple[int, int]:
        """Device and inode: the same for every name of this file while it is open."""
        here = os.fstat(self._fd)
        return here.st_dev, here.st_ino

    def is_at(self, path: Path) -> bool | None:
        """Whether the path still leads to this file; None when it leads nowhere."""
        try:
            there = path.stat()
        except OSError:
            return None
        return (there.st_dev, there.st_ino) == self.identity()

    def refuse_binary(self) -> None:
        """SourceError if the head of the file is no text. NULs alone are holes or UTF-16."""
        head = self.read(0, 8 * HEAD_BYTES)
        controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in head)
        if controls > len(head.replace(b"\0", b"")) / 20:
            packed = " (compressed: unpack it first)" if head[:2] in (b"\x1f\x8b", b"PK") else ""
            raise SourceError(f"{self.path}: is a binary file, not a log{packed}")

    def close(self) -> None:
        """Let the handle go."""
        os.close(self._fd)


LOGS = ("", ".log", ".txt", ".out", ".err")


def expand(text: str, suffixes: tuple[str, ...] = LOGS) -> list[Path]:
    """The files that a path, a folder with all below it, or a glob names, oldest first.

    Of a folder those with one of the suffixes, that of a log unless told otherwise.

    SourceError if there is no such place or it may not be read.
    """
    path = place(text)
    try:
        if path.is_dir():
            os.scandir(path).close()  # what may not be read would look empty
            found = [e for e in path.rglob("*") if _is_log(e, path, suffixes=suffixes)]
        elif _is_glob(path):
            found = [entry for entry in _glob(path) if entry.is_file()]
        elif path.exists():
            return [path]
        else:
            raise SourceError(f"{path}: no such file; check the path")
        return sorted(found, key=lambda entry: (entry.stat().st_mtime_ns, entry.name))
    except OSError as error:
        raise _unreadable(path, error) from error


def newest(text: str) -> Path | None:
    """The one file to follow of a path, a folder or a glob; None while there is none."""
    path = place(text)
    try:
        if path.is_dir():
            found = [entry for entry in path.iterdir() if _is_log(entry, path, rotated=False)]
        elif _is_glob(path):
            found = [entry for entry in _glob(path) if entry.is_file()]
        else:
            return path
        return max(found, key=lambda entry: (entry.stat().st_mtime_ns, entry.name), default=None)
    except FileNotFoundError:  # one vanished meanwhile
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


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
    return any(mark in str(path) for mark in "*?[") and not path.exists()


def _glob(path: Path) -> list[Path]:
    root = folder_of(str(path))
    if root.is_dir():
        os.scandir(root).close()  # what may not be read would look empty
    return list(root.glob(str(path.relative_to(root))))


def _is_log(
    entry: Path, folder: Path, *, rotated: bool = True, suffixes: tuple[str, ...] = LOGS
) -> bool:
    name = _ROTATION.sub("", entry.name) if rotated else entry.name
    return (
        not any(part.startswith(".") for part in entry.relative_to(folder).parts)
        and Path(name).suffix in suffixes
        and entry.is_file()
    )
