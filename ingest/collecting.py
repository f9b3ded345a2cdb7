"""`servescope ingest`: follows sources into a store, without pages, until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ingest.config import SourceSpec
from ingest.opening import opened
from ingest.supervisor import Supervisor


def collect(location: str, specs: Sequence[SourceSpec]) -> None:
    """Follow until KeyboardInterrupt; StoreError if another collector has one of the sources."""
    with opened(location) as store:
        for spec in specs:
            store.hold(spec.source_id)
        supervisor = Supervisor(store, specs)
        supervisor.start()
        try:
            names = ", ".join(spec.source_id for spec in specs)
            print(f"Servescope: {names} into {store.name} (stop with Ctrl-C)", flush=True)
            threading.Event().wait()
        finally:
            supervisor.stop()
