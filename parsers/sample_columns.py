"""Printed values of samples to contract columns; names without a column go to `extra`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache

import polars as pl

from parsers.record_search import PRINTED, Kind
from parsers.records import ENGINE, FEW_ROWS, KIND, TEXT
from parsers.server_args import redact_text

_HARMLESS = re.compile(r"^(?:[A-Za-z]*|-?[0-9.]+)$")
AS_PRINTED = "printed_"  # keeps PRINTED columns apart from a field that is called "time"


def to_columns(kind: Kind, found: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
    """Printed values to contract columns; names without a column go to `extra`."""
    printed = [name for name in PRINTED if AS_PRINTED + name in found.columns]
    as_text = "stamp" in printed and found[AS_PRINTED + "stamp"].dtype == TEXT
    exprs, extra = _exprs(kind, tuple(labels), tuple(printed), as_text)
    if extra:
        found = found.with_columns([_redacted(found[label]) for label in extra])
    return found.select(exprs)


@lru_cache(256)
def _exprs(
    kind: Kind, labels: tuple[str, ...], printed: tuple[str, ...], as_text: bool
) -> tuple[list[pl.Expr], list[str]]:
    """The columns of lines that hold these, and the labels that go to `extra`.

    Args:
        as_text: the stamp is read from its text.
    """
    mapped = kind.columns(labels)
    # A value folded with others into one column (the fullest of several pools) stays in `extra`.
    roots = [expr.meta.root_names() for expr in mapped.values()]
    used = {names[0] for names in roots if len(names) == 1}
    extra = [label for label in labels if label not in used]
    columns = {
        name: pl.col(AS_PRINTED + name) if name in printed else pl.lit(None, dtype)
        for name, dtype in PRINTED.items()
    }
    if as_text:
        text = columns["stamp"].str.slice(0, 19)
        columns["stamp"] = text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)
    columns = {
        "engine": pl.lit(kind.engine, ENGINE), "kind": pl.lit(kind.kind, KIND), **columns, **mapped
    }  # fmt: skip
    if extra:
        columns["extra"] = _extra(extra)
    return [expr.alias(name) for name, expr in columns.items()], extra


def _redacted(values: pl.Series) -> pl.Series:
    """Values without secrets: only what is neither a number nor a word can hold one."""
    if values.dtype != TEXT:
        return values
    if values.len() <= FEW_ROWS:
        texts = {text for text in values.to_list() if text is not None}
        if all(map(_HARMLESS.match, texts)):
            return values
    else:
        if values.str.contains(_HARMLESS.pattern).all():
            return values
        texts = set(values.drop_nulls().unique().to_list())
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
