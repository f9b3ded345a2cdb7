"""The pages of ever larger stores: `python -m tests.soak.big [FOLDER]`.

Three stores, of 20 runs and 1 million samples, of 200 and 10 million, and of 2,000 and 100 million
(2.5 GB), are made in a temporary folder, or once in FOLDER, where they stay. Every page is then
asked of each, as speed/pages.py does it. A tenth of the samples, but a million at most, is in one
run, which Live follows.
The exit code is 1 if on any of them Runs or Compare pass a second, or Live passes its bars.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from speed import pages
from speed.pages import Measured

SIZES = ((20, 1_000_000), (200, 10_000_000), (2_000, 100_000_000))  # runs, samples
BARRED = ("Runs", "Compare, two runs")  # first answers that have to keep their bar here


def first_s(one: Measured) -> dict[str, float]:
    """The median of each page's first answers."""
    return {
        page: statistics.median(took.clock for took in times) for page, times in one.first
    }  # fmt: skip


def refreshes_ms(one: Measured) -> dict[str, float]:
    """Live while lines are stored, and while none are: median and 95th percentile."""
    changed = [1000 * took.clock for took in one.changed]
    told = {}
    for words, times in (("a second of lines stored", changed), ("nothing new", one.unchanged_ms)):
        told[f"Live again, {words}, median"] = statistics.median(times)
        told[f"Live again, {words}, 95th percentile"] = statistics.quantiles(times, n=20)[-1]
    return told


def growth(found: Sequence[Measured]) -> Iterator[str]:
    """What each page takes on each store, as a Markdown table."""
    heads = " | ".join(f"{one.samples:,} samples, {one.runs:,} runs" for one in found)
    yield f"| | {heads} | times |"
    yield f"| --- |{' ---: |' * (len(found) + 1)}"
    yield _row("samples of the longest run", [one.longest for one in found], "{:,.0f}")
    yield _row("store, MB", [one.size_bytes / 1e6 for one in found], "{:,.0f}")
    for page in first_s(found[0]):
        yield _row(f"{page}, s", [first_s(one)[page] for one in found], "{:.2f}")
    for words in refreshes_ms(found[0]):
        yield _row(f"{words}, ms", [refreshes_ms(one)[words] for one in found], "{:.0f}")


def _row(words: str, values: Sequence[float], form: str) -> str:
    times = values[-1] / values[0] if values[0] else 0.0
    return f"| {words} | {' | '.join(map(form.format, values))} | {times:.1f} |"


def passed(one: Measured) -> Iterator[str]:
    """What passes its bar, in words."""
    at = f"of {one.samples:,} samples"
    first = first_s(one)
    for page in BARRED:
        if first[page] > pages.FIRST_BAR_S:
            yield f"{page}: {first[page]:.2f} s {at} (bar {pages.FIRST_BAR_S:.0f} s)"
    bars = (*pages.REFRESH_BARS_MS, pages.UNCHANGED_BAR_MS, pages.UNCHANGED_BAR_MS)
    for (words, milliseconds), bar in zip(refreshes_ms(one).items(), bars, strict=True):
        if milliseconds > bar:
            yield f"{words}: {milliseconds:.0f} ms {at} (bar {bar:.0f} ms)"


def measured(folder: Path) -> list[Measured]:
    """All sizes, the smallest first."""
    pages.prepare()
    stores = [(pages.stored(*size, folder), *size) for size in SIZES]
    return [pages.measured(*one) for one in stores]


def main() -> int:
    """Make the stores, ask the pages, print how they grow."""
    began = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load {os.getloadavg()[0]:.0f}"
    if len(sys.argv) > 1:
        found = measured(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(prefix="servescope-soak-") as folder:
            found = measured(Path(folder))
    print(f"{began} before, {os.getloadavg()[0]:.0f} after.\n")
    print("\n".join(growth(found)))
    late = [words for one in found for words in passed(one)]
    print("\n" + ("; ".join(late) if late else "Every bar is kept."))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
