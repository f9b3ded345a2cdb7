"""Access lines of a block as counts by minute; requests that were refused or failed as events."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import polars as pl

from ingest.runs import Run
from parsers import records
from parsers.access import HEALTH_PATHS, Access
from parsers.access_counts import REFUSED, Count, counted
from parsers.server_args import redact_text

NAMED_REFUSALS = 100  # paths of a run
OTHER_PATHS = "other paths"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The stamp of the first access line of a minute; places as in `Mark`."""

    off: int
    date: str | None
    time: str | None


def stamps(found: Access, before: str | None) -> dict[tuple[Any, Any], Stamp]:
    """What has to be resolved to times, by the minutes of `found.counts`.

    Args:
        before: the last stamp of the blocks before, for lines that have none in this block.
    """
    said: dict[tuple[Any, Any], Stamp] = {}
    for count in found.counts:
        key = count.minute, count.wrap_minute
        if key not in said:
            text = count.stamp or (before if count.wrap is None else None) or ""
            date, _, time = text.replace("T", " ").rpartition(" ")
            said[key] = Stamp(count.off, date or None, time or None)
    return said


def rows(
    place: Mapping[str, str],
    found: Access,
    times: Mapping[tuple[Any, Any], datetime | None],
    starts: Sequence[tuple[int, Run]],
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """ACCESS_COUNTS of a block and its events, in the runs that begin at `starts`."""
    counts: dict[tuple[Any, ...], int] = {}
    events: dict[tuple[Any, ...], dict[str, Any]] = {}
    if not found.rows.height:
        return records.empty(records.ACCESS_COUNTS), []
    edges = [off for off, _ in starts[1:]]
    offs = found.rows["off"]
    cuts = [0, *(int(offs.search_sorted(edge)) for edge in edges), offs.len()]
    for (_, run), start, end in zip(starts, cuts[:-1], cuts[1:], strict=True):
        if end == start:
            continue
        mine = found.rows.slice(start, end - start)
        whole = end - start == offs.len()
        own = found.counts if whole else counted(mine, found.said)
        first = found.first if whole else 0
        run.saw_all(_first_and_latest(_up_to(run.end_off, mine, own, found.said), times))
        for count in own:
            ts = times[count.minute, count.wrap_minute]
            minute = _minute(ts) if ts else None
            refused = count.status >= REFUSED and count.path not in HEALTH_PATHS
            method, path = count.method, _redacted(count.path)
            if refused and not _named(run, f"{method} {count.path}"):
                method, path = "", OTHER_PATHS
            key = (run.run_id, minute, method, path, count.status)
            counts[key] = counts.get(key, 0) + count.n
            if refused:
                told = replace(count, method=method, path=path, no=count.no + first)
                at = _own(ts, count.us)
                event = events.setdefault((*key, at), _event(place, run, told, at) | {"count": 0})
                event["count"] += count.n
    columns = zip(*((*key, n) for key, n in counts.items()), strict=True)
    made = dict(zip(records.ACCESS_COUNTS, columns, strict=True))
    return pl.DataFrame(made, schema=records.ACCESS_COUNTS), list(events.values())


def _up_to(
    end: int | None, rows: pl.DataFrame, counts: list[Count], said: pl.DataFrame
) -> list[Count]:
    """The counts of these rows, without those of rows behind an offset."""
    if end is None or rows["off"][-1] <= end:
        return counts
    return counted(rows.head(int(rows["off"].search_sorted(end, side="right"))), said)


def _first_and_latest(
    counts: Sequence[Count], times: Mapping[tuple[Any, Any], datetime | None]
) -> Iterator[tuple[int, datetime | None]]:
    """Places of counts with the times of their first and of their latest lines."""
    for count in counts:
        ts = times[count.minute, count.wrap_minute]
        yield count.off, _own(ts, count.us)
        yield count.off, _own(ts, count.late)


def _minute(ts: datetime) -> datetime:
    return ts.replace(second=0, microsecond=0)


def _own(ts: datetime | None, us: int | None) -> datetime | None:
    """The time of a line.

    Args:
        ts: of another line of its minute.
        us: how far in it the line was printed; None where no stamp tells.
    """
    if ts is None or us is None:
        return ts
    return _minute(ts) + timedelta(microseconds=us)


def _named(run: Run, asked: str) -> bool:
    """Whether a refused request is counted under its own path. Whoever looks for holes asks for
    hundreds of thousands of paths that are not there; of a run the first ones stand for all."""
    mark = hashlib.blake2b(asked.encode(), digest_size=4).hexdigest()
    if mark in run.refused:
        return True
    if len(run.refused) >= NAMED_REFUSALS:
        return False
    run.refused.append(mark)
    return True


_redacted = lru_cache(4096)(redact_text)  # a server has few paths


def _event(place: Mapping[str, str], run: Run, count: Count, ts: datetime | None) -> dict[str, Any]:
    """A request that was refused (4xx) or failed (5xx), with how often in this minute."""
    by_client = count.status < 500
    kind = "client_error" if by_client else "server_error"
    asked = f"{count.method} {count.path}".strip()
    name = hashlib.blake2b(f"{asked} {count.status}".encode(), digest_size=4).hexdigest()
    return {
        "run_id": run.run_id,
        **place,
        "byte_offset": count.off,
        "line_no": count.no,
        "ts": ts,
        "kind": kind,
        "severity": "info" if by_client else "warning",
        "title": f"{count.status} on {asked}",
        "evidence": f'"{asked} HTTP/1.1" {count.status}' if count.method else None,
        "incident_id": f"{run.run_id}-{kind}-{name}",
    }
