"""Logs that are followed into a store, and what of them is stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data.store import Store
from ingest.config import SourceSpec
from ingest.supervisor import Supervisor


@contextmanager
def following(store: Store, *locations: Path | str) -> Iterator[Supervisor]:
    """Follow these until the block ends."""
    supervisor = Supervisor(store, [SourceSpec(str(location)) for location in locations])
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


def state(supervisor: Supervisor) -> str:
    """How the first of its sources is doing."""
    return supervisor.status()[0].state


def numbers(store: Store) -> list[int]:
    """The numbers of all stored lines of tests.growing, in the order of their times."""
    with store.cursor() as con:
        rows = con.execute("SELECT kv_tokens FROM samples ORDER BY ts, kv_tokens").fetchall()
    return [row[0] for row in rows]


def kinds(store: Store) -> list[str]:
    """What reading has noticed."""
    with store.cursor() as con:
        return [row[0] for row in con.execute("SELECT kind FROM ingest_log").fetchall()]
