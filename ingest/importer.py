"""Imports past log files in bulk: parsing a block overlaps the commit of the one before."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from data.errors import SourceError
from data.store import Store
from ingest import blocks
from ingest.bench_read import Titles
from ingest.claims import Claims
from ingest.identity import resume_point
from ingest.interrupts import between_steps
from ingest.leaving_out import left_out
from ingest.ledger import Append, no_records
from ingest.pipeline import SourceInfo
from ingest.reading import SCANS_AHEAD, Reading
from ingest.sources.file import LocalFile
from ingest.sources.log_file import LogFile, Place
from ingest.sources.names import LOGS, in_turn, shown
from ingest.sources.packed import Unpacked
from ingest.sources.places import place_of
from ingest.succession import Succession
from ingest.writer import Writer

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
GATHER_BYTES = 64 << 20
OPEN_BYTES = 4 * GATHER_BYTES  # where rows are inserted as they come, and wait in no queue
SETTLED_S = 60.0  # a file written to since may get the rest of its last line yet
Progress = Callable[[int, int, int], object]  # bytes done, bytes in all, lines done


@dataclass(slots=True)
class ImportReport:
    """What an import did."""

    files: int = 0
    read_bytes: int = 0
    lines: int = 0
    samples: int = 0
    run_ids: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # one line each, for the user
    settled_s: float = SETTLED_S  # since when a file that ends inside a line has its end

    def count(self, append: Append) -> None:
        """Add what one append holds."""
        self.lines += append.lines
        self.samples += append.batch.samples.height
        for run_id in append.batch.run_facts["run_id"].to_list():
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
    beside: Callable[[str, Titles], object] = lambda name, titles: None,
    settled_s: float = SETTLED_S,
) -> ImportReport:
    """Read files, folders and globs to their end into the store; each file is read once only.

    Args:
        beside: told each file that was read, with its tables, while the last of it is stored.
        settled_s: of a file written to since, the rest of an unfinished last line is waited for.
    """
    claims, report = claims or Claims(), ImportReport(settled_s=settled_s)
    if store.bulk:
        _keep_memory()
    with closing(_Places()) as places, between_steps() as check:
        found = _readable(locations, places, report)
        bar = _Bar(progress, sum(found.values()), report, check)
        writer = Writer(store, retry=False, gather=OPEN_BYTES if store.bulk else GATHER_BYTES)
        names = in_turn(found)
        chain = Succession(partial(_put_end, writer, report), order=[*map(shown, names)])
        try:
            for name in names:
                check()
                report.files += 1
                if not found[name]:
                    report.notes.append(f"{shown(name)}: no lines yet")
                    continue
                place = places.of(name)
                with closing(place.open(name)) as file, _claimed(file, claims, report) as free:
                    if free:
                        known = zone or places.zone(place), file.changed_at()
                        source = SourceInfo(file.name, label, *known, store.salt)
                        store.add_source(file.name, place.kind, file.name, label, source.zone)
                        titles = _watched(file)
                        _import(store, writer, source, file, place, report, bar, claims, chain)
                        beside(name, titles)
                        # The next reader, of this or a copy, goes on from what is stored.
                        writer.flush()
                bar.done(found[name])
            chain.close()
            writer.flush()
        finally:
            writer.stop()
    return report


def _keep_memory() -> None:
    """For a process that only imports."""
    gc.freeze()  # what is loaded by now stays, and need not be looked at again and again
    # What one block frees the next one needs: given back to the kernel, it would come again as
    # pages that have to be cleared first.
    with suppress(AttributeError):  # another C library than glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, 1 << 29)
        mallopt(_MMAP_THRESHOLD, 1 << 25)


def _watched(file: LogFile) -> Titles:
    """What tables are seen in a file while it is read."""
    titles = Titles()
    if isinstance(file, LocalFile):
        file.watch = titles.seen
    return titles


class _Places:
    """The places of an import: one connection for all files of a host's location."""

    def __init__(self) -> None:
        self._all: list[Place] = []
        self._of: dict[str, Place] = {}
        self._zones: dict[Place, str | None] = {}

    def names(self, location: str) -> list[str]:
        """The files of a location, oldest first."""
        place = place_of(location)
        self._all.append(place)
        found = place.all(LOGS)
        self._of |= dict.fromkeys(found, place)
        return found

    def of(self, name: str) -> Place:
        """The place that a file was found in."""
        return self._of[name]

    def zone(self, place: Place) -> str | None:
        """The zone of a place's clock, asked once."""
        if place not in self._zones:
            self._zones[place] = place.zone()
        return self._zones[place]

    def close(self) -> None:
        """Hang up everywhere."""
        for place in self._all:
            place.close()


class _Bar:
    """How far an import has come, in bytes as the files hold them, packed or not.

    Attributes:
        check: raises KeyboardInterrupt if the user wants no more.
    """

    def __init__(
        self,
        progress: Progress | None,
        total: int,
        report: ImportReport,
        check: Callable[[], None],
    ) -> None:
        self.check = check
        self._progress = progress
        self._report = report
        self._total = total
        self._before = 0  # in the files before

    def tell(self, here: int) -> None:
        """So many bytes of the present file are stored."""
        if self._progress is not None:
            done = min(self._before + here, self._total)
            self._progress(done, self._total, self._report.lines)

    def done(self, size: int) -> None:
        """The present file is done with."""
        self._before += size
        self.tell(0)


@contextmanager
def _claimed(file: LogFile, claims: Claims, report: ImportReport) -> Iterator[bool]:
    """Keep other readers off the file; False and a note if one is at it."""
    other = claims.take(file, None)
    if other is not None:
        report.notes.append(other.describe(file))
        yield False
        return
    try:
        yield True
    finally:
        claims.release(file)


def _readable(locations: Sequence[str], places: _Places, report: ImportReport) -> dict[str, int]:
    """Every log of all locations and its size; SourceError before anything is stored."""
    sizes: dict[str, int] = {}
    for location in locations:
        found = places.names(location)
        if not found:
            raise SourceError(f"{location}: holds no log file (.log, .txt, .out, .err)")
        for name in found:
            with left_out(report.notes, of=len(found)), closing(places.of(name).open(name)) as file:
                file.refuse_binary()
                sizes[name] = file.progress(0)[1]
    return sizes


def _import(
    store: Store,
    writer: Writer,
    source: SourceInfo,
    file: LogFile,
    place: Place,
    report: ImportReport,
    bar: _Bar,
    claims: Claims,
    chain: Succession,
) -> None:
    with store.cursor() as con:
        point = resume_point(con, file, place, adopt_copies=True, taken=claims.others(file))
    last = point.last
    before = chain.next(file.name, fresh=last is None)
    if last is not None and last.finished and not file.reaches(last.byte_offset + 1):
        chain.ended(file.name, last)
        elsewhere = "" if last.path == file.name else f" as {last.path}"
        report.notes.append(f"{file.name}: already stored{elsewhere}")
        return
    known = report.samples, len(report.run_ids)
    with ThreadPoolExecutor(SCANS_AHEAD, "scan") as ahead:
        largest = blocks.BULK_BYTES if isinstance(file, LocalFile) else None
        reading = Reading(source, file, last, max(point.seq, chain.seq), ahead, before, largest)
        claims.tell(file, reading.file_id)
        _read_to_end(store, reading, writer, report, bar)
        chain.ended(file.name, reading)
    if last is None and known == (report.samples, len(report.run_ids)):
        report.notes.append(f"{file.name}: no line of an SGLang or vLLM server in it")


def _put_end(writer: Writer, report: ImportReport, append: Append) -> None:
    report.count(append)
    writer.put(append, lambda: None)


def _read_to_end(
    store: Store, reading: Reading, writer: Writer, report: ImportReport, bar: _Bar
) -> None:
    file = reading.file

    def put(append: Append) -> None:
        report.count(append)
        report.read_bytes += append.size
        done = file.progress(reading.offset)[0]
        # The lines are done with: a queue of them would only hold memory.
        append = replace(append, data=b"")
        if store.bulk:  # nothing else is asked of the thread that writes
            append = replace(append, batch=no_records(), prepared=store.prepare(append.batch))
        writer.put(append, partial(bar.tell, done))

    settled = file.complete or time.time() - file.change_mark()[1] / 1e9 >= report.settled_s
    while (append := reading.step(final=settled)) is not None:
        put(append)
        bar.check()
    if isinstance(file, Unpacked) and file.cut_off:
        reading.note("damaged", f"the packed file is cut off after {reading.offset} bytes of text")
        report.notes.append(
            f"{file.name}: is cut off or damaged; the {reading.offset:,} bytes that could be "
            "unpacked are stored"
        )
    if not settled and file.reaches(reading.offset + 1):
        report.notes.append(f"{file.name}: its last line is unfinished and was left for later")
