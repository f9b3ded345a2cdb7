"""Imports past log files in bulk: parsing a block overlaps the commit of the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from data.errors import SourceError
from data.store import Store
from ingest.identity import resume_point
from ingest.pipeline import SourceInfo
from ingest.reading import Append, Reading
from ingest.sources.file import LocalFile, expand
from ingest.writer import Writer

GATHER_BYTES = 64 << 20
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
) -> ImportReport:
    """Read files, folders and globs to their end into the store; each file is read once only."""
    files = _openable(locations)
    report = ImportReport()
    total = sum(file.size() for file in files)
    writer = Writer(store, retry=False, gather=GATHER_BYTES)
    try:
        for file in files:
            source = SourceInfo(
                str(file.path), label=label, zone=zone, clock_hint=file.changed_at()
            )
            store.add_source(source.source_id, "file", str(file.path), label, zone)
            _import(store, writer, source, file, report, lambda n: progress and progress(n, total))
        writer.flush()
    finally:
        writer.stop()
        for file in files:
            file.close()
    return report


def _openable(locations: Sequence[str]) -> list[LocalFile]:
    """All files of all locations, opened; SourceError before anything is stored."""
    files: list[LocalFile] = []
    for location in locations:
        found = expand(location)
        if not found:
            raise SourceError(f"{location}: holds no log file (.log, .txt, .out, .err)")
        alone = len(found) == 1
        for path in found:
            file = LocalFile(path)
            try:
                file.refuse_binary()
            except SourceError:
                file.close()
                if alone:
                    raise
            else:
                files.append(file)
    return files


def _import(
    store: Store,
    writer: Writer,
    source: SourceInfo,
    file: LocalFile,
    report: ImportReport,
    progress: Callable[[int], object],
) -> None:
    report.files += 1
    if not file.size():
        report.notes.append(f"{file.path}: no lines yet")
        return
    writer.flush()  # an earlier file of this import may hold the same content
    with store.cursor() as con:
        point = resume_point(con, file, adopt_copies=True)
    last = point.last
    if last is not None and last.finished and last.byte_offset == file.size():
        known = "" if last.path == str(file.path) else f" as {last.path}"
        report.notes.append(f"{file.path}: already stored{known}")
        return
    reading = Reading(source, file, last, point.seq)

    def put(append: Append) -> None:
        report.count(append)
        report.read_bytes += append.size
        done = report.read_bytes
        # The lines are done with: a queue of them would only hold memory.
        writer.put(replace(append, data=b""), partial(progress, done))

    while (append := reading.step(final=True)) is not None:
        put(append)
    put(reading.finish())
