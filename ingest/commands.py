"""What the commands do, once: called in this process, or by the control route of a running one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from data import queries, run_curves
from data.errors import CommandError
from data.question import select
from data.store import Store
from ingest.claims import Claims
from ingest.status import SourceStatus

if TYPE_CHECKING:
    from data.run_data import RunData

EXPORTS = ("runs", "samples", "events", "bench_results")
EVERYTHING = (*EXPORTS, "comparison")


class Following(Protocol):
    """Who follows the sources of this process."""

    claims: Claims

    def status(self) -> list[SourceStatus]: ...


class Commands:
    """The commands over an open store."""

    def __init__(self, store: Store, supervisor: Following | None = None) -> None:
        self._store = store
        self._supervisor = supervisor

    def runs(self) -> pl.DataFrame:
        """One row a run, newest first."""
        with self._store.cursor() as con:
            return queries.runs_table(con)

    def find(self, run: str) -> list[str]:
        """The runs that an id, a label or a file means, newest first."""
        with self._store.cursor() as con:
            return queries.find_runs(con, run)

    def show(self, run: str) -> dict[str, Any]:
        """The card and the summary of one run."""
        with self._store.cursor() as con:
            card = queries.run_card(con, queries.find_runs(con, run)[0])
        assert card is not None
        return card

    def export(self, what: str, runs: Sequence[str], every_s: float | None = None) -> pl.DataFrame:
        """All rows of runs, samples, events or bench_results, of these runs or of all.

        `every_s`: samples as curves, one row per interval of so many seconds.
        """
        if what not in EXPORTS:
            raise CommandError(f"{what!r} cannot be exported; choose {', '.join(EVERYTHING)}")
        if every_s is not None and what != "samples":
            raise CommandError(f"--every: {what} have no intervals; it is for samples")
        with self._store.cursor() as con:
            run_ids = [queries.find_runs(con, run)[0] for run in runs]
            if every_s is not None:
                return run_curves.series_of_runs(con, run_ids, every_s)
            return queries.exported(con, what, run_ids)

    def bench(self, runs: Sequence[str]) -> pl.DataFrame:
        """The benchmark points, of these runs or of all; what has no run yet is joined first."""
        from data import bench, bench_link

        if not self._store.read_only:
            bench_link.join(self._store)
        with self._store.cursor() as con:
            return bench.points(con, [queries.find_runs(con, run)[0] for run in runs])

    def map_bench(self, meanings: Sequence[Sequence[str | None]]) -> dict[str, Any]:
        """Say what columns of tables made by hand mean, and read the tables again.

        `meanings`: header, column of a benchmark and unit (or None) of each.
        """
        from data import bench
        from ingest.imports import import_paths

        paths: list[str] = []
        for header, column, unit in meanings:
            bench.map_column(self._store, str(header), str(column), unit)
            with self._store.cursor() as con:
                paths += bench.files_with(con, str(header))
        there = [path for path in dict.fromkeys(paths) if Path(path).is_file()]
        return asdict(import_paths(self._store, there)) if there else {}

    def compare(self, names: Sequence[str], form: str) -> str:
        """Runs of the store and files against the first of them, in a form of `answer`."""
        from ingest.comparing import answer, compare_all

        return answer(compare_all(names, self._runs_named), form)

    def findings(self, run: str | None, form: str) -> str:
        """What the rules find in a run, or in the latest one, in a form of data.findings.text."""
        from data import run_data
        from data.baseline import find_base
        from data.findings.rules import findings
        from data.findings.text import render

        with self._store.cursor() as con:
            run_ids = queries.find_runs(con, run)[:1] if run else queries.runs_named(con)["run_id"]
            if not len(run_ids):
                raise CommandError("no runs yet; `servescope import PATH` brings some")
            found = run_data.load(con, run_ids[0])
            base = find_base(con, found)
        return render([(found, findings(found, base))], form)

    def _runs_named(self, name: str) -> list[RunData]:
        """Every run that a name means: starts of one label are compared together."""
        from data import run_data

        with self._store.cursor() as con:
            try:
                found = queries.find_runs(con, name)
            except CommandError as error:
                if "/" not in name:
                    raise
                raise CommandError(f"{name}: no such file, and no run is called so") from error
            return [run_data.load(con, run_id) for run_id in found]

    def sql(self, query: str, limit: int, timeout_s: float) -> pl.DataFrame:
        """The rows of one SELECT: `limit` of them and, where there are more, one on top."""
        with self._store.cursor() as con:
            return select(con, query, limit, timeout_s)

    def compact(self, keep_days: float) -> dict[str, Any]:
        """Roll up samples older than so many days by minute; what was done."""
        from data.retention import compact

        return asdict(compact(self._store, keep_days))

    def status(self) -> list[dict[str, Any]]:
        """How the sources are doing; empty when nothing is followed."""
        if self._supervisor is None:
            return []
        return [asdict(entry) for entry in self._supervisor.status()]

    def import_logs(
        self,
        locations: Sequence[str],
        label: str | None,
        zone: str | None,
        progress: Callable[[int, int, int], object] | None = None,
        bench: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Import logs and benchmark files, folders and globs; what was done.

        `bench`: results that the runs of these logs gave.
        """
        from ingest.imports import import_paths

        claims = self._supervisor.claims if self._supervisor else Claims()
        report = import_paths(
            self._store, locations, label=label, zone=zone, bench=bench,
            progress=progress, claims=claims,
        )  # fmt: skip
        return asdict(report)
