"""Reads a file for benchmark results: whole where it is one, around its tables in a log."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from data.errors import SourceError
from ingest.sources.file import LocalFile
from ingest.sources.log_file import LogFile
from ingest.sources.packed import unpacking
from parsers.bench.sniff import TITLE, is_server_log, is_transcript
from parsers.kernels import holds

if TYPE_CHECKING:
    from parsers.bench.columns import Maps
    from parsers.bench.points import Found

HEAD_BYTES = 1 << 18
WHOLE_BYTES = 1 << 30  # a detailed result with every request of a long run
TEXT_BYTES = 16 << 20  # beyond this a text is a log
LOG_BYTES = 4 << 30  # of a log that is searched for tables
_TITLE = TITLE.encode()
_JSON_LINE = re.compile(
    rb'"message".*"level|"level.*"message"|"log":.*"stream":|"__CURSOR"|"MESSAGE":|"textPayload"'
)
_PIECE_BYTES = 4 << 20
_RULE = _TITLE[-1]
_BEFORE, _AFTER = 64 << 10, 16 << 10  # bytes around a table: its command, its rows


@dataclass(frozen=True, slots=True)
class BenchFile:
    """A file that was looked into, and what it holds."""

    name: str  # its path or address
    content: str  # SHA-256 of what was read
    size: int  # bytes
    found: Found | None  # None: no benchmark result
    is_log: bool  # it holds lines of a server as well
    is_transcript: bool = False  # a client's output, its result or its failure

    @property
    def suffix(self) -> str:
        """What its name ends with: `.json`."""
        return PurePosixPath(self.name).suffix


class Titles:
    """Where tables begin in a file, found in its bytes as somebody reads them."""

    def __init__(self) -> None:
        self._at: set[int] = set()
        self._end = 0  # of what was seen from the first byte on
        self._last = b""  # of it, as much as may be a title's beginning

    def seen(self, offset: int, data: bytes) -> None:
        """So much was read there."""
        end = offset + len(data)
        if offset > self._end or end <= self._end:
            return
        # Between two pieces, then in the piece itself.
        cut = self._last if offset == self._end else b""
        for text, start in ((cut + data[: len(_TITLE) - 1], offset - len(cut)), (data, offset)):
            # One byte is looked for many times faster than a text, and few pieces hold it.
            at = text.find(_TITLE) if holds(text, _RULE) else -1
            while at >= 0:
                self._at.add(start + at)
                at = text.find(_TITLE, at + 1)
        self._last = (cut + data[1 - len(_TITLE) :])[1 - len(_TITLE) :]
        self._end = end

    def of(self, file: LogFile, size: int) -> list[int]:
        """Of a file of so many bytes: what was not seen of it is read."""
        # In pieces: of a mapped file every page would stay in memory.
        while self._end < size and (piece := file.read(self._end, _PIECE_BYTES)):
            self.seen(self._end, piece)
        return sorted(self._at)


def look(
    path: Path,
    maps: Callable[[], Maps] = dict,
    *,
    into_logs: bool = True,
    titles: Titles | None = None,
) -> BenchFile:
    """Read a file for results. SourceError if it cannot be read or is a damaged result.

    `maps` gives what the user said of columns; asked for only where there is something to read.
    A plain log is passed by without loading any reader; `into_logs`: it is read to its end for
    tables in it, as far as `titles` has not seen it, which takes its time.
    """
    with closing(unpacking(LocalFile(path))) as file:
        return look_into(file, str(path), maps, into_logs=into_logs, titles=titles)


def look_into(
    file: LogFile,
    name: str,
    maps: Callable[[], Maps] = dict,
    *,
    into_logs: bool = True,
    titles: Titles | None = None,
) -> BenchFile:
    """The same of an open file, wherever it lies."""
    file.refuse_binary()
    if file.complete:  # only logs are packed
        return BenchFile(name, "", file.progress(0)[1], None, is_log=True)
    size = file.size()
    head = file.read(0, HEAD_BYTES)
    if _is_json_log(head):
        return BenchFile(name, "", size, None, is_log=True)
    document = _is_document(head)
    log = not document and (size > TEXT_BYTES or is_server_log(_text(head)))
    if not log and size > WHOLE_BYTES:
        raise SourceError(f"{name}: is a result of {size / 1e9:.1f} GB; leave the details out")
    if log and not into_logs:
        return BenchFile(name, "", size, None, is_log=True)
    around = _around_tables(file, size, titles or Titles()) if log else [file.read(0, size)]
    data = b"\n".join(around)
    return _read(name, data, size, maps, log=log, document=document)


def look_at(name: str, data: bytes, maps: Callable[[], Maps] = dict) -> BenchFile:
    """Read results that came as bytes, under this name."""
    document = _is_document(data)
    log = not document and is_server_log(_text(data[:HEAD_BYTES]))
    return _read(name, data, len(data), maps, log=log, document=document)


def _read(
    name: str, data: bytes, size: int, maps: Callable[[], Maps], *, log: bool, document: bool
) -> BenchFile:
    content = hashlib.sha256(data).hexdigest()
    if not data.strip():
        return BenchFile(name, content, size, None, is_log=log)
    from parsers.bench.read import NoJson, read

    try:
        found = read(_text(data), maps())
    except NoJson as error:
        raise SourceError(f"{name}: {error}; copy the file again") from error
    is_log = log or (not document and is_server_log(_text(data)))
    said = not is_log and not document and is_transcript(_text(data))
    return BenchFile(name, content, size, found, is_log=is_log, is_transcript=said)


def _is_document(data: bytes) -> bool:
    """Whether a text is JSON. SGLang begins its lines with a bracket too, but a stamp follows."""
    start = data[:HEAD_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")
    return start[:1] == b"{" or bool(re.match(rb"\[\s*[\[{\]]", start))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _is_json_log(head: bytes) -> bool:
    """Lines of a log as JSON, by the server itself or by what collects them: read to its end only
    by the log's reader."""
    line = head.split(b"\n", 1)[0]
    return line.lstrip()[:1] == b"{" and bool(_JSON_LINE.search(line))


def _around_tables(file: LogFile, size: int, titles: Titles) -> Iterator[bytes]:
    """What stands around each table that a client printed into a log."""
    if size > LOG_BYTES:
        return
    end = 0
    for at in titles.of(file, size):
        if at < end:
            continue  # in the piece before
        start, end = max(end, at - _BEFORE), at + _AFTER
        yield file.read(start, end - start)
