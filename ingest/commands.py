"""What the commands do, once: called in this process, or by the control route of a running one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import polars as pl

from data import queries
from data.errors import CommandError
from data.question import select
from data.store import Store
from ingest.claims import Claims
from ingest.sources.file import place
from ingest.status import SourceStatus

EXPORTS = ("runs", "samples", "events")


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

    def export(self, what: str, runs: Sequence[str]) -> pl.DataFrame:
        """All rows of runs, samples or events, of these runs or of all."""
        if what not in EXPORTS:
            raise CommandError(f"{what!r} cannot be exported; choose {', '.join(EXPORTS)}")
        with self._store.cursor() as con:
            return queries.exported(con, what, [queries.find_runs(con, run)[0] for run in runs])

    def sql(self, query: str, limit: int, timeout_s: float) -> pl.DataFrame:
        """The rows of one SELECT: `limit` of them and, where there are more, one on top."""
        with self._store.cursor() as con:
            return select(con, query, limit, timeout_s)

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
        progress: Callable[[int, int], object] | None = None,
    ) -> dict[str, Any]:
        """Import files, folders and globs; what was done."""
        from ingest.importer import import_logs

        claims = self._supervisor.claims if self._supervisor else Claims()
        return asdict(
            import_logs(
                self._store, locations, label=label, zone=zone, progress=progress, claims=claims
            )
        )


def absolute(location: str) -> str:
    """A location as another process, in another folder, must get it."""
    return str(place(location))
