"""Bytes of one file to the records of its runs: the same for one live line and a 10 GB file.

`Pipeline` does no I/O. Its state is small JSON that is committed with the records, so that a
restart resumes at the byte and gives the same records however the file was cut into blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, islice
from typing import Any

import polars as pl

from data.errors import SourceError
from ingest import access_rows, begins, event_rows, measure, rows_of
from ingest.blocks import HEAD_BYTES
from ingest.held import HeldMarks
from ingest.incidents import begins_run, folded
from ingest.ranks import Late, Ranks
from ingest.runs import Run, RunBook, dump_run, load_run
from ingest.scan import GATES, Readers, Scanned, scan
from ingest.serving import Serving, engine_of
from ingest.state import dumped
from ingest.succession import Before, Places, carried, earlier_of
from ingest.times import times_of
from parsers import access, lines, records, sglang, vllm
from parsers.clock import Clock
from parsers.marks import Mark
from parsers.samples import Reader

STATE_VERSION = 2  # 2: a run may begin in an earlier file
_KINDS = (*sglang.KINDS, *vllm.KINDS)
_LOOKS = re.compile(f"{sglang.LOOKS}|{vllm.LOOKS}")


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """What is known of a source beside its bytes.

    Attributes:
        source_id: names the source in the store.
        label: the name its runs get.
        zone: IANA zone of its printed clock; None: unknown, taken as UTC.
        clock_hint: a time at or after its last line (the file's time), for stamps without a year.
        salt: of the hashes that stand for redacted secrets; the store's own.
        as_printed: times are to be those that the lines print, even where a wrapper tells UTC.
    """

    source_id: str
    label: str | None = None
    zone: str | None = None
    clock_hint: datetime | None = None
    salt: str = ""
    as_printed: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one block, in the schemas of `parsers.records`."""

    samples: pl.DataFrame
    intervals: pl.DataFrame
    events: pl.DataFrame
    run_facts: pl.DataFrame
    requests: pl.DataFrame
    access_counts: pl.DataFrame
    ingest_log: pl.DataFrame


@dataclass(slots=True)
class Pipeline:
    """Reads one generation of one file, block after block.

    `offset` and `line_no` are where the next block starts.
    """

    source: SourceInfo
    file_id: str
    offset: int = 0
    line_no: int = 1
    _book: RunBook = field(init=False)
    _clock: Clock = field(init=False)
    _ranks: Ranks = field(default_factory=Ranks)
    _minute: str | None = None  # last stamp, as access lines look for it
    _encoding: str | None = None  # of a UTF-16 file
    _readers: Readers = field(default_factory=lambda: Readers(Reader(_KINDS, GATES, _LOOKS)))
    _marks: HeldMarks = field(init=False)
    _place: dict[str, str] = field(init=False)
    _places: Places = field(init=False)

    def __post_init__(self) -> None:
        hint = self.source.clock_hint
        self._place = {"source_id": self.source.source_id, "file_id": self.file_id}
        self._places = Places(self.source.source_id, self.file_id)
        self._book = RunBook(self.file_id)
        self._marks = HeldMarks(self.source.salt)
        self._clock = Clock(
            self.source.zone, hint.isoformat() if hint else None, self.source.as_printed
        )

    @classmethod
    def resume(cls, source: SourceInfo, file_id: str, state: str | None) -> Pipeline:
        """A pipeline that goes on where the one that gave `state` stopped."""
        pipeline = cls(source, file_id)
        if state:
            pipeline._load(json.loads(state))
        return pipeline

    @classmethod
    def succeed(cls, source: SourceInfo, file_id: str, before: Before) -> Pipeline:
        """A pipeline for the file after one that was read to its end: its run goes on."""
        pipeline = cls(source, file_id)
        hint = pipeline._clock.hint
        pipeline._load(carried(before))
        if pipeline._clock.year is None:
            pipeline._clock.hint = hint  # its lines are younger than the file before
        return pipeline

    @property
    def state(self) -> str:
        """All that the next block needs, as JSON."""
        return dumped(self.state_values)

    @property
    def state_values(self) -> dict[str, Any]:
        """The same, not a copy: the next block changes it."""
        return {
            "version": STATE_VERSION,
            "offset": self.offset,
            "line_no": self.line_no,
            "clock": self._clock,
            "run": dump_run(self._book.current) if self._book.current else None,
            **self._ranks.dump(),
            **self._marks.dump(),
            "minute": self._minute,
            "encoding": self._encoding,
            "earlier": self._places.earlier,
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        if (version := state.get("version", 1)) > STATE_VERSION:
            raise SourceError(
                f"{self.source.source_id}: was read by a newer Servescope (its checkpoint is of "
                f"version {version}, this one knows up to {STATE_VERSION}); upgrade Servescope, or "
                "choose another --store"
            )
        self.offset, self.line_no = state["offset"], state["line_no"]
        known = {**state["clock"], "zone": self.source.zone, "as_printed": self.source.as_printed}
        self._clock = Clock(**known)
        self._book.current = load_run(state["run"]) if state["run"] else None
        if self._book.current is not None and self._book.current.ended == "lost":
            self._book.current.goes_on()  # the file was taken as complete, and then it grew
        self._ranks.load(state["ranks"], state["engine_no"])
        self._marks.load(state["held"], state["stamp"])
        # States of older releases know no minute.
        self._minute, self._encoding = state.get("minute"), state.get("encoding")
        self._places = replace(self._places, earlier=earlier_of(state))

    @property
    def run_id(self) -> str | None:
        """Of the run that the blocks so far have left open."""
        return self._book.current.run_id if self._book.current else None

    @property
    def encoding(self) -> str | None:
        """The encoding of a UTF-16 file, else None."""
        return self._encoding

    @property
    def zone_offset_s(self) -> float | None:
        """Seconds that the printed clock is ahead of UTC, where wrappers told it."""
        return self._clock.ahead_s

    def feed(self, data: bytes) -> Batch:
        """Records of the next block.

        Args:
            data: whole lines, the last one ended by a newline unless the file ends there.
        """
        self.begin(data, self.offset)
        return self.absorb(self.scan(data, self.offset))

    def begin(self, data: bytes, offset: int) -> None:
        """Learns the encoding from the first block, before any is scanned."""
        if not offset:
            self._encoding = lines.wide_encoding(data[:HEAD_BYTES])

    def skip(self, size: int) -> None:
        """Pass by a line of so many bytes, its newline included: it is too long to be read."""
        self.offset += size
        self.line_no += 1

    def scan(self, data: bytes, offset: int) -> Scanned:
        """The part of `feed` that depends on no block before: may run ahead in another thread.

        Args:
            data: as for `feed`.
            offset: bytes of the file before `data`.
        """
        return scan(self._readers, data, offset, self._encoding)

    def absorb(self, scanned: Scanned) -> Batch:
        """Records of a scanned block; blocks in the order of the file."""
        first = self.line_no
        text = scanned.text.numbered(first)
        printed = records.with_columns(scanned.printed, scanned.printed["no"] + first)
        self.offset = scanned.end
        self.line_no += scanned.lines
        asked = [replace(request, no=request.no + first) for request in scanned.requests]
        seen = access.numbered(scanned.access, first)
        scanned = replace(scanned, text=text, printed=printed, requests=asked, access=seen)
        return self._read(scanned, final=False)

    def finish(self) -> Batch:
        """What only the end of the log makes known. Should there be more of it after all, in this
        file or in one after it, a pipeline that resumes goes on with the run."""
        run = self._book.current
        batch = self._read(self.scan(b"", self.offset), final=True)
        if run is None:
            return batch
        if run.ended is None:
            run.end("lost", self.offset, None)
        run.settle()
        row = run.row(self.source.source_id, self.source.label)
        facts = records.frame([row] if row else [], records.RUN_FACTS)
        late = self._places.late(self._ranks.settle(run))
        return replace(
            batch,
            intervals=pl.concat([batch.intervals, late]),
            run_facts=pl.concat([batch.run_facts, facts]),
        )

    def _read(self, scanned: Scanned, final: bool) -> Batch:
        printed, asked = scanned.printed, scanned.requests
        text = self._marks.join(scanned.text)
        minutes = access_rows.stamps(scanned.access, self._minute)
        self._minute = scanned.access.last_stamp or self._minute
        marks = self._marks.read(text, final)
        begun = begins.stamps(text, marks, self._book.current)
        dated = (marks, asked, list(minutes.values()), list(begun.values()))
        sample_ts, times = times_of(self._clock, text.rest, printed, list(chain(*dated)))
        left = iter(times)
        mark_ts, asked_ts, minute_at, begun_ts = (list(islice(left, len(part))) for part in dated)
        minute_ts = dict(zip(minutes, minute_at, strict=True))
        serving = Serving.of(scanned.access.rows, printed, asked)
        begun_at = dict(zip(begun, zip(begun.values(), begun_ts, strict=True), strict=True))
        starts, events = self._walk(
            list(zip(marks, mark_ts, strict=True)), begun_at, serving, printed
        )
        counts, refused = access_rows.rows(self._place, scanned.access, minute_ts, starts)
        samples, late = records.empty(records.SAMPLES), Late()
        if printed.height:
            samples, late = self._measure(measure.placed(printed, sample_ts), starts)
            self._note_samples(samples, [run for _, run in starts])
        for run in self._book.closed:
            run.settle()
            late += self._ranks.close(run)
        self._book.closed.clear()
        rows = [run.row(self.source.source_id, self.source.label) for _, run in starts]
        return Batch(
            samples,
            self._places.late(late),
            records.frame(events + refused, records.EVENTS),
            records.frame([row for row in rows if row], records.RUN_FACTS),
            rows_of.requests(self._place, asked, asked_ts, starts),
            counts,
            rows_of.damaged(self._place, scanned.damaged),
        )

    def _walk(
        self,
        marks: list[tuple[Mark, datetime | None]],
        begun: Mapping[int, begins.Begun],
        serving: Serving,
        printed: pl.DataFrame,
    ) -> tuple[list[tuple[int, Run]], list[dict[str, Any]]]:
        """Runs of the block with where they start in it, and its events."""
        events: list[dict[str, Any]] = []
        book = self._book
        starts = [(-1, book.current)] if book.current else []
        begins.tell(book.current, None, begun)

        def begin(before: int) -> None:
            """A file that starts in the middle of a run: its first serving line opens it."""
            if book.current is None and serving.first is not None and serving.first < before:
                starts.append((serving.first, book.open(serving.first)))

        for mark, ts in marks:
            begin(mark.off)
            if book.current is None and (
                mark.kind == "harmless" or (mark.kind == "traceback" and not begins_run(mark))
            ):
                continue
            run = book.take(mark, serving.between)
            begins.tell(run, mark.off, begun)
            ts = begins.own_time(mark, ts, run)
            trace_engine = mark.trace.engine if mark.trace else None
            run.engine = run.engine or engine_of(printed, run.start_off, mark.off) or trace_engine
            if run.engine and mark.engine and run.engine != mark.engine and not mark.boots:
                continue  # uvicorn says the same under either engine
            if not starts or starts[-1][1] is not run:
                starts.append((mark.off, run))
            self._revive(run, printed, mark.off)
            run.served |= serving.between(run.start_off, mark.off)
            if not run.repeats(mark):
                events += event_rows.rows(self._places, mark, ts, run)
        begin(self.offset + 1)
        for start, run in starts:
            run.served |= serving.between(max(start, run.start_off), self.offset)
        return starts, folded(events)

    def _revive(self, run: Run, printed: pl.DataFrame, before: int) -> None:
        """A run that generated tokens after a fault goes on."""
        if run.ended == "crashed" and run.end_off is not None and printed.height:
            after = printed.filter(pl.col("off").is_between(run.end_off, before))
            if "gen_tok_s" in after.columns and (after["gen_tok_s"] > 0).any():
                run.goes_on()

    def _measure(
        self, placed: pl.DataFrame, starts: list[tuple[int, Run]]
    ) -> tuple[pl.DataFrame, Late]:
        """Rows of `samples` in file order; corrected intervals of earlier blocks."""
        done, late = self._ranks.measure(placed, starts)
        whole = done[0] if len(done) == 1 else pl.concat(done).sort("byte_offset")
        places = (
            records.constant(name, value, records.TEXT, whole.height)
            for name, value in self._place.items()
        )
        whole = records.with_columns(whole, *places)
        every = {column.name: column for column in whole.iter_columns()}
        columns = [
            column if column.dtype == dtype else column.cast(dtype)
            for column, dtype in ((every[name], dtype) for name, dtype in records.SAMPLES.items())
        ]
        return pl.DataFrame(columns), late

    def _note_samples(self, samples: pl.DataFrame, runs: list[Run]) -> None:
        for run in runs:
            own = samples.filter(pl.col("run_id") == run.run_id) if len(runs) > 1 else samples
            if own.height:
                run.engine = run.engine or own["engine"][0]
                if run.ended == "crashed":
                    self._revive(run, own.rename({"byte_offset": "off"}), self.offset)
                if run is not self._book.current and run.ended is None:
                    run.end("lost", self.offset, None)  # it went on, and then another one began
                run.saw_all(_first_and_latest(own, run.end_off))


def _first_and_latest(
    samples: pl.DataFrame, end: int | None
) -> Iterable[tuple[int, datetime | None]]:
    """Places and times of the first sample that has a time, and of the latest time before an
    offset; of a few samples those of all."""
    off, ts = samples["byte_offset"], samples["ts"]
    if samples.height <= records.FEW_ROWS:
        return zip(off.to_list(), ts.to_list(), strict=True)
    before = ts if end is None else ts.set(off > end, None)
    rows = (ts.is_not_null().arg_max(), before.arg_max())
    return [(off[row], ts[row]) for row in rows if row is not None]
