"""`servescope import`: logs and benchmark files, told apart by what they hold.

What only benchmarks need is loaded where there is one: an import of logs must not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from data import queries
from data.errors import SourceError
from data.store import Store
from ingest.bench_read import BenchFile, Titles, look
from ingest.claims import Claims
from ingest.importer import SETTLED_S, ImportReport, Progress, import_logs
from ingest.leaving_out import left_out
from ingest.sources.address import SSH
from ingest.sources.command import is_command
from ingest.sources.file import expand
from ingest.sources.names import LOGS, shown
from ingest.sources.places import source_id_of

if TYPE_CHECKING:
    from ingest.bench_import import BenchRead
    from parsers.bench.columns import Maps

BENCH_ONLY = (".json", ".jsonl", ".csv", ".tsv", ".md")
_WARMUP = "warmup.json"  # `vllm bench sweep` writes the results of its warm-up beside the others
_MOST_NOTES = 3  # that say the same, before they are told as one
_NO_RESULT = "holds no benchmark result"
_NOTHING_IN_IT = "holds no log file (.log, .txt, .out, .err) and no benchmark result"
_NO_LOG = "no line of an SGLang or vLLM server in it"


@dataclass(slots=True)
class Imported(ImportReport):
    """What an import of logs and benchmark files did."""

    bench: list[BenchRead] = field(default_factory=list)
    joined: int = 0  # points whose run was found


@dataclass(slots=True)
class _Found:
    """Files by what they hold."""

    logs: list[str] = field(default_factory=list)  # on another host: the location as given
    here: list[Path] = field(default_factory=list)  # logs that may hold tables of a benchmark
    bench: list[BenchFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def import_paths(
    store: Store,
    locations: Sequence[str],
    *,
    label: str | None = None,
    zone: str | None = None,
    bench: Sequence[str] = (),
    progress: Progress | None = None,
    claims: Claims | None = None,
    settled_s: float = SETTLED_S,
) -> Imported:
    """Read files, folders and globs into the store; benchmark points are joined to their runs.

    Args:
        store: where to.
        locations: logs and benchmark files, mixed.
        label: a name for the runs and the points.
        zone: of printed stamps.
        bench: benchmark files of these very logs: their points are of the runs in them.
        progress: told how many bytes of logs are read, of how many.
        claims, settled_s: as for `import_logs`.
    """
    found = _sort_out(locations, maps_of(store))
    given = _sort_out(bench, maps_of(store), only_bench=True)
    report = Imported(notes=[*found.notes, *given.notes])
    if found.logs:
        tables = _Tables(found.here, maps_of(store))
        logs = import_logs(
            store, found.logs, label=label, zone=zone, progress=progress, claims=claims,
            beside=tables.look, settled_s=settled_s,
        )  # fmt: skip
        found.bench += (in_logs := tables.found()).bench
        report.notes += in_logs.notes
        held = {shown(file.name) for file in found.bench}
        report.notes += [
            note for note in logs.notes if not (_NO_LOG in note and note.split(": ")[0] in held)
        ]
        for name in ("files", "read_bytes", "lines", "samples", "run_ids"):
            setattr(report, name, getattr(logs, name))
    if found.bench:
        from ingest.bench_import import import_bench

        report.bench = import_bench(store, found.bench, label=label, zone=zone)
    if given.bench:
        _join_given(store, given.bench, found.logs, report, label, zone)
    if report.run_ids or any(read.new for read in report.bench):
        report.joined += _join(store)
    report.notes += [note for read in report.bench for note in read.notes]
    report.notes = _folded(list(map(shown, report.notes)))
    return report


class _Tables:
    """Logs that a benchmark printed its results into: those are stored beside their lines."""

    def __init__(self, logs: Sequence[Path], maps: Callable[[], Maps]) -> None:
        self._left = list(logs)
        self._maps = maps
        self._found = _Found()

    def look(self, name: str, titles: Titles | None = None) -> None:
        """Search one of them, once; `titles`: what was seen of it already."""
        path = Path(name)
        if path not in self._left:
            return
        self._left.remove(path)
        try:
            file = look(path, self._maps, titles=titles)
        except SourceError as error:
            self._found.notes.append(str(error))
            return
        if file.found is not None:
            self._found.bench.append(file)

    def found(self) -> _Found:
        """What is in all of them."""
        for path in list(self._left):
            self.look(str(path))
        return self._found


def _folded(notes: list[str]) -> list[str]:
    """Notes of which many say the same of one file each as one, where the first of them stands."""
    files: dict[str, list[str]] = {}
    for note in notes:
        name, _, text = note.partition(": ")
        files.setdefault(text, []).append(name.rpartition("/")[2])
    many = {text: named for text, named in files.items() if len(named) > _MOST_NOTES}
    told: list[str] = []
    for note in notes:
        text = note.partition(": ")[2]
        if text not in many:
            told.append(note)
        elif named := many[text]:
            first = ", ".join(named[:_MOST_NOTES])
            told.append(f"{len(named)} files: {text} ({first}, …)")
            many[text] = []
    return told


def maps_of(store: Store) -> Callable[[], Maps]:
    """What the user said of columns, read from the store when it is asked for."""

    @cache
    def maps() -> Maps:
        from data import bench

        with store.cursor() as con:
            return bench.maps(con)

    return maps


def _join(store: Store) -> int:
    with store.cursor() as con:
        if not queries.has_bench(con):
            return 0
    from data import bench_link

    return bench_link.join(store)


def _join_given(
    store: Store,
    files: Sequence[BenchFile],
    logs: Sequence[str],
    report: Imported,
    label: str | None,
    zone: str | None,
) -> None:
    """Store results that the user says are of these logs."""
    from data import bench_link
    from ingest.bench_import import import_bench

    with store.cursor() as con:
        run_ids = queries.runs_of_files(con, list(map(source_id_of, logs)))
    if not run_ids:
        raise SourceError("--bench: there is no run in the logs that the results could be of")
    reads = import_bench(store, files, label=label, zone=zone)
    report.bench += reads
    ids = [bench_id for read in reads for bench_id in read.bench_ids]
    report.joined += bench_link.join(store, run_ids=run_ids, only=ids)


def _sort_out(
    locations: Sequence[str], maps: Callable[[], Maps], *, only_bench: bool = False
) -> _Found:
    """Every file of the locations by what it holds; SourceError before anything is stored."""
    found = _Found()
    for location in locations:
        if is_command(location):
            found.logs.append(location)
            continue
        if location.startswith(SSH):
            _sort_out_there(found, location, maps, only_bench)
            continue
        paths = expand(location, (*LOGS, *BENCH_ONLY))
        before = len(found.logs), len(found.bench)
        others: list[Path] = []
        for path in paths:
            if path.name == _WARMUP and len(paths) > 1:
                continue
            with left_out(found.notes, of=len(paths)):
                if not _put(found, look(path, maps, into_logs=only_bench), only_bench):
                    others.append(path)
        if before == (len(found.logs), len(found.bench)) and not found.notes:
            raise SourceError(f"{location}: {_nothing(others, only_bench)}")
        if others:
            found.notes.append(f"{location}: {_passed_over(others)}")
    return found


def _sort_out_there(
    found: _Found, location: str, maps: Callable[[], Maps], only_bench: bool
) -> None:
    """The same of a location on another host. Its logs are read as the one place that it is."""
    from ingest.bench_remote import look_at_all

    looked = look_at_all(location, (*LOGS, *BENCH_ONLY), maps, into_logs=only_bench)
    there = _Found()
    files = [f for f in looked.files if Path(f.name).name != _WARMUP or len(looked.files) == 1]
    others = [Path(file.name) for file in files if not _put(there, file, only_bench)]
    found.bench += there.bench
    found.notes += looked.notes
    if there.logs:
        found.logs.append(location)
    elif not there.bench and not looked.notes:
        raise SourceError(f"{location}: {_NOTHING_IN_IT if not only_bench else _NO_RESULT}")
    if others:
        found.notes.append(f"{location}: {_passed_over(others)}")


def _put(found: _Found, file: BenchFile, only_bench: bool) -> bool:
    """Whether the file is a log, a benchmark's, or both."""
    if file.found is not None:
        found.bench.append(file)
    told = file.found is not None and bool(file.found.points)
    no_log = file.is_transcript or (file.suffix in BENCH_ONLY and not file.is_log)
    bench_only = only_bench or no_log
    if not bench_only and (file.is_log or not told):
        found.logs.append(file.name)
        if file.is_log and file.found is None:
            found.here.append(Path(file.name))
        return True
    return file.found is not None


def _nothing(others: Sequence[Path], only_bench: bool) -> str:
    if only_bench:
        return _NO_RESULT
    if len(others) == 1 and not others[0].stat().st_size:
        return "is empty"
    return _NOTHING_IN_IT


def _passed_over(others: Sequence[Path]) -> str:
    names = ", ".join(path.name for path in others[:5]) + (" …" if len(others) > 5 else "")
    files = "1 file" if len(others) == 1 else f"{len(others)} files"
    return f"{files} with neither a benchmark result nor a log left out ({names})"
