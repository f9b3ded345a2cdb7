"""A long stretch of a remote file, packed on its way: what is far behind arrives sooner.

Where the host runs commands for us, `tail`, `head` and zstd or gzip are run there; nothing is
written. The path reaches them as an argument of a fixed script, whatever is in it. Where no
command is run (`ForceCommand internal-sftp`, no shell) or none of the tools is there, nothing
comes of it and the file is read over SFTP.
"""

from __future__ import annotations

import contextlib
import zlib
from typing import Protocol

import paramiko
import zstandard

from ingest.sources.ssh import Connection

BACKLOG_BYTES = 32 << 20  # so much is worth starting a command for
KEPT_BYTES = 2 << 20  # a block begins at most a line before the end of the one before
CHECKED_BYTES = 256
_RECEIVED = 1 << 18
# $1: first byte, from 1; $2: how many; $3: path. Says what it packs with, then the packed bytes.
_SCRIPT = """
if command -v zstd >/dev/null 2>&1; then echo zstd; set -- "$@" zstd -q -c -1
elif command -v gzip >/dev/null 2>&1; then echo gzip; set -- "$@" gzip -c -1
else exit 1; fi
from=$1 many=$2 path=$3; shift 3
tail -c "+$from" -- "$path" 2>/dev/null | head -c "$many" | "$@"
"""
_NAMES = (b"zstd\n", b"gzip\n")


class Refused(Exception):
    """The host runs no commands, or has no tool to pack with."""


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes) -> bytes: ...


class PackedStretch:
    """The bytes of a remote file from an offset on, up to a length, in order."""

    def __init__(self, connection: Connection, path: str, offset: int, length: int) -> None:
        """Refused where the host does not do it."""
        self._connection = connection
        self._data = bytearray()
        self._at = offset  # of the first byte held
        script = ["sh", "-c", _SCRIPT, "sh", str(offset + 1), str(length), path]
        self._channel = connection.command(script, merge_errors=False)
        try:
            self._unpacker = self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> _Unpacker:
        name = b""
        with self._connection.talking():
            self._channel.shutdown_write()  # internal-sftp would wait for questions
            while len(name) < len(_NAMES[0]) and (more := self._channel.recv(5 - len(name))):
                name += more
        if name not in _NAMES:
            raise Refused
        if name == _NAMES[0]:
            return zstandard.ZstdDecompressor().decompressobj()
        return zlib.decompressobj(wbits=31)

    def read(self, offset: int, size: int) -> bytes | None:
        """Up to `size` bytes from `offset` on, fewer at the end; None if they have passed by."""
        if not self._at <= offset <= self._at + len(self._data):
            return None
        while len(self._data) < offset - self._at + size and self._more():
            pass
        start = offset - self._at
        found = bytes(self._data[start : start + size])
        passed = max(0, start + len(found) - KEPT_BYTES)
        del self._data[:passed]
        self._at += passed
        return found

    def _more(self) -> bool:
        if self._unpacker.eof:
            return False
        with self._connection.talking():
            packed = self._channel.recv(_RECEIVED)
        try:
            self._data += self._unpacker.decompress(packed)
        except (zlib.error, zstandard.ZstdError):
            return False
        return bool(packed)

    def close(self) -> None:
        """End it; the command there ends with its output."""
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            self._channel.close()
