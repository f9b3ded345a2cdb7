"""Runs all sources: one thread a source, one writer, one alarm clock on their folders."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from data.errors import SourceError, StoreError
from data.store import Store
from ingest import status
from ingest.claims import Claims
from ingest.follower import Follower
from ingest.pipeline import SourceInfo
from ingest.sources.places import place_of, source_id_of
from ingest.status import SourceStatus, StatusBoard
from ingest.writer import Writer

JOIN_S = 15.0  # a host that does not answer must not keep us from ending
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source as the user names it."""

    location: str  # path, folder or glob
    label: str | None = None
    zone: str | None = None

    @property
    def source_id(self) -> str:
        """The absolute location: the same source has the same name in every process."""
        return source_id_of(self.location)


def check(specs: Sequence[SourceSpec]) -> None:
    """SourceError for a source that cannot be followed: nothing there, or no log."""
    for spec in specs:
        with closing(place_of(spec.location)) as place:
            name = place.newest()
            if name is None:
                if place.folder is not None and not place.folder.is_dir():
                    raise SourceError(f"{place.folder}: no such folder; check the path")
                continue  # a log may still appear in the folder
            with closing(place.open(name)) as file:
                file.refuse_binary()


class Supervisor:
    """Follows sources into the store from `start` to `stop`."""

    def __init__(self, store: Store, specs: Iterable[SourceSpec]) -> None:
        self.claims = Claims()
        self._store = store
        self._specs = {spec.source_id: spec for spec in specs}
        self._boards = {
            source_id: StatusBoard(source_id, spec.label) for source_id, spec in self._specs.items()
        }
        self._followers: list[Follower] = []
        self._writer: Writer | None = None
        self._observer = Observer()

    def start(self) -> None:
        """Start following."""
        self._writer = Writer(self._store, retry=True)
        for source_id, spec in self._specs.items():
            place = place_of(spec.location)
            # On a full disk the next start writes it down; the writer tells, and goes on trying.
            with contextlib.suppress(StoreError):
                self._store.add_source(source_id, place.kind, spec.location, spec.label, spec.zone)
            info = SourceInfo(source_id, label=spec.label, zone=spec.zone, salt=self._store.salt)
            follower = Follower(
                info, place, self._store, self._writer, self._boards[source_id], self.claims
            )
            if place.folder is not None:
                self._watch(follower, place.folder)
            self._followers.append(follower)
        self._observer.start()
        for follower in self._followers:
            follower.start()

    def stop(self) -> None:
        """Stop following; what was read and queued is committed first."""
        for follower in self._followers:
            follower.stop()
        self._observer.stop()
        if self._writer is not None:
            self._writer.stop()
        for follower in self._followers:
            follower.join(JOIN_S)
        self._observer.join()
        for board in self._boards.values():
            board.set(state=status.STOPPED)

    def status(self) -> list[SourceStatus]:
        """Every source now, in the order given."""
        error = self._writer.error if self._writer else None
        found = [board.get() for board in self._boards.values()]
        if error is None:
            return found
        return [replace(entry, state=status.ERROR, error=str(error)) for entry in found]

    def tail(self, source_id: str, n: int) -> list[str]:
        """The last n lines of a source, secrets redacted, oldest first."""
        board = self._boards.get(source_id)
        return board.tail(n) if board else []

    def _watch(self, follower: Follower, folder: Path) -> None:
        try:
            self._observer.schedule(_Alarm(follower.wake), folder)
        except OSError as error:
            # Out of inotify watches, or a file system without: looking once a second remains.
            _log.warning("%s: cannot be watched (%s); polling only", folder, error)


class _Alarm(FileSystemEventHandler):
    """Wakes a follower at any change in its folder; the follower looks for itself."""

    def __init__(self, wake: threading.Event) -> None:
        self._wake = wake

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Any change but reading: our own reading would wake us for ever."""
        if event.event_type in ("modified", "created", "moved", "deleted"):
            self._wake.set()
