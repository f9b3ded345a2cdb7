"""What the pages look at: the store and the supervisor of this process.

Streamlit runs the page script anew for every visit, in threads of the server's process; this
is where the script finds what `build_app` was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import polars as pl

from dashboard.access import NOBODY_ELSE, Access
from data.store import Store


class SourceStatus(Protocol):
    """How the reading of one source is doing, as the supervisor reports it."""

    @property
    def source_id(self) -> str: ...  # its absolute location
    @property
    def label(self) -> str | None: ...
    @property
    def run_id(self) -> str | None: ...  # the run being written
    @property
    def state(self) -> str: ...  # one of those of sentences.reading
    @property
    def percent(self) -> float | None: ...  # of a file being caught up with
    @property
    def last_line_at(self) -> datetime | None: ...  # arrival of the last line, UTC
    @property
    def lag_bytes(self) -> int: ...
    @property
    def unfinished_line(self) -> bool: ...
    @property
    def behind_since(self) -> datetime | None: ...  # since when there is such a lag, UTC
    @property
    def retry_at(self) -> datetime | None: ...  # when its host is tried again, UTC
    @property
    def path(self) -> str | None: ...  # the file being read
    @property
    def error(self) -> str | None: ...
    @property
    def tags(self) -> Sequence[str]: ...


class LogLine(Protocol):
    """A line of a log, secrets redacted."""

    @property
    def text(self) -> str: ...
    @property
    def file_id(self) -> str | None: ...  # None: not known
    @property
    def line_no(self) -> int | None: ...  # from 1


class Supervisor(Protocol):
    """The part of the ingest supervisor that the pages need."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def status(self) -> Sequence[SourceStatus]: ...
    def lines(self, source_id: str, n: int) -> Sequence[LogLine]: ...  # the last ones
    def around(self, file_id: str, byte_offset: int, line_no: int) -> Sequence[LogLine]: ...
    def test(self, location: str) -> Mapping[str, Any]: ...  # a look; nothing is stored
    def add(
        self, location: str, label: str | None, zone: str | None, tags: Sequence[str]
    ) -> str: ...
    def pause(self, source_id: str) -> None: ...
    def resume(self, source_id: str) -> None: ...
    def remove(self, source_id: str) -> None: ...


class Preview(Protocol):
    """A benchmark's file as it would be stored."""

    @property
    def name(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def points(self) -> pl.DataFrame: ...  # parsers.records.BENCH_RESULTS
    @property
    def new(self) -> int: ...
    @property
    def unread(self) -> Sequence[str]: ...  # columns that nobody has named
    @property
    def problem(self) -> str | None: ...


class BenchDesk(Protocol):
    """What the Bench page does with files; uploads are pairs of a name and bytes."""

    def preview(self, uploads: Sequence[tuple[str, bytes]]) -> Sequence[Preview]: ...
    def save(self, uploads: Sequence[tuple[str, bytes]], label: str | None) -> int: ...
    def name_column(self, header: str, column: str, unit: str | None) -> None: ...
    def join_to(self, bench_id: str, run_id: str) -> int: ...
    def join(self) -> int: ...
    def watched(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Context:
    """The store and the supervisor of this process."""

    store: Store
    supervisor: Supervisor
    bench: BenchDesk | None = None  # None: results are shown, none are taken in
    access: Access = NOBODY_ELSE  # who is let in from other machines


_current: list[Context] = []


def enter(context: Context) -> None:
    """Make this the context of every page from now on."""
    _current[:] = [context]


def current() -> Context:
    """The context that `enter` was given last."""
    return _current[0]
