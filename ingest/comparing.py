"""What `compare` is asked for: runs of the store, or logs that are read for this once.

A log and its benchmark files are imported into a store of their own in a temporary folder, by the
same code as any other.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from data import export, report, run_data
from data.compare import Comparison, compare, grouped
from data.errors import CommandError, SourceError
from data.handing import without_pandas
from data.run_data import RunData
from data.store import Store
from ingest.imports import import_paths
from ingest.sources.file import place

PAGES = ("html", "svg")
_PREFIX = "servescope-compare-"
Named = list[tuple[str | None, RunData]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One argument of `compare`."""

    text: str
    label: str | None = None  # as the user gave it here
    log: Path | None = None  # None: a run of the store
    bench: tuple[Path, ...] = ()  # results of benchmarks against that very server


def wanted(text: str) -> Wanted:
    """What an argument means: RUN, or PATH or LABEL=LOG with +BENCH for each result file."""
    found = _files(text)
    if found is not None:
        return Wanted(text, None, *found)
    pieces = text.split("=")
    if len(pieces) == 1:
        return Wanted(text)
    for n in range(1, len(pieces)):  # a label may hold a "=", and so may the name of a log
        found = _files("=".join(pieces[n:]))
        if found is not None:
            return Wanted(text, "=".join(pieces[:n]) or None, *found)
    label, _, rest = text.partition("=")
    raise SourceError(f"{rest.partition('+')[0]}: no such file; check the path behind {label}=")


def _files(text: str) -> tuple[Path, tuple[Path, ...]] | None:
    """The log and the result files; None if there is no such log. A name may hold a "+"."""
    if place(text).exists():
        return place(text), ()
    pieces = text.split("+")
    for n in range(len(pieces) - 1, 0, -1):
        name = "+".join(pieces[:n])
        if name and (log := place(name)).exists():  # a label may begin with a "+"
            return log, tuple(_results(pieces[n:]))
    return None


def _results(pieces: Sequence[str]) -> Iterator[Path]:
    """The result files between the plus signs; the shortest names that exist."""
    begun: list[str] = []
    for piece in pieces:
        begun.append(piece)
        path = place("+".join(begun))
        if path.exists():
            yield path
            begun = []
    if begun:
        raise SourceError(f"{'+'.join(begun)}: no such benchmark file; check the path behind +")


def not_a_file(texts: Sequence[str]) -> str | None:
    """The first that a store is needed for; None if all are files."""
    return next((text for text in texts if wanted(text).log is None), None)


def absolute(text: str) -> str:
    """An argument as another process, in another folder, must get it."""
    found = wanted(text)
    if found.log is None:
        return text
    files = "+".join(map(str, (found.log, *found.bench)))
    return f"{found.label}={files}" if found.label else files


def compare_all(
    texts: Sequence[str], stored: Callable[[str], Sequence[RunData]] | None = None
) -> Comparison:
    """The runs that these arguments mean, all against the first.

    Args:
        stored: gives the runs of the store that a name means; None: only files are asked for.
    """
    named: Named = []
    notes: list[str] = []
    with contextlib.ExitStack() as closing:
        once = Once(closing)
        for text in texts:
            found = wanted(text)
            if found.log is not None:
                runs = once.read(found.log, found.bench, notes)
            else:
                assert stored is not None
                runs = list(stored(text))
            named += [(found.label, run) for run in _with_lines(runs, text, notes)]
    groups = grouped(named)
    if len(groups) < 2:
        raise CommandError(
            f"{', '.join(texts)}: starts of one configuration; give another one to compare with"
        )
    return compare(groups, notes)


def _with_lines(runs: list[RunData], name: str, notes: list[str]) -> list[RunData]:
    """The runs that printed samples; the others, such as failed starts, are said."""
    useful = [run for run in runs if run.windows.height]
    if not useful:
        raise CommandError(f"{name}: has no decode or stats line, so there is nothing to compare")
    if len(useful) < len(runs):
        n = len(runs) - len(useful)
        notes.append(f"{name}: {n} start{'s' if n > 1 else ''} without any sample left out")
    return useful


def answer_of_files(texts: Sequence[str], form: str) -> str:
    """The comparison of files as text, in a process that does nothing else."""
    with without_pandas():
        return answer(compare_all(texts), form)


def answer(comparison: Comparison, form: str) -> str:
    """The comparison as text: a form of data.report, `html`, `svg`, or `rows` (JSON)."""
    if form in report.FORMS:
        return report.render(comparison, form)
    if form == "rows":
        return report.rows(comparison).write_json()
    from data import charts, html, pictures  # a chart library: half a second, only for these

    if form == "html":
        return html.page(comparison)
    return pictures.svg(charts.comparison_chart(comparison).to_dict())


def as_file(text: str, form: str) -> bytes:
    """What `answer` gave, as the content of a file: of `svg` also a PNG, of `rows` any table."""
    if form in PAGES:
        return text.encode()
    if form == "png":
        from data import pictures

        return pictures.png(text)
    frame = pl.read_json(io.StringIO(text), schema=report.ROWS)
    return export.render(frame, form)


def asked_as(form: str) -> str:
    """The form of `answer` that a file of this form is made from."""
    return form if form in PAGES else "svg" if form == "png" else "rows"


class Once:
    """Reads logs through one store in a temporary folder, made when the first is asked for."""

    def __init__(self, closing: contextlib.ExitStack) -> None:
        self._closing = closing
        self._store: Store | None = None
        self._read: dict[Path, list[str]] = {}  # run_ids of a log or folder

    def read(self, log: Path, bench: Sequence[Path], notes: list[str]) -> list[RunData]:
        """The runs of a log or folder with the points of its benchmarks."""
        if self._store is None:
            folder = self._closing.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX))
            opened = Store.open(Path(folder) / "once.duckdb", bulk=True)
            self._store = self._closing.enter_context(opened)
        if log not in self._read or bench:
            results = [str(path) for path in bench]
            # Nobody will read on: what is there of a last line is all that there will be.
            report = import_paths(self._store, [str(log)], bench=results, settled_s=0.0)
            notes += report.notes
            self._read.setdefault(log, report.run_ids)
        with self._store.cursor() as con:
            return [run_data.load(con, run_id) for run_id in self._read[log]]
