"""Benchmark files into the store: each content once, and of a grown file only what is new."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from data import bench
from data.store import Store
from ingest.bench_read import BenchFile
from parsers.bench import oddities
from parsers.bench.frames import BY_HAND, frame, rows, storable
from parsers.bench.points import NO_ZONE, Point
from parsers.records import BENCH_RESULTS

_OWN = ("bench_id", "bench_file", "label", "extra", "position", "seq", "tool")


@dataclass(slots=True)
class BenchRead:
    """What one benchmark file gave, for the user."""

    path: str
    format: str
    points: int = 0
    new: int = 0
    oddities: list[str] = field(default_factory=list)  # one line each, led by its point
    unread: list[str] = field(default_factory=list)  # columns that nobody has named yet
    notes: list[str] = field(default_factory=list)
    bench_ids: list[str] = field(default_factory=list)
    known_from: str | None = None  # another file that told of some of the points before


def import_bench(
    store: Store, files: Sequence[BenchFile], *, label: str | None = None, zone: str | None = None
) -> list[BenchRead]:
    """Store the points of these files, a file at a time: all of a file or nothing.

    Args:
        store: where to.
        files: as `look` gives them; those without a result are passed over.
        label: a name for their points.
        zone: of the client's clock, where a file prints one without.
    """
    return [_import_file(store, file, label, zone) for file in files if file.found is not None]


def _import_file(store: Store, file: BenchFile, label: str | None, zone: str | None) -> BenchRead:
    assert file.found is not None
    found, path = file.found, storable(file.name)
    made = rows([_zoned(point, zone) for point in found.points], path, label)
    ids = [row["bench_id"] for row in made]
    report = BenchRead(
        path, found.format, len(made), unread=found.unread, bench_ids=ids,
        notes=[f"{path}: {note}" for note in found.notes],
    )  # fmt: skip
    with store.cursor() as con:
        held = bench.known_file(con, file.content)
        stored = bench.latest(con, ids)
        taken_back = _taken_back(bench.of_file(con, held["bench_file"]), ids) if held else []
    changed = [row for one in made if (row := _merged(one, stored.get(one["bench_id"])))]
    report.new = sum(_is_new(stored.get(row["bench_id"])) for row in changed)
    changed += taken_back
    report.known_from = next(
        (row["bench_file"] for row in stored.values() if row["bench_file"] != path), None
    )
    report.oddities = [line for row in made for line in _odd_lines(row, len(made))]
    entry = {
        "bench_file": path,
        "content": file.content,
        "bytes": file.size,
        "format": found.format,
        "n_points": len(made),
        "unread": json.dumps(found.unread, ensure_ascii=False) if found.unread else None,
    }
    bench.add(store, frame(changed), [] if held is not None and not changed else [entry])
    return report


def _zoned(point: Point, zone: str | None) -> Point:
    """The point with its beginning in UTC, where the zone of its clock is given."""
    if zone is None or point["extra"].get("clock") != NO_ZONE or "started_at" not in point:
        return point
    local: datetime = point["started_at"].replace(tzinfo=ZoneInfo(zone))
    extra = {**point["extra"], "clock": zone}
    return {**point, "started_at": local.astimezone(UTC).replace(tzinfo=None), "extra": extra}


def _is_new(stored: Mapping[str, Any] | None) -> bool:
    return stored is None or stored["tool"] is None


def _taken_back(before: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> list[Point]:
    """Rows that take back what the same table said before the user named more of its columns."""
    return [
        {name: row[name] for name in ("bench_id", "bench_file")}
        | {"seq": row["seq"] + 1, "extra": {}}
        for row in before
        if row["tool"] in BY_HAND and row["bench_id"] not in ids
    ]


def _merged(row: Point, stored: Mapping[str, Any] | None) -> Point | None:
    """The row to append: new, or with what another file tells beside it; None if it adds nothing.

    Of two tellings the one with more values wins: JSON has more digits and more fields.
    """
    if stored is None or stored["tool"] is None:
        return {**row, "seq": 1 if stored is None else stored["seq"] + 1}
    other = {name: value for name, value in stored.items() if value is not None}
    other["extra"] = json.loads(stored["extra"] or "{}")
    first, second = (row, other) if _richness(row) > _richness(other) else (other, row)
    other_extra = {k: v for k, v in second["extra"].items() if k not in ("oddities", "impossible")}
    extra = {**other_extra, **first["extra"]}
    merged: Point = {**second, **first, "extra": extra}
    merged["label"] = row.get("label") or other.get("label")
    oddities.mark([merged])
    merged["seq"] = stored["seq"]
    if _flat(merged) == _flat({**other, "extra": other["extra"]}):
        return None
    return {**merged, "seq": stored["seq"] + 1}


def _richness(row: Mapping[str, Any]) -> tuple[int, int]:
    known = sum(row.get(name) is not None for name in BENCH_RESULTS if name not in _OWN)
    digits = sum(len(repr(row.get(name))) for name in ("duration_s", "output_tok_s"))
    return known, digits


def _flat(row: Point) -> dict[str, Any]:
    return frame([row]).row(0, named=True)


def _odd_lines(row: Point, count: int) -> list[str]:
    """The oddities of a point, led by which point it is where there are several."""
    said = row["extra"].get("oddities", [])
    if count == 1:
        return list(said)
    load = row.get("concurrency")
    name = f"point {row['position']}" + (f" (concurrency {load:g})" if load else "")
    return [f"{name}: {line}" for line in said]
