"""What the user says of a run: its label, tags, a note, whether it is archived or a baseline.

Each change is another row of run_notes; the view `runs` shows the latest of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import duckdb

from data.moment import utc_now
from data.store import Store

TAG_LENGTH: Final = 40
NOTE_LENGTH: Final = 4_000


@dataclass(frozen=True, slots=True)
class Note:
    """The latest row of run_notes of one run."""

    label: str | None = None  # None: the label that its source has
    tags: tuple[str, ...] = ()
    note: str | None = None
    archived: bool = False
    baseline: bool = False


def note_of(con: duckdb.DuckDBPyConnection, run_id: str) -> Note:
    """What is said of a run."""
    row = con.execute(
        "SELECT label, tags, note, archived, baseline FROM run_notes WHERE run_id = $run_id "
        "ORDER BY seq DESC LIMIT 1",
        {"run_id": run_id},
    ).fetchone()
    if row is None:
        return Note()
    return Note(row[0], tuple(row[1] or ()), row[2], bool(row[3]), bool(row[4]))


def describe(store: Store, run_id: str, label: str, tags: Sequence[str], note: str) -> None:
    """Label, tags and note of a run; an empty label brings back that of its source."""
    kept = tuple(dict.fromkeys(tag.strip()[:TAG_LENGTH] for tag in tags if tag.strip()))
    _change(
        store,
        [run_id],
        lambda old: replace(
            old,
            label=label.strip() or None,
            tags=kept,
            note=note.strip()[:NOTE_LENGTH] or None,
        ),
    )


def archive(store: Store, run_ids: Sequence[str], *, archived: bool) -> None:
    """Put runs away from the lists, or bring them back; nothing of them is deleted."""
    _change(store, run_ids, lambda old: replace(old, archived=archived))


def use_as_baseline(store: Store, run_id: str, *, baseline: bool = True) -> None:
    """Hold others against this run; of one model only the latest choice is the baseline."""

    def work(con: duckdb.DuckDBPyConnection) -> bool:
        before = con.execute(
            "SELECT run_id FROM runs WHERE baseline AND run_id <> $run_id AND model IS NOT "
            "DISTINCT FROM (SELECT any_value(model) FROM runs WHERE run_id = $run_id)",
            {"run_id": run_id},
        ).fetchall()
        for (other,) in before if baseline else ():
            _append(con, other, lambda old: replace(old, baseline=False))
        return _append(con, run_id, lambda old: replace(old, baseline=baseline)) or bool(before)

    store.transact(work)


Change = Callable[[Note], Note]


def _change(store: Store, run_ids: Sequence[str], change: Change) -> None:
    def work(con: duckdb.DuckDBPyConnection) -> bool:
        added = [_append(con, run_id, change) for run_id in run_ids]
        return any(added)

    store.transact(work)


def _append(con: duckdb.DuckDBPyConnection, run_id: str, change: Change) -> bool:
    """One more row, unless it would say what the latest does."""
    old = note_of(con, run_id)
    new = change(old)
    if new == old:
        return False
    con.execute(
        "INSERT INTO run_notes SELECT $run_id, coalesce(max(seq), 0) + 1, $at, $label, $tags, "
        "$note, $archived, $baseline FROM run_notes WHERE run_id = $run_id",
        {
            "run_id": run_id, "at": utc_now(), "label": new.label,
            "tags": list(new.tags), "note": new.note, "archived": new.archived,
            "baseline": new.baseline,
        },
    )  # fmt: skip
    return True
