"""The events that time charts mark: start, ready, retractions, faults, the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

SCHEMA: Final = {
    "ts": pl.Datetime("us"),
    "mark": pl.String(),
    "severity": pl.String(),
    "title": pl.String(),
}
MOST: Final = 60  # of one run; faults stay longest
_KINDS: Final = ["ready", "retraction", "fault", "stop"]


def marks(events: pl.DataFrame, card: Mapping[str, Any]) -> pl.DataFrame:
    """Columns ts, mark (a key of EVENT_SHAPES), severity, title; at most MOST rows."""
    is_fault = pl.col("severity") == "fault"
    found = (
        events.filter(pl.col("ts").is_not_null() & (pl.col("kind").is_in(_KINDS) | is_fault))
        .with_columns(mark=pl.when(is_fault).then(pl.lit("fault")).otherwise(pl.col("kind")))
        .select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())
    )
    if found.height > MOST:
        by_weight = found.sort(
            pl.col("mark") == "fault", "ts", descending=True, maintain_order=True
        )
        found = by_weight.head(MOST).sort("ts")
    start = pl.DataFrame(
        [(card["started_at"], "start", "info", "Server started")], schema=SCHEMA, orient="row"
    )
    return pl.concat([start.drop_nulls("ts"), found])
