"""A watched folder as a source of benchmark results: what appears or grows there is stored."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from data import bench_link
from data.errors import ServescopeError
from data.store import Store
from ingest.bench_import import import_bench
from ingest.bench_read import look
from ingest.imports import BENCH_ONLY, maps_of
from ingest.sources.file import place
from ingest.sources.names import LOGS

EVERY_S = 2.0
JOIN_EVERY_S = 20.0
SUFFIXES = (*LOGS, *BENCH_ONLY)
Mark = tuple[int, int]  # size and time of the last change


@dataclass(slots=True)
class _Folder:
    path: Path
    seen: dict[Path, Mark] = field(default_factory=dict)
    done: dict[Path, Mark] = field(default_factory=dict)
    points: int = 0
    problem: str | None = None


class BenchWatch:
    """Looks into folders every two seconds, in a thread of its own.

    A file is read once it has stood still for one look: a result that is being written is left
    alone until it is whole.
    """

    def __init__(self, store: Store, folders: Sequence[str], every_s: float = EVERY_S) -> None:
        self._store = store
        self._folders = [_Folder(place(folder)) for folder in folders]
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._joined = store.revision
        self._next_join = 0.0

    def start(self) -> None:
        """Begin to watch."""
        if self._folders:
            self._thread = threading.Thread(target=self._run, name="bench watch", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End; a file being read is finished first."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> BenchWatch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def lines(self) -> list[str]:
        """A line for each folder: how many points came from it, or what is wrong."""
        return [
            f"{folder.path}: {folder.problem or f'watched, {folder.points} points so far'}"
            for folder in self._folders
        ]

    def _run(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._join_again()
            self._stop.wait(self._every_s)

    def _join_again(self) -> None:
        """The log of a point goes on after its result was written: look again when it has."""
        if self._store.revision == self._joined or monotonic() < self._next_join:
            return
        self._joined, self._next_join = self._store.revision, monotonic() + JOIN_EVERY_S
        with contextlib.suppress(ServescopeError):  # the next look tries again
            bench_link.join(self._store)

    def look(self) -> None:
        """One look into every folder."""
        for folder in self._folders:
            try:
                marks = _marks(folder.path)
            except OSError as error:
                folder.problem = f"cannot be read ({error.strerror})"
                continue
            folder.problem = None
            still = [path for path, mark in marks.items() if folder.seen.get(path) == mark]
            for path in still:
                if folder.done.get(path) != marks[path]:
                    folder.done[path] = marks[path]
                    self._read(folder, path)
            folder.seen = marks

    def _read(self, folder: _Folder, path: Path) -> None:
        try:
            file = look(path, maps_of(self._store))
            if file.found is None:
                return
            reads = import_bench(self._store, [file])
            folder.points += sum(read.new for read in reads)
            bench_link.join(self._store)
        except ServescopeError as error:
            folder.problem = str(error).removeprefix(f"{path}: ")
            folder.problem = f"{path.name} {folder.problem}"


def _marks(folder: Path) -> dict[Path, Mark]:
    """Every file that can hold a result, with its mark; OSError if the folder cannot be read."""
    list(folder.iterdir())  # a folder that is not there has no files: said, not passed over
    found = {}
    for path in folder.rglob("*"):
        if path.suffix in SUFFIXES and path.is_file() and not path.name.startswith("."):
            status = path.stat()
            found[path] = (status.st_size, status.st_mtime_ns)
    return found
