"""Runs all sources: one thread a source, one writer, one alarm clock on their folders."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from watchdog.events import (
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from data.errors import SourceError, StoreError
from data.store import Store
from ingest import status
from ingest.claims import Claims
from ingest.config import Remembered, SourceSpec
from ingest.follower import Follower
from ingest.lines import Line, around
from ingest.pace import Pace
from ingest.pipeline import SourceInfo
from ingest.probe import check, probe
from ingest.sources.command import CommandSource, is_command
from ingest.sources.names import shown
from ingest.sources.places import place_of
from ingest.status import SourceStatus, StatusBoard
from ingest.stream import StreamFollower
from ingest.worker import Worker
from ingest.writer import Writer

# What may be news of a log. Opening and closing are none, and our own reading does both.
NEWS: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
JOIN_S = 15.0  # a host that does not answer must not keep us from ending
_log = logging.getLogger(__name__)


class Supervisor:
    """Follows sources into the store from `start` to `stop`. Any thread may call it."""

    def __init__(
        self, store: Store, specs: Iterable[SourceSpec], remembered: Remembered | None = None
    ) -> None:
        """`remembered`: the sources that were added on the page, which are followed as well."""
        self.claims = Claims()
        self._pace = Pace()
        self._store = store
        self._remembered = remembered
        self._specs = {spec.source_id: spec for spec in specs}
        self._added: set[str] = set()  # on the page, not by the command line or a configuration
        if remembered is not None:
            self._added = {spec.source_id for spec in remembered.specs()} - set(self._specs)
            self._specs |= {
                s.source_id: s for s in remembered.specs() if s.source_id not in self._specs
            }
        self._boards = {
            source_id: _board(source_id, spec) for source_id, spec in self._specs.items()
        }
        self._workers: dict[str, Worker] = {}
        self._writer: Writer | None = None
        self._observer: BaseObserver | None = None
        self._alarms: dict[Path, _Alarm] = {}
        self._lock = threading.RLock()

    def start(self) -> None:
        """Start following."""
        self._writer = Writer(self._store, retry=True)
        self._observer = _observer()
        with self._lock:
            for source_id, spec in self._specs.items():
                if not spec.paused:
                    self._begin(source_id, spec)

    def stop(self) -> None:
        """Stop following; what was read and queued is committed first."""
        with self._lock:
            workers = list(self._workers.values())
            self._workers.clear()
        for worker in workers:
            worker.stop()
        if self._observer is not None:
            self._observer.stop()
        if self._writer is not None:
            self._writer.stop()
        for worker in workers:
            worker.join(JOIN_S)
        if self._observer is not None:
            self._observer.join()
        for board in self._boards.values():
            board.set(state=status.STOPPED)

    def status(self) -> list[SourceStatus]:
        """Every source now, in the order given."""
        error = (self._writer.error if self._writer else None) or self._store.overdue
        found = [board.get() for board in list(self._boards.values())]
        if error is None:
            return found
        return [
            replace(entry, state=status.ERROR, error=str(error))
            if entry.state != status.PAUSED
            else entry
            for entry in found
        ]

    def tail(self, source_id: str, n: int) -> list[str]:
        """The last n lines of a source, secrets redacted, oldest first."""
        return [line.text for line in self.lines(source_id, n)]

    def lines(self, source_id: str, n: int) -> list[Line]:
        """The same with the places of the lines."""
        board = self._boards.get(source_id)
        return board.lines(n) if board else []

    def around(self, file_id: str, byte_offset: int, line_no: int) -> list[Line]:
        """The lines around a place, out of the file as it lies: see `ingest.lines.around`."""
        return around(self._store, file_id, byte_offset, line_no)

    def test(self, location: str) -> dict[str, Any]:
        """Look at a source without storing anything: see `ingest.probe.probe`."""
        return probe(location)

    def add(
        self, location: str, label: str | None = None, zone: str | None = None,
        tags: Sequence[str] = (),
    ) -> str:  # fmt: skip
        """Follow one more source from now on, after the next start too; gives its id."""
        spec = SourceSpec(location, label, zone, tuple(tags))
        source_id = spec.source_id
        with self._lock:
            if source_id in self._specs:
                raise SourceError(f"{source_id}: is followed already")
            check(spec)
            self._specs[source_id] = spec
            self._boards[source_id] = _board(source_id, spec)
            self._added.add(source_id)
            self._remember(spec)
            self._begin(source_id, spec)
        return source_id

    def pause(self, source_id: str) -> None:
        """Stop reading a source; it goes on at the same byte when it is resumed."""
        self._change(source_id, paused=True)
        self._end(source_id)
        self._boards[source_id].set(state=status.PAUSED, error=None, retry_at=None)

    def resume(self, source_id: str) -> None:
        """Read on."""
        spec = self._change(source_id, paused=False)
        with self._lock:
            if source_id not in self._workers:
                self._boards[source_id].set(state=status.WAITING)
                self._begin(source_id, spec)

    def remove(self, source_id: str) -> None:
        """Follow a source no longer. What is stored of it stays."""
        self._end(source_id)
        with self._lock:
            self._specs.pop(source_id, None)
            self._boards.pop(source_id, None)
            if self._remembered is not None:
                self._remembered.forget(source_id)

    def _change(self, source_id: str, *, paused: bool) -> SourceSpec:
        with self._lock:
            if source_id not in self._specs:
                raise SourceError(f"{source_id}: is not followed")
            spec = self._specs[source_id] = replace(self._specs[source_id], paused=paused)
            self._remember(spec)
        return spec

    def _remember(self, spec: SourceSpec) -> None:
        if self._remembered is not None and spec.source_id in self._added:
            self._remembered.keep(spec)

    def _end(self, source_id: str) -> None:
        with self._lock:
            worker = self._workers.pop(source_id, None)
        if worker is not None:
            worker.stop()
            worker.join(JOIN_S)

    def _begin(self, source_id: str, spec: SourceSpec) -> None:
        assert self._writer is not None
        info = SourceInfo(source_id, label=spec.label, zone=spec.zone, salt=self._store.salt)
        board = self._boards[source_id]
        worker: Worker
        if is_command(spec.location) or spec.location == "-":
            command = CommandSource.parse(spec.location) if spec.location != "-" else None
            kind = str(command.kind) if command else "stdin"
            worker = StreamFollower(info, command, self._store, self._writer, board)
        else:
            place = place_of(spec.location)
            kind = place.kind
            worker = Follower(
                info, place, self._store, self._writer, board, self.claims, self._pace
            )
            if place.folder is not None:
                self._watch(worker, place.folder, place.watched)
        # On a full disk the next start writes it down; the writer tells, and goes on trying.
        with contextlib.suppress(StoreError):
            location = shown(spec.location)
            self._store.add_source(source_id, kind, location, spec.label, spec.zone)
        self._workers[source_id] = worker
        worker.start()

    def _watch(self, worker: Worker, folder: Path, name: str | None) -> None:
        """`name`: of the one file that matters; None: every file of the folder does."""
        alarm = self._alarms.get(folder)
        if alarm is None:
            alarm = self._alarms[folder] = _Alarm()
            try:
                if self._observer is not None:
                    self._observer.schedule(alarm, str(folder), event_filter=NEWS)
            except FileNotFoundError:
                pass  # the folder may come yet; it is looked for once a second
            except OSError as error:
                # Out of inotify watches, or a file system without: looking once a second remains.
                _log.warning("%s: cannot be watched (%s); polling only", folder, error)
        alarm.wakes.setdefault(name, []).append(worker.wake)


def _observer() -> BaseObserver | None:
    try:
        observer = Observer()
        observer.start()
    except OSError as error:  # a user may have 128 instances of inotify, of all programs
        _log.warning("nothing can be watched (%s); polling only", error)
        return None
    return observer


def _board(source_id: str, spec: SourceSpec) -> StatusBoard:
    board = StatusBoard(source_id, spec.label)
    board.set(tags=spec.tags)
    if spec.paused:
        board.set(state=status.PAUSED)
    return board


class _Alarm(FileSystemEventHandler):
    """Wakes the followers of a folder at a change in it; they look for themselves. One for all of
    a folder: fifty logs beside each other would else wake each other with every line.

    Attributes:
        wakes: by the name of the file that is followed; None: any file.
    """

    def __init__(self) -> None:
        self.wakes: dict[str | None, list[threading.Event]] = {}

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Any of `NEWS`."""
        paths = (os.fsdecode(event.src_path), os.fsdecode(event.dest_path or ""))
        for name in {None, *(path.rpartition("/")[2] for path in paths)}:
            for wake in self.wakes.get(name, ()):
                wake.set()
