"""A store whose names are markup, terminal escapes, formulas and text that runs backwards."""

from __future__ import annotations

from pathlib import Path

from data.store import Store
from ingest.importer import import_logs
from tests import capped

NAMES = {
    "html": "<img src=x onerror=alert(1)><b>bold</b>",
    "markdown": "**bold** [link](javascript:alert(1)) `code` $x^2$ :red[no]",
    "ansi": "\x1b[31mred\x1b[0m\x07 bell",
    "backwards": "\u202egnp.exe\u202c \u05e9\u05dc\u05d5\u05dd",
    "formula": '=HYPERLINK("http://x";"y")',
}


def fill(store: Store, folder: Path) -> None:
    """Five runs with such names; the first is the baseline, the others speculate."""
    for nth, (kind, name) in enumerate(NAMES.items()):
        log = folder / kind / "server.log"
        log.parent.mkdir(parents=True)
        lines = capped.base() if not nth else capped.speculative(1.2 + nth / 2)
        lines = [line.replace("org/moe-547b", f"org/<i>{kind}</i>") for line in lines]
        log.write_text("\n".join(lines) + "\n")
        import_logs(store, [str(log)], label=name)
