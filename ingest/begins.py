"""When a run began whose own first line prints no stamp: at the first stamp after that line.

The stamp above would be that of the server before, which may have ended days ago.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import polars as pl

from ingest.access_rows import Stamp
from ingest.runs import Run
from parsers.block_text import Text
from parsers.heads import first_stamp
from parsers.marks import Mark

Begun = tuple[Stamp, datetime | None]  # a stamp, and the time it tells


def stamps(text: Text, marks: Sequence[Mark], run: Run | None) -> dict[int, Stamp]:
    """The first stamp after each line without one that may begin a run, by the line's offset.

    Absent where another such line comes before it: a server may end without having printed one.

    Args:
        text: the block's lines.
        marks: of the block, in file order.
        run: the one that the blocks before left open; its first stamp may come in this one.
    """
    begun = [mark.off for mark in marks if mark.boots and (mark.borrowed or mark.time is None)]
    if run is not None and run.booted and run.first_off is None:
        begun.insert(0, run.start_off)
    if not begun:
        return {}
    lines = text.stamped()
    found = {}
    for start, end in zip(begun, [*begun[1:], None], strict=True):
        own = pl.col("off") >= start if end is None else pl.col("off").is_between(start, end - 1)
        if (first := first_stamp(lines.filter(own))) is not None:
            found[start] = Stamp(first[0], first[1].date, first[1].time)
    return found


def tell(run: Run | None, off: int | None, begun: Mapping[int, Begun]) -> None:
    """Tell a run when it began, where the line at this offset, or its first one, makes it known."""
    if run is not None and run.booted and run.first_off is None:
        first = begun.get(run.start_off if off is None else off)
        if first is not None:
            run.saw(first[0].off, first[1])


def own_time(mark: Mark, ts: datetime | None, run: Run) -> datetime | None:
    """The time of a line of this run; None where its stamp is borrowed from the run before."""
    stale = run.first_off is None or mark.off < run.first_off
    return None if mark.borrowed and run.booted and stale else ts
