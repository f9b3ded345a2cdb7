"""A store whose names are markup, terminal escapes, formulas and text that runs backwards."""

from __future__ import annotations

from pathlib import Path

from data.store import Store
from ingest.importer import import_logs
from tests import capped
from tests.pages import HOSTILE

NAMES = dict(zip(("html", "markdown", "formula", "terminal"), HOSTILE, strict=True))


def fill(store: Store, folder: Path) -> None:
    """Runs with such names; the first is without speculation, the others speculate."""
    for nth, (kind, name) in enumerate(NAMES.items()):
        log = folder / kind / "server.log"
        log.parent.mkdir(parents=True)
        lines = capped.base() if not nth else capped.speculative(1.2 + nth / 2)
        lines = [line.replace("org/moe-547b", f"org/<i>{kind}</i>") for line in lines]
        log.write_text("\n".join(lines) + "\n")
        import_logs(store, [str(log)], label=name)
