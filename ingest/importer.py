"""Imports past log files in bulk: parsing a block overlaps the commit of the one before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from data.errors import SourceError
from data.store import Store
from ingest.claims import Claims
from ingest.identity import resume_point
from ingest.pipeline import SourceInfo
from ingest.reading import SCANS_AHEAD, Append, Reading
from ingest.sources.file import LocalFile, expand
from ingest.writer import Writer

GATHER_BYTES = 64 << 20
SETTLED_S = 60.0  # a file written to since may get the rest of its last line yet
Progress = Callable[[int, int], object]  # bytes done, bytes in all


@dataclass(slots=True)
class ImportReport:
    """What an import did."""

    files: int = 0
    read_bytes: int = 0
    lines: int = 0
    samples: int = 0
    run_ids: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # one line each, for the user

    def count(self, append: Append) -> None:
        """Add what one append holds."""
        self.lines += append.data.count(b"\n") + (
            not append.data.endswith(b"\n") and bool(append.data)
        )
        self.samples += append.batch.samples.height
        for run_id in append.batch.run_facts["run_id"].unique(maintain_order=True):
            if run_id not in self.run_ids:
                self.run_ids.append(run_id)


def import_logs(
    store: Store,
    locations: Sequence[str],
    *,
    label: str | None = None,
    zone: str | None = None,
    progress: Progress | None = None,
    claims: Claims | None = None,
) -> ImportReport:
    """Read files, folders and globs to their end into the store; each file is read once only.

    `claims`: of the readers of this process; what they read already is left out.
    """
    claims = claims or Claims()
    report = ImportReport()
    sizes = _readable(locations, report)
    total = sum(sizes.values())
    writer = Writer(store, retry=False, gather=GATHER_BYTES)
    try:
        for path, size in sizes.items():
            report.files += 1
            if not size:
                report.notes.append(f"{path}: no lines yet")
                continue
            with closing(LocalFile(path)) as file, _claimed(file, claims, report) as free:
                if free:
                    source = SourceInfo(str(path), label, zone, file.changed_at(), store.salt)
                    store.add_source(source.source_id, "file", str(path), label, zone)
                    tell = partial(_tell, progress, total)
                    _import(store, writer, source, file, report, tell, claims)
                    # The next reader, of this file or of a copy, goes on from what is stored.
                    writer.flush()
    finally:
        writer.stop()
    return report


@contextmanager
def _claimed(file: LocalFile, claims: Claims, report: ImportReport) -> Iterator[bool]:
    """Keep other readers off the file; False and a note if one is at it."""
    other = claims.take(file, None)
    if other is not None:
        report.notes.append(other.describe(file.path))
        yield False
        return
    try:
        yield True
    finally:
        claims.release(file)


def _tell(progress: Progress | None, total: int, done: int) -> None:
    if progress is not None:
        progress(done, total)


def _readable(locations: Sequence[str], report: ImportReport) -> dict[Path, int]:
    """Every log of all locations and its size; SourceError before anything is stored."""
    sizes: dict[Path, int] = {}
    for location in locations:
        found = expand(location)
        if not found:
            raise SourceError(f"{location}: holds no log file (.log, .txt, .out, .err)")
        for path in found:
            try:
                with closing(LocalFile(path)) as file:
                    file.refuse_binary()
                    sizes[path] = file.size()
            except SourceError as error:
                if len(found) == 1:
                    raise
                report.notes.append(f"{error}; left out")
    return sizes


def _import(
    store: Store,
    writer: Writer,
    source: SourceInfo,
    file: LocalFile,
    report: ImportReport,
    progress: Callable[[int], object],
    claims: Claims,
) -> None:
    with store.cursor() as con:
        point = resume_point(con, file, adopt_copies=True, taken=claims.others(file))
    last = point.last
    if last is not None and last.finished and last.byte_offset == file.size():
        elsewhere = "" if last.path == str(file.path) else f" as {last.path}"
        report.notes.append(f"{file.path}: already stored{elsewhere}")
        return
    known = report.samples, len(report.run_ids)
    with ThreadPoolExecutor(SCANS_AHEAD, "scan") as ahead:
        reading = Reading(source, file, last, point.seq, ahead)
        claims.tell(file, reading.file_id)
        _read_to_end(reading, writer, report, progress)
    if last is None and known == (report.samples, len(report.run_ids)):
        report.notes.append(f"{file.path}: no line of an SGLang or vLLM server in it")


def _read_to_end(
    reading: Reading, writer: Writer, report: ImportReport, progress: Callable[[int], object]
) -> None:
    def put(append: Append) -> None:
        report.count(append)
        report.read_bytes += append.size
        done = report.read_bytes
        # The lines are done with: a queue of them would only hold memory.
        writer.put(replace(append, data=b""), partial(progress, done))

    settled = time.time() - reading.file.change_mark()[1] / 1e9 >= SETTLED_S
    while (append := reading.step(final=settled)) is not None:
        put(append)
    put(reading.finish())
    if not settled and reading.offset < reading.file.size():
        report.notes.append(
            f"{reading.file.path}: its last line is unfinished and was left for later"
        )
