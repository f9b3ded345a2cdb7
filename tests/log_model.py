"""A log that a server writes and that is rotated, copied, packed, moved and lost: the files of it,
step by step, and what was written. Who reads them stands elsewhere (tests/tail_model.py)."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

from tests.growing import append, decode, sglang_boot

KEPT_TURNS = 12  # logrotate throws away what is older; here nothing is


@dataclass
class Log:
    """A log and its rotated files.

    Attributes:
        log: the file.
        base: of the numbers in its lines.
        written: lines so far.
    """

    log: Path
    base: int = 0
    written: int = 0
    _half: bytes = b""
    _boots: int = 0
    _turns: int = 0

    def __post_init__(self) -> None:
        self.log.parent.mkdir(parents=True)
        self._write(sglang_boot(model=f"org/{self.log.parent.name}"))

    def _write(self, data: bytes) -> None:
        append(self.log, data)

    def _lines(self, count: int) -> bytes:
        """The next lines; no other log of the store prints the same: what is equal is one."""
        numbers = range(self.written, self.written + count)
        return b"".join(decode(number / 2, self.base + number) for number in numbers)

    def write(self) -> None:
        """Five lines, after the rest of a half one."""
        self._end_line()
        self._write(self._lines(5))
        self.written += 5

    def half(self) -> None:
        """A line whose end comes later."""
        self._end_line()
        line = self._lines(1)
        self._write(line[:70])
        self._half = line[70:]

    def _end_line(self) -> None:
        if self._half:
            self._write(self._half)
            self._half = b""
            self.written += 1

    def boot(self) -> None:
        """The server starts again and goes on in the same file."""
        self._end_line()
        self._boots += 1  # no two starts print the same: what is equal is the same to us
        name = f"org/{self.log.parent.name}-{self._boots}"
        self._write(sglang_boot(self.written / 2, name))

    def _turn(self) -> Path:
        self._end_line()
        self._turns += 1
        for number in range(KEPT_TURNS + 8, 0, -1):
            for end in ("", ".gz"):
                old = self.log.with_name(f"server.log.{number}{end}")
                if old.exists():
                    old.rename(self.log.with_name(f"server.log.{number + 1}{end}"))
        return self.log.with_name("server.log.1")

    def rename(self) -> None:
        """logrotate with `create`."""
        self.log.rename(self._turn())
        self.log.touch()

    def copytruncate(self) -> None:
        """logrotate with `copytruncate`."""
        copy = self._turn()
        copy.write_bytes(self.log.read_bytes())
        os.truncate(self.log, 0)

    def pack(self) -> None:
        """logrotate with `delaycompress`: all but the last turn."""
        for old in self.log.parent.glob("server.log.*[0-9]"):
            if old.name != "server.log.1":
                old.with_name(old.name + ".gz").write_bytes(gzip.compress(old.read_bytes()))
                old.unlink()

    def relink(self) -> None:
        """The same content in another file: an editor, or a restored copy."""
        self._end_line()
        fresh = self.log.with_name("fresh")
        fresh.write_bytes(self.log.read_bytes())
        fresh.rename(self.log)
