"""Makes of the records of a block what one transaction stores: with notes and a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from data.checkpoints import Checkpoint
from data.moment import utc_now
from data.prepared import Prepared
from ingest.blocks import Block
from ingest.pipeline import Batch, Pipeline
from ingest.state import pack
from parsers import records
from parsers.lines import is_open


@dataclass(frozen=True, slots=True)
class Append:
    """What one transaction stores."""

    batch: Batch
    checkpoint: Checkpoint
    data: bytes  # the lines it came from
    lines: int  # an unfinished last one included
    size: int  # bytes of the file, a skipped line included
    prepared: Prepared | None = None  # what is inserted of the batch, where that is known


@dataclass(frozen=True, slots=True)
class Mark:
    """How the content up to an offset is known again."""

    head: str
    head_len: int
    tail: str


class Ledger:
    """Counts the checkpoints of one generation."""

    def __init__(self, source_id: str, seq: int, last: Checkpoint | None) -> None:
        self.seq = max(seq, last.seq) if last else seq
        self.read_at: datetime | None = None  # UTC, of all appends from here on; None: now
        self._source_id = source_id
        self._stored_seq = last.seq if last else 0  # the checkpoint that the next one goes on from
        self._known_texts: set[str] = set()
        self._notes: list[dict[str, object]] = []
        self._line_no = last.line_no if last else 1

    def note(self, file_id: str, offset: int, kind: str, detail: str, n: int | None = None) -> None:
        """Have a row in ingest_log with the next append."""
        self._notes.append(
            {
                "source_id": self._source_id, "file_id": file_id,
                "byte_offset": offset, "at": utc_now(),
                "kind": kind, "n": n, "detail": detail,
            }
        )  # fmt: skip

    def append(
        self, batch: Batch, block: Block, pipeline: Pipeline, offset: int, path: str,
        file_id: str, mark: Mark, *, finished: bool = False,
    ) -> Append:  # fmt: skip
        """The next append, which goes on from the one before."""
        if self._notes:
            notes = records.frame(self._notes, records.INGEST_LOG)
            batch = replace(batch, ingest_log=pl.concat([batch.ingest_log, notes]))
            self._notes = []
        self.seq += 1
        state, texts = pack(pipeline.state_values)
        new = tuple((name, text) for name, text in texts.items() if name not in self._known_texts)
        self._known_texts |= texts.keys()
        checkpoint = Checkpoint(
            source_id=self._source_id, file_id=file_id, path=path,
            seq=self.seq, byte_offset=offset, line_no=pipeline.line_no,
            fingerprint=mark.head, fingerprint_len=mark.head_len, tail_hash=mark.tail,
            state=state, finished=finished, new_texts=new, after=self._stored_seq,
            at=self.read_at or utc_now(),
        )  # fmt: skip
        self._stored_seq = self.seq
        ended, self._line_no = pipeline.line_no - self._line_no, pipeline.line_no
        lines = ended + is_open(block.data, pipeline.encoding)
        return Append(batch, checkpoint, block.data, lines, block.size)


def skipped_line(ledger: Ledger, pipeline: Pipeline, file_id: str, block: Block) -> Batch:
    """Pass by a line that is too long to keep, and note it."""
    text = f"a line of {block.skipped} bytes was skipped"
    ledger.note(file_id, pipeline.offset, "too_long", text, block.skipped)
    pipeline.skip(block.skipped)
    return no_records()


def no_records() -> Batch:
    """A batch without a record."""
    return Batch(
        samples=records.empty(records.SAMPLES),
        intervals=records.empty(records.INTERVALS),
        events=records.empty(records.EVENTS),
        run_facts=records.empty(records.RUN_FACTS),
        requests=records.empty(records.REQUESTS),
        access_counts=records.empty(records.ACCESS_COUNTS),
        ingest_log=records.empty(records.INGEST_LOG),
    )
