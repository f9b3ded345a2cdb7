"""One generation of a file's content being read: bytes in, appends for the store out.

The same steps serve a file that is followed and one that is imported. Each step returns what
must be committed together: the frames and the checkpoint behind them.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from datetime import datetime

from data.checkpoints import Checkpoint
from ingest.blocks import Block, BlockReader
from ingest.ledger import Append, Ledger, Mark, no_records, skipped_line
from ingest.pipeline import Batch, Pipeline, SourceInfo
from ingest.scan import Scanned
from ingest.sources.log_file import HEAD_BYTES, LogFile
from ingest.succession import Before

SCANS_AHEAD = 2
# Sources parse in turns, two at a time: fifty at once spend most of it handing the interpreter's
# lock around (a look took 430 ms of the clock for 10 ms of work).
_TURN = threading.BoundedSemaphore(2)


class ContentChangedError(Exception):
    """The file was truncated or rewritten under the reader."""


class Reading:
    """Reads one generation from its checkpoint on."""

    def __init__(
        self,
        source: SourceInfo,
        file: LogFile,
        last: Checkpoint | None,
        seq: int = 0,
        ahead: Executor | None = None,
        before: Before | None = None,
        largest: int | None = None,
    ) -> None:
        """`ahead`: scans the next block while the one before is absorbed (bulk import only).
        `before`: the file whose run goes on in this one, of which nothing was read yet.
        `largest`: bytes of a block."""
        self.file = file
        self.named = file.name  # what the checkpoints call it
        self.file_id = last.file_id if last else secrets.token_hex(8)
        self._ledger = Ledger(source.source_id, seq, last)
        self.begun_seq = self._ledger.seq  # before the first append of this reading
        self._source = source
        self._pipeline = (
            Pipeline.succeed(source, self.file_id, before)
            if before is not None
            else Pipeline.resume(source, self.file_id, last.state if last else None)
        )
        self._blocks = BlockReader(file, last.byte_offset if last else 0, largest)
        self._offset = self._blocks.offset
        self._ahead = ahead
        self._coming: deque[tuple[Block, Future[Scanned]]] = deque()
        self._head_len = last.fingerprint_len if last else 0
        self._head = last.fingerprint if last else file.fingerprint(0)
        self._tail = last.tail_hash if last else file.tail_hash(0)

    @property
    def offset(self) -> int:
        """The first byte not yet read as part of a whole line."""
        return self._offset

    @property
    def line_no(self) -> int:
        """The number of the line that begins at the offset."""
        return self._pipeline.line_no

    @property
    def run_id(self) -> str | None:
        """Of the run that the next lines belong to, as far as is known."""
        return self._pipeline.run_id

    @property
    def seq(self) -> int:
        """Of the latest checkpoint that was made."""
        return self._ledger.seq

    def seen(self, at: datetime | None) -> None:
        """The file was seen in its place at that time (UTC), before what is read now: whatever
        follows it there was written since."""
        self._ledger.read_at = at

    def note(self, kind: str, detail: str, n: int | None = None) -> None:
        """Have a row in ingest_log with the next append."""
        self._ledger.note(self.file_id, self._pipeline.offset, kind, detail, n)

    @contextmanager
    def ahead(self, executor: Executor) -> Iterator[None]:
        """While this lasts the next blocks are read and scanned beside the one being absorbed."""
        self._ahead = executor
        try:
            yield
        finally:
            self._ahead = None
            self._coming.clear()
            self._blocks.offset = self._offset

    def verify(self) -> None:
        """ContentChangedError unless what was read is still what the file holds."""
        if not self.file.reaches(self.offset):
            raise ContentChangedError("truncated")
        if self.file.fingerprint(self._head_len) != self._head:
            raise ContentChangedError("rewritten")
        if self.file.tail_hash(self.offset) != self._tail:
            raise ContentChangedError("rewritten")

    def step(self, *, final: bool = False) -> Append | None:
        """Read and parse one block; None when there is no whole line left."""
        found = self._next(final)
        if found is None:
            return None
        block, scanned = found
        end = self.offset + block.size
        tail = self.file.tail_hash(end)
        if not self.file.reaches(end) or self.file.fingerprint(self._head_len) != self._head:
            self._blocks.offset = self.offset
            self._coming.clear()
            raise ContentChangedError("rewritten")
        self._offset, self._tail = end, tail
        self._extend_head()
        return self._append(self._parse(block, scanned), block)

    def _next(self, final: bool) -> tuple[Block, Scanned] | None:
        if self._ahead is None:
            at = self._blocks.offset
            block = self._blocks.next(final=final)
            if block is None:
                return None
            self._pipeline.begin(block.data, at)
            with _TURN:
                return block, self._pipeline.scan(block.data, at)
        while len(self._coming) < SCANS_AHEAD:
            at = self._blocks.offset
            block = self._blocks.next(final=final)
            if block is None:
                break
            self._pipeline.begin(block.data, at)
            self._coming.append((block, self._ahead.submit(self._pipeline.scan, block.data, at)))
        if not self._coming:
            return None
        block, scanned = self._coming.popleft()
        return block, scanned.result()

    def finish(self) -> Append:
        """The file is complete: close what was left open."""
        return self._append(self._pipeline.finish(), Block(b""), finished=True)

    def hand_over(self) -> Append:
        """The file is complete, and its run goes on in another one."""
        return self._append(no_records(), Block(b""), finished=True)

    def before(self) -> Before:
        """What the file after this one takes over."""
        return Before(self.file_id, self._pipeline.state)

    def _parse(self, block: Block, scanned: Scanned) -> Batch:
        if block.skipped:
            return skipped_line(self._ledger, self._pipeline, self.file_id, block)
        with _TURN:
            return self._pipeline.absorb(scanned)

    def _extend_head(self) -> None:
        if self._head_len < HEAD_BYTES:
            self._head_len = min(self.offset, HEAD_BYTES)
            self._head = self.file.fingerprint(self._head_len)

    def _append(self, batch: Batch, block: Block, *, finished: bool = False) -> Append:
        mark = Mark(self._head, self._head_len, self._tail)
        return self._ledger.append(
            batch, block, self._pipeline, self.offset, self.named, self.file_id, mark,
            finished=finished,
        )  # fmt: skip
