"""What the Bench page does with files: shows what is in them before anything is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from data import bench, bench_link
from data.errors import SourceError
from data.store import Store
from ingest.bench_import import BenchRead, import_bench
from ingest.bench_read import BenchFile, look_at
from ingest.bench_watch import BenchWatch
from ingest.imports import maps_of
from parsers.bench.frames import frame, rows
from parsers.records import BENCH_RESULTS, empty

Upload = tuple[str, bytes]  # name and content


@dataclass(frozen=True, slots=True)
class Preview:
    """One file as it would be stored."""

    name: str
    format: str
    points: pl.DataFrame = field(default_factory=lambda: empty(BENCH_RESULTS))
    new: int = 0  # points that are not stored yet
    unread: list[str] = field(default_factory=list)  # columns that nobody has named
    problem: str | None = None  # why nothing can be stored of it


class BenchDesk:
    """Reads and stores what users drop, for the pages of this process."""

    def __init__(self, store: Store, watch: BenchWatch | None = None) -> None:
        self._store = store
        self._watch = watch

    def preview(self, uploads: Sequence[Upload]) -> list[Preview]:
        """What is in the files; nothing is stored."""
        return [self._preview(*upload) for upload in uploads]

    def save(self, uploads: Sequence[Upload], label: str | None) -> int:
        """Store the points and join them to their runs; how many are new."""
        files = [file for upload in uploads if (file := self._look(*upload)) is not None]
        reads: list[BenchRead] = import_bench(self._store, files, label=label)
        bench_link.join(self._store)
        return sum(read.new for read in reads)

    def name_column(self, header: str, column: str, unit: str | None) -> None:
        """Say once what a column of tables made by hand means."""
        bench.map_column(self._store, header, column, unit)

    def join(self) -> int:
        """Look again for the runs of points that have none; how many were found."""
        return bench_link.join(self._store)

    def join_to(self, bench_id: str, run_id: str) -> int:
        """Take a point for one of this run, whatever its clock says; 0 if the run has no samples
        that it could be laid beside."""
        return bench_link.join(self._store, run_ids=[run_id], only=[bench_id])

    def watched(self) -> list[str]:
        """What became of the watched folders, a line each."""
        return self._watch.lines() if self._watch is not None else []

    def _preview(self, name: str, data: bytes) -> Preview:
        try:
            file = self._read(name, data)
        except SourceError as error:
            return Preview(name, "damaged", problem=str(error))
        if file.found is None:
            why = "is empty" if not data.strip() else "holds no benchmark result"
            return Preview(name, "not recognised", problem=f"{name}: {why}")
        points = frame(rows(file.found.points, name))
        with self._store.cursor() as con:
            stored = bench.latest(con, points["bench_id"])
        return Preview(
            name, file.found.format, points, points.height - len(stored), file.found.unread
        )

    def _look(self, name: str, data: bytes) -> BenchFile | None:
        try:
            return self._read(name, data)
        except SourceError:
            return None

    def _read(self, name: str, data: bytes) -> BenchFile:
        return look_at(name, data, maps_of(self._store))
