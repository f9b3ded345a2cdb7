"""What runs are called wherever several of them stand together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import polars as pl

from data.card import source_name
from data.names import tame


def run_names(runs: pl.DataFrame) -> dict[str, str]:
    """The name of each run by its id, in the order given: its label, else its file with the folder.

    Where runs share that it gains their start, and only where they share this too their id: a name
    is as short as it can be, and no two are the same.

    Args:
        runs: all runs of a store, in columns of data.queries.runs_named.
    """
    rows = runs.select("run_id", "label", "source_id", "started_at").rows()
    names = {run_id: tame(label or source_name(source)) for run_id, label, source, _ in rows}
    starts = {run_id: f"{at:%Y-%m-%d %H:%M:%S}" for run_id, _, _, at in rows if at is not None}
    return _told_apart(_told_apart(names, starts), {run_id: run_id[:8] for run_id in names})


def _told_apart(names: dict[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The names, each that several runs have with what more is known of its run."""
    counts = Counter(names.values())
    return {
        run_id: f"{name} · {more[run_id]}" if counts[name] > 1 and run_id in more else name
        for run_id, name in names.items()
    }
