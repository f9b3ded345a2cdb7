"""Samples as the store keeps them: a third of the columns are texts that hardly change.

`run_id`, `source_id` and `file_id` of a sample are one number, explained once in the table
`sample_places`; texts of a fixed choice are their place in `parsers.records.CHOICES`. The view
`samples` has the columns of the contract again. An append costs about half as much this way.
"""

from __future__ import annotations

import hashlib

import polars as pl

from data.literal import literal
from parsers.records import CHOICES, SAMPLES, Schema

TABLE = "sample_rows"
PLACE = ["run_id", "source_id", "file_id"]
DISTINCT_PLACES = "(SELECT DISTINCT * FROM sample_places)"
PLACES: Schema = {"place": pl.Int64(), **{name: SAMPLES[name] for name in PLACE}}


def encode(samples: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of `sample_rows`, and of `sample_places` for all places that they name."""
    places = samples.select(PLACE).unique(maintain_order=True)
    named = places.with_columns(
        pl.Series("place", [_number(*row) for row in places.rows()], pl.Int64)
    ).select(*PLACES)
    if named.height == 1:
        rows = samples.with_columns(place=pl.lit(named.item(0, "place"), pl.Int64))
    else:
        rows = samples.join(named, on=PLACE, how="left", nulls_equal=True, maintain_order="left")
    codes = [pl.col(name).to_physical().cast(pl.Int8) for name in CHOICES]
    rest = [name for name in SAMPLES if name not in PLACE]
    return rows.with_columns(codes).select("place", *rest), named


def _number(*names: str | None) -> int:
    digest = hashlib.blake2b("\0".join(n or "" for n in names).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)


def decoded(table: str) -> str:
    """A SELECT that gives rows of `sample_rows` the columns of the contract."""
    columns = [
        f"p.{name}" if name in PLACE else _text(name) if name in CHOICES else f'r."{name}"'
        for name in SAMPLES
    ]
    return (
        f"SELECT {', '.join(columns)} FROM {table} r JOIN {DISTINCT_PLACES} p ON p.place = r.place"
    )


def code(name: str, text: str) -> int:
    """The number that a column of `sample_rows` holds for one of its texts."""
    return CHOICES[name].index(text)


def _text(name: str) -> str:
    cases = " ".join(f"WHEN {i} THEN {literal(text)}" for i, text in enumerate(CHOICES[name]))
    return f'CASE r."{name}" {cases} END AS "{name}"'


VIEW = f"CREATE OR REPLACE VIEW samples AS {decoded(TABLE)};"
