"""Many reads of one remote file on the way at once.

paramiko's own prefetch sends from a second thread and spins until both agree, which costs more
than the reading itself on a busy machine. Here one thread sends all requests of a block, then
takes the answers, in whatever order they come.
"""

from __future__ import annotations

import paramiko
from paramiko import SFTPHandle
from paramiko.sftp import CMD_DATA, CMD_READ, CMD_STATUS, SFTP_EOF, SFTPError, int64


class Reads:
    """The answers to the reads of one block."""

    def __init__(self, sftp: paramiko.SFTPClient, handle: SFTPHandle, request_bytes: int) -> None:
        self._sftp = sftp
        self._handle = handle
        self._request_bytes = request_bytes
        self._waiting: dict[int, tuple[int, int]] = {}  # number of a request: offset, length
        self._data: dict[int, bytes] = {}
        self._end: int | None = None  # the file is known to end here or before
        self._error: OSError | None = None

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer only at the end of the file."""
        for start in range(offset, offset + size, self._request_bytes):
            self._ask(start, min(self._request_bytes, offset + size - start))
        while self._waiting:
            self._sftp._read_response()  # type: ignore[attr-defined]
        if self._error is not None:
            raise self._error
        parts, at = [], offset
        while (data := self._data.get(at)) is not None and (self._end is None or at < self._end):
            parts.append(data)
            at += len(data)
        return b"".join(parts)

    def _ask(self, offset: int, length: int) -> None:
        number = self._sftp._async_request(  # type: ignore[attr-defined]
            self, CMD_READ, self._handle, int64(offset), length
        )
        self._waiting[number] = (offset, length)

    def _async_response(self, kind: int, message: paramiko.Message, number: int) -> None:
        """Called by paramiko with each answer."""
        offset, length = self._waiting.pop(number)
        if kind == CMD_DATA:
            data = message.get_string()
            self._data[offset] = data
            if 0 < len(data) < length:  # what is missing may lie behind, or there is no more
                self._ask(offset + len(data), length - len(data))
        elif kind == CMD_STATUS:
            code, text = message.get_int(), message.get_text()
            if code == SFTP_EOF:
                self._end = offset if self._end is None else min(self._end, offset)
            else:
                self._error = OSError(text)
        else:
            raise SFTPError("no answer to a read")
