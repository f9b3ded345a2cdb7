"""Printed values of samples to contract columns; names without a column go to `extra`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import polars as pl

from parsers.record_search import PRINTED, Kind
from parsers.records import ENGINE, KIND, TEXT
from parsers.server_args import redact_text

AS_PRINTED = "printed_"  # keeps PRINTED columns apart from a field that is called "time"


def to_columns(kind: Kind, found: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    """Printed values to contract columns; names without a column go to `extra`."""
    mapped = kind.columns(labels)
    # A value folded with others into one column (the fullest of several pools) stays in `extra`.
    roots = [expr.meta.root_names() for expr in mapped.values()]
    used = {names[0] for names in roots if len(names) == 1}
    extra = [label for label in labels if label not in used]
    if found.schema.get(AS_PRINTED + "stamp") == TEXT:
        stamp = pl.col(AS_PRINTED + "stamp").str.slice(0, 19)
        found = found.with_columns(stamp.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False))
    exprs = [
        (
            pl.col(AS_PRINTED + name) if AS_PRINTED + name in found.columns else pl.lit(None, dtype)
        ).alias(name)
        for name, dtype in PRINTED.items()
    ]
    exprs += [expr.alias(name) for name, expr in mapped.items()]
    if extra:
        found = found.with_columns(_redacted(found[label]) for label in extra)
        exprs.append(_extra(extra).alias("extra"))
    return found.select(
        pl.lit(kind.engine, ENGINE).alias("engine"), pl.lit(kind.kind, KIND).alias("kind"), *exprs
    )


def _redacted(values: pl.Series) -> pl.Series:
    """Values without secrets: only what is neither a number nor a word can hold one."""
    if values.dtype != TEXT or values.str.contains(r"^(?:[A-Za-z]*|-?[0-9.]+)$").all():
        return values
    texts = values.drop_nulls().unique().to_list()
    return values.replace({text: redact_text(text) for text in texts})


def _extra(labels: Sequence[str]) -> pl.Expr:
    """A JSON object of the printed fields: numbers as numbers, all else as text."""
    pieces: list[pl.Expr] = []
    for i, label in enumerate(labels):
        value = pl.col(label).cast(pl.String)
        quoted = value.str.replace_all("\\", "\\\\", literal=True).str.replace_all(
            '"', '\\"', literal=True
        )
        whole = value.str.contains(r"^-?(?:0|[1-9][0-9]*)$")
        broken = value.str.contains(r"^-?[0-9]+\.[0-9]+$")
        number = value.cast(pl.Float64, strict=False).cast(pl.String)
        pieces += [
            pl.lit(("{" if not i else ", ") + f"{json.dumps(label)}: "),
            pl.when(whole)
            .then(value)
            .when(broken)
            .then(number)
            .otherwise(pl.concat_str(pl.lit('"'), quoted, pl.lit('"'))),
        ]
    return pl.concat_str(*pieces, pl.lit("}"))
