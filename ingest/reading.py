"""One generation of a file's content being read: bytes in, appends for the store out.

The same steps serve a file that is followed and one that is imported. Each step returns what
must be committed together: the frames and the checkpoint behind them.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import polars as pl

from data.checkpoints import Checkpoint
from ingest.blocks import Block, BlockReader
from ingest.pipeline import Batch, Pipeline, SourceInfo
from ingest.scan import Scanned
from ingest.sources.log_file import HEAD_BYTES, LogFile
from ingest.state import pack
from parsers import records

SCANS_AHEAD = 2  # blocks that a bulk import scans beside the one it absorbs


@dataclass(frozen=True, slots=True)
class Append:
    """What one transaction stores."""

    batch: Batch
    checkpoint: Checkpoint
    data: bytes  # the lines it came from
    size: int  # bytes of the file, a skipped line included


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
    ) -> None:
        """`ahead`: scans the next block while the one before is absorbed (bulk import only)."""
        self.file = file
        self.named = file.name  # what the checkpoints call it
        self.file_id = last.file_id if last else secrets.token_hex(8)
        self.seq = max(seq, last.seq) if last else seq
        self._stored_seq = last.seq if last else 0  # the checkpoint that the next one goes on from
        self._source = source
        self._pipeline = Pipeline.resume(source, self.file_id, last.state if last else None)
        self._blocks = BlockReader(file, last.byte_offset if last else 0)
        self._offset = self._blocks.offset
        self._ahead = ahead
        self._coming: deque[tuple[Block, Future[Scanned]]] = deque()
        self._head_len = last.fingerprint_len if last else 0
        self._head = last.fingerprint if last else file.fingerprint(0)
        self._tail = last.tail_hash if last else file.tail_hash(0)
        self._known_texts: set[str] = set()
        self._notes: list[dict[str, object]] = []

    @property
    def offset(self) -> int:
        """The first byte not yet read as part of a whole line."""
        return self._offset

    def note(self, kind: str, detail: str, n: int | None = None) -> None:
        """Have a row in ingest_log with the next append."""
        self._notes.append(
            {
                "source_id": self._source.source_id, "file_id": self.file_id,
                "byte_offset": self._pipeline.offset, "at": datetime.now(UTC).replace(tzinfo=None),
                "kind": kind, "n": n, "detail": detail,
            }
        )  # fmt: skip

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
            return block, self._pipeline.scan(block.data, at)
        while len(self._coming) <= SCANS_AHEAD:
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

    def _parse(self, block: Block, scanned: Scanned) -> Batch:
        if block.skipped:
            self.note("too_long", f"a line of {block.skipped} bytes was skipped", block.skipped)
            self._pipeline.offset += block.skipped
            self._pipeline.line_no += 1
            return _no_records()
        return self._pipeline.absorb(scanned)

    def _extend_head(self) -> None:
        if self._head_len < HEAD_BYTES:
            self._head_len = min(self.offset, HEAD_BYTES)
            self._head = self.file.fingerprint(self._head_len)

    def _append(self, batch: Batch, block: Block, *, finished: bool = False) -> Append:
        if self._notes:
            notes = records.frame(self._notes, records.INGEST_LOG)
            batch = replace(batch, ingest_log=pl.concat([batch.ingest_log, notes]))
            self._notes = []
        self.seq += 1
        state, texts = pack(self._pipeline.state)
        new = tuple((name, text) for name, text in texts.items() if name not in self._known_texts)
        self._known_texts |= texts.keys()
        checkpoint = Checkpoint(
            source_id=self._source.source_id, file_id=self.file_id, path=self.named,
            seq=self.seq, byte_offset=self.offset, line_no=self._pipeline.line_no,
            fingerprint=self._head, fingerprint_len=self._head_len, tail_hash=self._tail,
            state=state, finished=finished, new_texts=new, after=self._stored_seq,
        )  # fmt: skip
        self._stored_seq = self.seq
        return Append(batch, checkpoint, block.data, block.size)


def _no_records() -> Batch:
    return Batch(
        samples=records.empty(records.SAMPLES),
        intervals=records.empty(records.INTERVALS),
        events=records.empty(records.EVENTS),
        run_facts=records.empty(records.RUN_FACTS),
        requests=records.empty(records.REQUESTS),
        access_counts=records.empty(records.ACCESS_COUNTS),
        ingest_log=records.empty(records.INGEST_LOG),
    )
