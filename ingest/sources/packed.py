"""Logs packed by gzip or zstd, read like plain ones: offsets are those of the text inside."""

from __future__ import annotations

import zlib
from typing import Protocol

from data.errors import SourceError
from ingest.blocks import BLOCK_BYTES
from ingest.sources.log_file import HEAD_BYTES, LogFile

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PACKED_READ = 1 << 20
_PIECE = 16 << 10  # unpacked at once: what is small when packed may be very large
# Readers look back at most this far: blocks read ahead, and the hash of the bytes before.
_KEPT = 5 * BLOCK_BYTES


def unpacking(file: LogFile) -> LogFile:
    """The file, or what is packed in it. By its content: a name may say anything."""
    magic = file.read(0, 4)
    return Unpacked(file, magic) if magic.startswith((_GZIP, _ZSTD)) else file


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes) -> bytes: ...


class Unpacked(LogFile):
    """The text inside a packed file, unpacked as it is read; only a window of it is held, and its
    head, which is looked at with every block.

    Attributes:
        cut_off: the packed file ended, or was damaged, in the middle of its text.
    """

    complete = True  # nobody appends to a packed log

    def __init__(self, file: LogFile, magic: bytes) -> None:
        self.name = file.name
        self.cut_off = False
        self._file = file
        self._zstd = magic == _ZSTD
        self._damaged: type[Exception] = zlib.error
        self._head = b""
        self._start()

    def _start(self) -> None:
        self._decoder = self._new_decoder()
        self._window = bytearray()
        self._window_at = 0  # offset of the window's first byte
        self._packed = memoryview(b"")  # read and not unpacked yet
        self._packed_at = 0
        self._ended = False

    def _new_decoder(self) -> _Decoder:
        if self._zstd:
            import zstandard  # few logs are packed so

            self._damaged = zstandard.ZstdError
            return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
        return zlib.decompressobj(wbits=31)

    def size(self) -> int:
        """Bytes unpacked so far; all of them once the end was reached."""
        return self._window_at + len(self._window)

    def reaches(self, offset: int) -> bool:
        """Whether there are that many bytes; unpacks as far."""
        while self.size() < offset and not self._ended:
            self._more()
        return self.size() >= offset

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer only at the end."""
        if offset + size <= len(self._head):
            return self._head[offset : offset + size]
        if offset < self._window_at:
            self._start()
        while self.size() < offset + size and not self._ended:
            self._more()
            spare = min(len(self._window) - _KEPT, offset - self._window_at)
            if spare > BLOCK_BYTES:
                self._head = self._head or bytes(self._window[:HEAD_BYTES])
                del self._window[:spare]
                self._window_at += spare
        start = offset - self._window_at
        return bytes(self._window[max(0, start) : start + size]) if start >= 0 else b""

    def _more(self) -> None:
        """Unpack a little more into the window."""
        if not self._packed:
            self._packed = memoryview(self._file.read(self._packed_at, _PACKED_READ))
            self._packed_at += len(self._packed)
            if not self._packed:
                self._ended, self.cut_off = True, not self._decoder.eof
                return
        piece, self._packed = bytes(self._packed[:_PIECE]), self._packed[_PIECE:]
        try:
            while piece:
                if self._decoder.eof:  # logs are packed piece by piece: one stream after another
                    if not piece.strip(b"\0"):  # padding up to a whole block
                        return
                    self._decoder = self._new_decoder()
                self._window += self._decoder.decompress(piece)
                piece = self._decoder.unused_data if self._decoder.eof else b""
        except self._damaged:
            self._ended = self.cut_off = True

    def progress(self, offset: int) -> tuple[int, int]:
        """How far it was unpacked, in packed bytes."""
        return self._packed_at - len(self._packed), self._file.size()

    def change_mark(self) -> tuple[int, int]:
        """That of the packed file."""
        return self._file.change_mark()

    def identity(self) -> tuple[object, ...]:
        """That of the packed file."""
        return self._file.identity()

    def is_at(self, name: str) -> bool | None:
        """Whether the name still leads to the packed file."""
        return self._file.is_at(name)

    def refuse_binary(self) -> None:
        """SourceError if what is inside is no text, or nothing can be unpacked."""
        super().refuse_binary()
        if self.cut_off and not self.size():
            raise SourceError(f"{self.name}: is damaged, nothing in it can be unpacked")

    def close(self) -> None:
        """Let the packed file go."""
        self._file.close()
