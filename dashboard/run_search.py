"""Which runs a search means: plain words, `key:value`, `key:>number`; all of them must hold."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Final

import polars as pl

_TERM: Final = re.compile(r'(?P<no>-(?=\S))?(?:(?P<key>[A-Za-z_0-9]+):)?(?P<value>"[^"]*"?|\S+)')
_TEXTS: Final = {
    "id": pl.col("run_id"),
    "label": pl.col("label"),
    "engine": pl.concat_str("engine", "engine_version", separator=" ", ignore_nulls=True),
    "model": pl.col("model"),
    "source": pl.col("source_id"),
    "spec": pl.col("spec_algorithm").fill_null("none"),
    "tag": pl.col("tags").list.join("\n"),
    "note": pl.col("note"),
    "state": pl.col("state"),
    "hardware": pl.col("hardware"),
}
_NUMBERS: Final = {
    "tp": pl.col("tp").fill_null(1),
    "dp": pl.col("dp").fill_null(1),
    "cap": pl.col("max_running_requests"),
    "steady": pl.col("steady_tok_s"),
    "at1": pl.col("decode_tok_s_at_1"),
    "accept": pl.col("accept_len"),
    "faults": pl.col("n_faults"),
    "retractions": pl.col("n_retractions"),
    "duration": pl.col("duration_s"),
}
_FLAGS: Final = {"archived": pl.col("archived"), "baseline": pl.col("baseline")}
_COMPARE: Final[dict[str, Callable[[pl.Expr, float], pl.Expr]]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
HELP: Final = (
    "Words are looked for in id, label, engine, model, source, speculation, tags and note. "
    "A key looks in one place: " + ", ".join(f"`{key}:`" for key in _TEXTS) + ". Numbers: "
    + ", ".join(f"`{key}:`" for key in _NUMBERS)
    + ", also with > or <, as in `faults:>0`. `is:baseline`, `is:archived`. A dash before a term "
    "leaves out what fits it. Text with blanks stands in quotation marks."
)  # fmt: skip


def search(runs: pl.DataFrame, text: str) -> tuple[pl.DataFrame, list[str]]:
    """The rows of data.queries.runs_table that a search means, in their order.

    Returns:
        the rows, and a sentence for each term that means nothing.
    """
    wanted, complaints = [], []
    for term in _TERM.finditer(text):
        found = _meant(term["key"], term["value"].strip('"'))
        if isinstance(found, str):
            complaints.append(found)
        else:
            known = found.fill_null(False)
            wanted.append(~known if term["no"] else known)
    return (runs.filter(*wanted) if wanted else runs), complaints


def _meant(key: str | None, value: str) -> pl.Expr | str:
    """The condition of a term, or why it has none."""
    if key is None:
        return _words(value)
    if key in _TEXTS:
        return _contains(_TEXTS[key], value)
    if key in _NUMBERS:
        return _number(_NUMBERS[key], key, value)
    if key == "is":
        return _FLAGS.get(value, f"is:{value} is not known; there are is:{', is:'.join(_FLAGS)}.")
    return _words(f"{key}:{value}")  # such as the time in a name


def _contains(column: pl.Expr, value: str) -> pl.Expr:
    return column.str.to_lowercase().str.contains(value.lower(), literal=True)


def _words(value: str) -> pl.Expr:
    return pl.any_horizontal(_contains(column, value) for column in _TEXTS.values())


def _number(column: pl.Expr, key: str, value: str) -> pl.Expr | str:
    sign = next((sign for sign in _COMPARE if value.startswith(sign)), "")
    try:
        number = float(value.removeprefix(sign))
    except ValueError:
        return f"{key}:{value} is no number; write {key}:8 or {key}:>8."
    return _COMPARE[sign](column, number) if sign else (column - number).abs() < 0.005


SORTS: Final[dict[str, tuple[str, bool]]] = {
    "newest first": ("started", True),
    "oldest first": ("started", False),
    "steady tok/s": ("steady_tok_s", True),
    "tok/s at 1": ("decode_tok_s_at_1", True),
    "accept length": ("accept_len", True),
    "faults": ("n_faults", True),
    "duration": ("duration_s", True),
    "label": ("label", False),
}


def ordered(runs: pl.DataFrame, by: str) -> pl.DataFrame:
    """The runs sorted by one of SORTS; what is not known comes last."""
    column, descending = SORTS[by]
    named = runs.with_columns(started=pl.coalesce("started_at", "first_ts"))
    return named.sort(column, descending=descending, nulls_last=True, maintain_order=True).drop(
        "started"
    )
