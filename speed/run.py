#!/usr/bin/env python3
"""How fast everything is, in one run, as tables. `make speed`

Every import is a whole process: start-up and commit are in its time.
"""

from __future__ import annotations

import argparse
import compileall
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from speed import imports  # noqa: E402
from speed.steps import ROOT, machine  # noqa: E402

REPORT = ROOT / "docs" / "performance.md"


def report(*, large: bool) -> Iterator[str]:
    """Everything that is measured, as Markdown; the last line says whether the bars are met."""
    yield "# Performance"
    yield ""
    yield f"Measured by `make speed` on {datetime.now(UTC):%Y-%m-%d}: {machine()}."
    yield ""
    yield "## Import"
    yield ""
    for part in ("data", "ingest", "parsers"):  # as an installed program has it
        compileall.compile_dir(ROOT / part, quiet=1)
    lines, ratio = imports.of_one_log()
    yield from lines
    yield ""
    met = ratio >= imports.BAR
    if large:
        lines, ratio = imports.of_a_large_one()
        yield from lines
        yield ""
        met &= ratio >= imports.MANY_BAR
    yield from imports.of_others()
    yield from ("", imports.BOUNDS.replace("\n", " "))
    yield from ("", "## Catching up with a log on another host", "")
    yield from imports.ssh_catch_up()
    yield from ("", "## From a line on disk to its value on the page", "")
    yield _script("live_latency.py")
    yield from ("", "## Pages of a large store", "")
    yield _script("pages.py")
    yield from ("", f"Bars of the import: {'met' if met else 'not met'}.")


def _script(name: str) -> str:
    """What another measurement prints, run as a process of its own; 1 says a bar is not met."""
    print(f"{name} ...", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, str(HERE / name)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    if done.returncode not in (0, 1):
        done.check_returncode()
    return done.stdout.strip()


def main() -> int:
    """Measure and print; 1 when the import is below its bars."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"store in {REPORT.name} too")
    parser.add_argument("--small", action="store_true", help="leave out the log of a gigabyte")
    options = parser.parse_args()
    text = "\n".join(report(large=not options.small)) + "\n"
    print(text)
    if options.write:
        REPORT.write_text(text, encoding="utf-8")
    return 0 if text.rstrip().endswith(": met.") else 1


if __name__ == "__main__":
    sys.exit(main())
