"""`servescope ingest`: follows sources into a store, without pages, until it is stopped."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from data.errors import StoreError
from data.handing import without_pandas
from data.store import Store
from ingest.config import SourceSpec
from ingest.ending import deadline
from ingest.interrupts import plainly
from ingest.opening import opened, patiently
from ingest.supervisor import Supervisor
from ingest.terminal import warn


def collect(location: str, specs: Sequence[SourceSpec]) -> None:
    """Follow until KeyboardInterrupt; StoreError if another collector has one of the sources.

    Begins as soon as the store can be reached.
    """
    never = threading.Event()
    with (
        plainly(),
        without_pandas(),
        contextlib.ExitStack() as last,
        patiently(lambda: opened(location), warn, never) as store,
    ):
        if store.read_only:
            raise StoreError(
                f"{store.name}: this role of PostgreSQL may only read; a collector needs one that "
                "may write (docs/fleet.md, Credentials)"
            )
        patiently(lambda: _hold(store, specs), warn, never)
        supervisor = Supervisor(store, specs)
        supervisor.start()
        try:
            names = ", ".join(spec.source_id for spec in specs)
            print(f"Servescope: {names} into {store.name} (stop with Ctrl-C)", flush=True)
            never.wait()
        finally:
            last.enter_context(deadline(store))
            supervisor.stop()


def _hold(store: Store, specs: Sequence[SourceSpec]) -> None:
    for source_id in sorted(spec.source_id for spec in specs):  # two of us cannot hold a half each
        store.hold(source_id)
