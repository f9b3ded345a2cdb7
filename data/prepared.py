"""What is inserted of what was read: the rows of each table, and the sums that go with them.

Working it out takes a third as long as inserting it; a bulk import does it in the thread that
reads, while the one that writes inserts what came before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from data import compact, summary
from parsers.records import joined


class BatchLike(Protocol):
    """What an append stores: the frames of parsers.records."""

    @property
    def samples(self) -> pl.DataFrame: ...
    @property
    def intervals(self) -> pl.DataFrame: ...
    @property
    def events(self) -> pl.DataFrame: ...
    @property
    def run_facts(self) -> pl.DataFrame: ...
    @property
    def requests(self) -> pl.DataFrame: ...
    @property
    def access_counts(self) -> pl.DataFrame: ...
    @property
    def ingest_log(self) -> pl.DataFrame: ...


# Table of each frame but the samples, which compact.py spreads over several.
_TABLES = {
    "intervals": "sample_intervals",
    "events": "events",
    "run_facts": "run_facts",
    "requests": "requests",
    "access_counts": "access_counts",
    "ingest_log": "ingest_log",
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows to insert.

    Attributes:
        tables: the rows of each table that gets any.
        rows: how many of them stand for something in a log.
        parts: the samples as data.compact parts them.
    """

    tables: Mapping[str, pl.DataFrame]
    rows: int
    parts: Sequence[pl.DataFrame]


def prepare(batches: Sequence[BatchLike], known: Collection[int]) -> Prepared:
    """What is inserted of some batches.

    Args:
        known: groups of samples that are stored already.
    """
    frames = {
        table: _together([getattr(batch, attribute) for batch in batches])
        for attribute, table in _TABLES.items()
    }
    parts = compact.parted(_together([batch.samples for batch in batches]), len(batches))
    samples, new = compact.encode(parts, known)
    both = (summary.of_samples(parts), summary.of_events(frames["events"]))
    sums = [frame for frame in both if frame.height] or [both[0]]
    computed = {"sample_groups": new, "run_summary_parts": joined(sums)}
    read = {**samples, **frames}
    every = {table: frame for table, frame in {**computed, **read}.items() if frame.height}
    return Prepared(every, sum(frame.height for frame in read.values()), parts)


def _together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One frame of all rows; most frames of live lines have none."""
    full = [frame for frame in frames if frame.height]
    return joined(full) if full else frames[0]
