"""Benchmark results on another host: read where they lie, nothing is run or copied there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingest.bench_read import TEXT_BYTES, BenchFile, look_into
from ingest.leaving_out import left_out
from ingest.sources.places import place_of

if TYPE_CHECKING:
    from ingest.sources.ssh_place import SshPlace
    from parsers.bench.columns import Maps

Mark = tuple[int, int]  # size and time of the last change


@dataclass(slots=True)
class Looked:
    """What the files of a location hold."""

    files: list[BenchFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class RemoteFolder:
    """A folder, a glob or a file behind `ssh://host/`."""

    def __init__(self, location: str, suffixes: Sequence[str]) -> None:
        """SourceError if the address is none."""
        place = place_of(location)
        self._place: SshPlace = place  # type: ignore[assignment]  # the only one behind ssh://
        self._suffixes = tuple(suffixes)
        self.name = place.source_id

    def marks(self) -> dict[str, Mark]:
        """Every file that can hold a result, with its mark."""
        found = self._place.entries(self._suffixes)
        return {entry.name: (entry.size, entry.changed_ns) for entry in found}

    def look(self, name: str, maps: Callable[[], Maps], *, into_logs: bool = False) -> BenchFile:
        """Read one of the files. A long log is fetched for its lines alone, not once more for
        tables in it, unless `into_logs`."""
        with closing(self._place.open(name)) as file:
            short = file.complete or file.size() <= TEXT_BYTES
            return look_into(file, name, maps, into_logs=into_logs or short)

    def close(self) -> None:
        """Hang up; may be called from another thread, to end a wait."""
        self._place.close()


def look_at_all(
    location: str, suffixes: Sequence[str], maps: Callable[[], Maps], *, into_logs: bool
) -> Looked:
    """Look into every file of a location, those written first before the others.

    SourceError where the host cannot be asked, or where the only file cannot be read.
    """
    looked = Looked()
    with closing(RemoteFolder(location, suffixes)) as folder:
        marks = folder.marks()
        for name in sorted(marks, key=lambda name: (marks[name][1], name)):
            with left_out(looked.notes, of=len(marks)):
                looked.files.append(folder.look(name, maps, into_logs=into_logs))
    return looked
