"""A watched folder as a source of benchmark results: what appears or grows there is stored.

The folder lies here, or on another host that is reached as its logs are.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from data import bench_link
from data.errors import ServescopeError, UnreachableError
from data.store import Store
from ingest.backoff import Backoff
from ingest.bench_import import import_bench
from ingest.bench_read import BenchFile, look
from ingest.imports import BENCH_ONLY, maps_of
from ingest.sources.address import SSH
from ingest.sources.file import place
from ingest.sources.names import LOGS

if TYPE_CHECKING:
    from parsers.bench.columns import Maps

EVERY_S = 2.0
EVERY_THERE_S = 5.0  # on another host, which tells times in whole seconds
JOIN_EVERY_S = 20.0
STOP_S = 15.0  # a host that does not answer must not keep us from ending
SUFFIXES = (*LOGS, *BENCH_ONLY)
Mark = tuple[int, int]  # size and time of the last change


class _Place(Protocol):
    """Where results appear."""

    name: str

    def marks(self) -> dict[str, Mark]: ...
    def look(self, name: str, maps: Callable[[], Maps], *, into_logs: bool = ...) -> BenchFile: ...
    def close(self) -> None: ...


class _Here:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    def marks(self) -> dict[str, Mark]:
        """Every file that can hold a result, with its mark."""
        list(self._path.iterdir())  # a folder that is not there has no files: said, not passed over
        found = {}
        for path in self._path.rglob("*"):
            if path.suffix in SUFFIXES and path.is_file() and not path.name.startswith("."):
                status = path.stat()
                found[str(path)] = (status.st_size, status.st_mtime_ns)
        return found

    def look(self, name: str, maps: Callable[[], Maps], *, into_logs: bool = True) -> BenchFile:
        """Read one of the files."""
        return look(Path(name), maps, into_logs=into_logs)

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class _Folder:
    place: _Place
    every_s: float
    seen: dict[str, Mark] = field(default_factory=dict)
    done: dict[str, Mark] = field(default_factory=dict)
    points: int = 0
    problem: str | None = None
    damaged: dict[str, str] = field(default_factory=dict)  # what is wrong with files
    backoff: Backoff = field(default_factory=Backoff)


class BenchWatch:
    """Looks into folders every two seconds, or five on another host, each in a thread of its own.

    A file is read once it has stood still for one look: a result that is being written is left
    alone until it is whole.
    """

    def __init__(self, store: Store, folders: Sequence[str], every_s: float | None = None) -> None:
        """SourceError for what is no address of a folder."""
        self._store = store
        self._folders = [_folder(folder, every_s) for folder in folders]
        self._stop = threading.Event()
        self._turn = threading.Lock()  # to store
        self._threads: list[threading.Thread] = []
        self._joined = store.revision
        self._next_join = 0.0

    def start(self) -> None:
        """Begin to watch."""
        for folder in self._folders:
            thread = threading.Thread(
                target=self._run, args=(folder,), name=f"bench {folder.place.name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End; a file being read here is finished first."""
        self._stop.set()
        for folder in self._folders:
            folder.place.close()
        for thread in self._threads:
            thread.join(STOP_S)

    def __enter__(self) -> BenchWatch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def lines(self) -> list[str]:
        """A line for each folder: how many points came from it, or what is wrong."""
        return [f"{folder.place.name}: {_told(folder)}" for folder in self._folders]

    def _run(self, folder: _Folder) -> None:
        while not self._stop.is_set():
            away = self._look(folder)
            self._join_again()
            self._stop.wait(folder.backoff.next() if away else folder.every_s)

    def _join_again(self) -> None:
        """The log of a point goes on after its result was written: look again when it has."""
        if self._store.revision == self._joined or monotonic() < self._next_join:
            return
        self._joined, self._next_join = self._store.revision, monotonic() + JOIN_EVERY_S
        with contextlib.suppress(ServescopeError), self._turn:  # the next look tries again
            bench_link.join(self._store)

    def look(self) -> None:
        """One look into every folder."""
        for folder in self._folders:
            self._look(folder)

    def _look(self, folder: _Folder) -> bool:
        """One look into a folder; whether its host was out of reach."""
        try:
            marks = folder.place.marks()
            folder.problem = None
            still = [name for name, mark in marks.items() if folder.seen.get(name) == mark]
            for name in still:
                if folder.done.get(name) != marks[name]:
                    self._read(folder, name)
                    folder.done[name] = marks[name]
        except OSError as error:
            folder.problem = f"cannot be read ({error.strerror})"
            return False
        except ServescopeError as error:
            folder.problem = str(error).removeprefix(f"{folder.place.name}: ")
            return isinstance(error, UnreachableError)
        folder.backoff.reset()
        folder.seen = marks
        folder.damaged = {name: text for name, text in folder.damaged.items() if name in marks}
        return False

    def _read(self, folder: _Folder, name: str) -> None:
        """Store what is in a file; UnreachableError if its host is gone, to read it again."""
        folder.damaged.pop(name, None)
        try:
            file = folder.place.look(name, maps_of(self._store))
            if file.found is None:
                return
            with self._turn:
                reads = import_bench(self._store, [file])
                folder.points += sum(read.new for read in reads)
                bench_link.join(self._store)
        except UnreachableError:
            raise
        except ServescopeError as error:
            text = str(error).removeprefix(f"{name}: ")
            folder.damaged[name] = f"{name.rpartition('/')[2]} {text}"


def _folder(location: str, every_s: float | None) -> _Folder:
    if location.startswith(SSH):
        from ingest.bench_remote import RemoteFolder  # paramiko takes a while to load

        return _Folder(RemoteFolder(location, SUFFIXES), every_s or EVERY_THERE_S)
    return _Folder(_Here(place(location)), every_s or EVERY_S)


def _told(folder: _Folder) -> str:
    problem = folder.problem or "; ".join(folder.damaged.values())
    return problem or f"watched, {folder.points} points so far"
