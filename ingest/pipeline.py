"""Bytes of one file to the records of its runs: the same for one live line and a 10 GB file.

`Pipeline` does no I/O. Its state is small JSON that is committed with the records, so that a
restart resumes at the byte and gives the same records however the file was cut into blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import polars as pl

from ingest import access_rows, measure, overrides, rows_of
from ingest.blocks import HEAD_BYTES
from ingest.incidents import begins_run, folded, incident_of, judge
from ingest.runs import READY_AFTER_SAMPLES, Run, RunBook, dump_run, load_run
from ingest.scan import GATES, Readers, Scanned, scan
from ingest.serving import Serving, engine_of
from ingest.times import times_of
from parsers import (
    access,
    common_marks,
    lines,
    records,
    sglang,
    sglang_marks,
    speculation,
    vllm,
    vllm_marks,
)
from parsers.clock import Clock
from parsers.heads import Head, last_stamp
from parsers.marks import Mark, Marker
from parsers.samples import Reader
from parsers.server_args import redact_text
from parsers.speculation import SpecCard
from parsers.windows import Rank, Ties

Late = list[tuple[str, int, float]]  # run_id, byte offset, seconds

STATE_VERSION = 1
_KINDS = (*sglang.KINDS, *vllm.KINDS)
_RULES = (
    *(("sglang", rule) for rule in sglang_marks.RULES),
    *(("vllm", rule) for rule in vllm_marks.RULES),
    *((None, rule) for rule in common_marks.RULES),
)
_LOOKS = re.compile(f"{sglang.LOOKS}|{vllm.LOOKS}")
_HELD_BYTES = 256 * 1024
_HELD = {
    "line": pl.String(),
    "off": pl.Int64(),
    "no": pl.Int64(),
    "wrap": pl.String(),
    "zoned": pl.Boolean(),
}


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
    _ranks: dict[str, Rank] = field(default_factory=dict)
    _engine_no: int | None = None
    _held: list[tuple[Any, ...]] = field(default_factory=list)  # rows of _HELD
    _stamp: Head | None = None
    _minute: str | None = None  # last stamp, as access lines look for it
    _encoding: str | None = None  # of a UTF-16 file
    _readers: Readers = field(default_factory=lambda: Readers(Reader(_KINDS, GATES, _LOOKS)))
    _marker: Marker = field(init=False)
    _place: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        hint = self.source.clock_hint
        self._place = {"source_id": self.source.source_id, "file_id": self.file_id}
        self._book = RunBook(self.file_id)
        self._marker = Marker(_RULES, self.source.salt)
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

    @property
    def state(self) -> str:
        """All that the next block needs, as JSON."""
        return json.dumps(
            {
                "version": STATE_VERSION,
                "offset": self.offset,
                "line_no": self.line_no,
                "clock": asdict(self._clock),
                "run": dump_run(self._book.current) if self._book.current else None,
                "ranks": {key: asdict(rank) for key, rank in self._ranks.items()},
                "engine_no": self._engine_no,
                "held": self._held,
                "stamp": asdict(self._stamp) if self._stamp else None,
                "minute": self._minute,
                "encoding": self._encoding,
            }
        )

    def _load(self, state: Mapping[str, Any]) -> None:
        self.offset, self.line_no = state["offset"], state["line_no"]
        known = {**state["clock"], "zone": self.source.zone, "as_printed": self.source.as_printed}
        self._clock = Clock(**known)
        self._book.current = load_run(state["run"]) if state["run"] else None
        if self._book.current is not None and self._book.current.ended == "lost":
            self._book.current.goes_on()  # the file was taken as complete, and then it grew
        self._ranks = {
            key: Rank(
                **{**rank, "decode": Ties(**rank["decode"]), "prefill": Ties(**rank["prefill"])}
            )
            for key, rank in state["ranks"].items()
        }
        self._engine_no = state["engine_no"]
        # States of older releases know no wrappers and no minute.
        self._held = [(*row, None, False)[:5] for row in state["held"]]
        self._minute, self._encoding = state.get("minute"), state.get("encoding")
        self._stamp = Head(**state["stamp"]) if state["stamp"] else None

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
        text, printed = (
            frame.with_columns(pl.col("no") + first) for frame in (scanned.text, scanned.printed)
        )
        self.offset = scanned.end
        self.line_no += scanned.lines
        asked = [replace(request, no=request.no + first) for request in scanned.requests]
        seen = access.numbered(scanned.access, first)
        scanned = replace(scanned, text=text, printed=printed, requests=asked, access=seen)
        return self._read(scanned, final=False)

    def finish(self) -> Batch:
        """What only the end of the file makes known; nothing may be fed after it."""
        run = self._book.current
        batch = self._read(self.scan(b"", self.offset), final=True)
        if run is None:
            return batch
        if run.ended is None:
            run.end("lost", self.offset, None)
        run.settle()
        row = run.row(self.source.source_id, self.source.label)
        facts = records.frame([row] if row else [], records.RUN_FACTS)
        return replace(
            batch,
            intervals=pl.concat([batch.intervals, self._late_frame(self._close(run))]),
            run_facts=pl.concat([batch.run_facts, facts]),
        )

    def _read(self, scanned: Scanned, final: bool) -> Batch:
        printed, asked = scanned.printed, scanned.requests
        text = self._with_held(scanned.text)
        minutes = access_rows.stamps(scanned.access, self._minute)
        self._minute = scanned.access.last_stamp or self._minute
        marks = self._marks(text, final)
        sample_ts, times = times_of(self._clock, text, printed, [*marks, *asked, *minutes.values()])
        mark_ts, asked_ts = times[: len(marks)], times[len(marks) : len(marks) + len(asked)]
        minute_ts = dict(zip(minutes, times[len(marks) + len(asked) :], strict=True))
        serving = Serving.of(scanned.text, printed, asked)
        starts, events = self._walk(marks, mark_ts, serving, printed)
        counts, refused = access_rows.rows(self._place, scanned.access, minute_ts, starts)
        samples, late = self._measure(measure.placed(printed, sample_ts), starts)
        self._note_samples(samples, [run for _, run in starts])
        for run in self._book.closed:
            run.settle()
            late += self._close(run)
        self._book.closed.clear()
        rows = [run.row(self.source.source_id, self.source.label) for _, run in starts]
        return Batch(
            samples,
            self._late_frame(late),
            records.frame(events + refused, records.EVENTS),
            records.frame([row for row in rows if row], records.RUN_FACTS),
            rows_of.requests(self._place, asked, asked_ts, starts),
            counts,
            rows_of.damaged(self._place, scanned.damaged),
        )

    def _with_held(self, text: pl.DataFrame) -> pl.DataFrame:
        """The block's lines after those of a traceback that the block before cut off."""
        if not self._held:
            return text
        before = pl.DataFrame(self._held, schema=_HELD, orient="row").with_columns(
            pl.col("wrap").str.to_datetime(time_unit="us"), sample=False, access=False
        )
        if "wrap" in text.columns:
            return pl.concat([before.select(text.columns), text])
        if before["wrap"].null_count() == before.height:
            return pl.concat([before.select(text.columns), text])
        return pl.concat([before, text], how="diagonal").with_columns(
            pl.col("zoned").fill_null(False)
        )

    def _marks(self, text: pl.DataFrame, final: bool) -> list[Mark]:
        """Marks of lines; those of a traceback whose end is not there yet are held."""
        self._held = []
        if not text.height:
            return []
        others = ~(text["sample"] | text["access"])
        marks, cut = self._marker.read(text, others, self._stamp, final)
        held = text.slice(cut) if cut is not None else text.clear()
        if held["line"].str.len_bytes().sum() > _HELD_BYTES:  # no traceback: read as it is
            marks, _ = self._marker.read(text, others, self._stamp, final=True)
            held = held.clear()
        if "wrap" not in held.columns:
            held = held.with_columns(wrap=pl.lit(None, records.TIME), zoned=False)
        held = held.select(pl.col("line", "off", "no"), pl.col("wrap").cast(pl.String), "zoned")
        self._held = [(redact_text(row[0]), *row[1:]) for row in held.rows()]
        self._stamp = last_stamp(text, text.height) or self._stamp
        return marks

    def _walk(
        self,
        marks: list[Mark],
        times: list[datetime | None],
        serving: Serving,
        printed: pl.DataFrame,
    ) -> tuple[list[tuple[int, Run]], list[dict[str, Any]]]:
        """Runs of the block with where they start in it, and its events."""
        events: list[dict[str, Any]] = []
        book = self._book
        starts = [(-1, book.current)] if book.current else []

        def begin(before: int) -> None:
            """A file that starts in the middle of a run: its first serving line opens it."""
            if book.current is None and serving.first is not None and serving.first < before:
                starts.append((serving.first, book.open(serving.first)))

        for mark, ts in zip(marks, times, strict=True):
            begin(mark.off)
            if mark.kind == "traceback" and book.current is None and not begins_run(mark):
                continue
            run = book.take(mark, serving.between)
            trace_engine = mark.trace.engine if mark.trace else None
            run.engine = run.engine or engine_of(printed, run.start_off, mark.off) or trace_engine
            if run.engine and mark.engine and run.engine != mark.engine and not mark.boots:
                continue  # uvicorn says the same under either engine
            if not starts or starts[-1][1] is not run:
                starts.append((mark.off, run))
            self._revive(run, printed, mark.off)
            run.served |= serving.between(run.start_off, mark.off)
            if not run.repeats(mark):
                events += self._events(mark, ts, run)
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

    def _events(self, mark: Mark, ts: datetime | None, run: Run) -> Iterator[dict[str, Any]]:
        """The event of a mark, and the overrides that its line shows against the arguments."""
        mark = replace(mark, data=overrides.completed(mark, run))
        yield self._event(mark, ts, run)
        for found in overrides.inferred(mark, run):
            title = f"{found['name']} is {found['effective']}, not {found['given']}"
            shown = replace(
                mark, kind="override", severity="warning", title=title, data=found, facts={},
                memory_gb=None, duration_s=None,
            )  # fmt: skip
            yield self._event(shown, ts, run)

    def _event(self, mark: Mark, ts: datetime | None, run: Run) -> dict[str, Any]:
        verdict = judge(mark, run)
        run.learn(mark, ts)
        incident = incident_of(verdict, run, mark.off, ts)
        if verdict.ends is not None:
            run.end(verdict.ends, mark.off, ts)
        return {
            "run_id": run.run_id,
            **self._place,
            "byte_offset": mark.off,
            "line_no": mark.no,
            "ts": ts,
            "kind": verdict.kind,
            "severity": verdict.severity,
            "title": verdict.title,
            "detail": mark.detail,
            "evidence": mark.evidence,
            "incident_id": incident,
            "count": 1,
            "duration_s": mark.duration_s,
            "memory_gb": mark.memory_gb,
            "data": json.dumps(mark.data) if mark.data else None,
        }

    def _measure(
        self, placed: pl.DataFrame, starts: list[tuple[int, Run]]
    ) -> tuple[pl.DataFrame, Late]:
        """Samples with run, windows and acceptance; corrected intervals of earlier blocks."""
        placed, self._engine_no = measure.engine_indexed(placed, self._engine_no)
        done: list[pl.DataFrame] = []
        late: Late = []
        for run, rows in measure.by_run(measure.complete(placed), starts):
            self._count_towards_ready(run, rows)
            for key, part in measure.by_rank(rows):
                frames, corrected = self._measure_rank(f"{run.run_id}|{key}", part, run)
                done += frames
                late += [(run.run_id, off, seconds) for off, seconds in corrected]
        if not done:
            return records.empty(records.SAMPLES), late
        whole = done[0] if len(done) == 1 else pl.concat(done).sort("byte_offset")
        return (
            whole.with_columns(
                source_id=pl.lit(self.source.source_id), file_id=pl.lit(self.file_id)
            ).select(pl.col(name).cast(dtype) for name, dtype in records.SAMPLES.items()),
            late,
        )

    def _measure_rank(
        self, key: str, rows: pl.DataFrame, run: Run
    ) -> tuple[list[pl.DataFrame], list[tuple[int, float]]]:
        engine = self._ranks.setdefault(key, Rank())
        before = replace(engine)
        run.decode_only |= measure.admits_without_prefill(rows)
        if rows["engine"][0] == "vllm":
            rows = measure.with_hit_scope(rows, run.facts.get("engine_version"))
        spec, beside, rest = measure.by_kind(rows)
        frames, late = [rest, beside], []
        if rest.height:
            frames[0], measured = measure.timed(rest, engine, run.clock())
            late += measured.late
        if spec.height:
            own = self._ranks.setdefault(key + ",spec", Rank())
            spec, drafts = speculation.interval_counts(spec, own)
            if drafts:
                run.facts.setdefault("spec_draft_tokens", drafts)
            timed, measured = measure.timed_spec(spec, frames[0], own, before)
            late += measured.late
            frames.append(
                speculation.complete_vllm_v0(timed, drafts)
                if drafts
                else speculation.complete_vllm(timed)
            )
        elif rest.height and rest["engine"][0] == "sglang":
            frames[0] = speculation.complete_sglang(frames[0], self._spec_card(run, frames[0]))
        return [frame for frame in frames if frame.height], late

    def _spec_card(self, run: Run, rows: pl.DataFrame) -> SpecCard:
        drafts = run.facts.get("spec_draft_tokens")
        if run.rate_def is None:
            run.rate_def = speculation.rate_def(rows, drafts)
        return SpecCard(run.steps, drafts, *(run.rate_def or (None, 0)))

    def _close(self, run: Run) -> Late:
        """Corrections of a run that is over; its ranks are dropped."""
        keys = [key for key in self._ranks if key.startswith(f"{run.run_id}|")]
        ranks = [self._ranks.pop(key) for key in keys]
        return [
            (run.run_id, off, seconds)
            for rank in ranks
            for off, seconds in rank.decode.finish() + rank.prefill.finish()
        ]

    def _count_towards_ready(self, run: Run, rows: pl.DataFrame) -> None:
        """A booted run that never says "ready" counts as ready after some samples."""
        if not run.booted or run.ready_off is not None:
            return
        offs = rows.filter(pl.col("kind").is_in(["decode", "stats"]))["byte_offset"]
        missing = READY_AFTER_SAMPLES - run.unready_samples
        if offs.len() >= missing:
            run.ready_off = int(offs[missing - 1])
        run.unready_samples += offs.len()

    def _note_samples(self, samples: pl.DataFrame, runs: list[Run]) -> None:
        for run in runs:
            own = samples.filter(pl.col("run_id") == run.run_id) if len(runs) > 1 else samples
            if own.height:
                run.engine = run.engine or own["engine"][0]
                self._revive(run, own.rename({"byte_offset": "off"}), self.offset)
                if run is not self._book.current and run.ended is None:
                    run.end("lost", self.offset, None)  # it went on, and then another one began
                stamped = own.filter(pl.col("ts").is_not_null()).select("byte_offset", "ts")
                end = self.offset if run.end_off is None else run.end_off
                latest = stamped.filter(pl.col("byte_offset") <= end)
                for off, ts in [*stamped.head(1).rows(), *latest.top_k(1, by="ts").rows()]:
                    run.saw(off, ts)

    def _late_frame(self, late: Late) -> pl.DataFrame:
        rows = [
            {"run_id": run, "file_id": self.file_id, "byte_offset": off, "interval_s": seconds}
            for run, off, seconds in late
        ]
        return records.frame(rows, records.INTERVALS)
