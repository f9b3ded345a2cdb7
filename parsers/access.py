"""Access lines of the HTTP server (uvicorn), counted a block at once: by minute, request, status.

SGLang prints a stamp before them, vLLM none: then the minute is that of the last stamp before.
They are printed when a response starts, so a count is of responses begun, not of requests ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import polars as pl

from parsers.access_forms import AccessForms, Taken
from parsers.records import Schema

MARK = " HTTP/1."
# Paths that probes and scrapers ask for, all day long: no work of the server's users.
HEALTH_PATHS = (
    "/health",
    "/health_generate",
    "/ping",
    "/load",
    "/metrics",
    "/metrics/",
    "/get_load",
    "/get_server_info",
    "/server_info",
    "/get_model_info",
    "/model_info",
    "/version",
)
_TAIL = r"^([A-Z]{3,10}) (\S+) HTTP/1\.[01]\" ([1-5][0-9]{2})(?:[^0-9]|$)"
_ANYWHERE = r"\"[A-Z]{3,10} \S+ HTTP/1\.[01]\" [1-5][0-9]{2}(?:[^0-9]|$)"
_BRACKETED = r"^\[20[0-9-]{8} [0-9:]{8}\] INFO: {5}"
# How uvicorn begins a line where nothing gives it a stamp.
_STAMPLESS = r"^(?:\([A-Za-z]\w* pid=[0-9]+\) )?[A-Z]+: {1,8}\S+ - \""
_STAMP = (
    r"^.{0,120}?\b((?:(?:[0-9]{4}-)?[0-9]{2}-[0-9]{2}[ T])?[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:[.,][0-9]+)?(?: [A-Z_]+[0-9]+)*\]? "
)
# Names of single things in a path: whole numbers, hexadecimal and long random words.
_RANDOM = r"[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*|[A-Za-z0-9]{20,}"
_ID = rf"/(?:[0-9]+|(?:[A-Za-z]+[-_])?(?:{_RANDOM}))(/|$)"
_PATH_CHARS = 120

# One row an access line: where it stands, when it was printed, and what it says.
ROWS: Schema = {
    "off": pl.Int64(),
    "no": pl.Int64(),
    "stamp": pl.String(),  # "[YYYY-]MM-DD HH:MM:SS" of the line or the last one before it in the
    # block that has one; null where there is none, or a wrapper's stamp
    "wrap": pl.Datetime("us"),  # the wrapper's stamp, where the line has none itself
    "tail": pl.String(),  # from the method on
}


@dataclass(frozen=True, slots=True)
class Access:
    """Access lines of a block.

    Attributes:
        rows: ROWS of them.
        counts: the same summed up, as `counted` does.
        last_stamp: the block's last stamp, for those at the start of the next block.
        engine: sglang where they begin with its stamp in brackets (0.3.4 on), else None.
    """

    rows: pl.DataFrame
    counts: pl.DataFrame
    last_stamp: str | None
    engine: str | None = None


def read(
    text: pl.DataFrame, forms: AccessForms, taken: pl.DataFrame
) -> tuple[pl.DataFrame, Access]:
    """Access lines of a block.

    Args:
        text: columns line, off, access (whether the line contains MARK); in a wrapped block wrap.
        forms: learn from the lines.
        taken: those lines that a form has read already, as `by_form` gives them.

    Returns:
        the block, `access` now true only where the line is one; and what they say.
    """
    if not taken.height and not text["access"].any():
        return text, Access(*_nothing(), _last_stamp(text))
    maybe = text.filter("access")
    rows = taken
    if taken.height:
        maybe = maybe.filter(~pl.col("off").is_in(taken["off"].implode()))
    if maybe.height:
        forms.learn(maybe.item(0, "line"))
        rows = pl.concat([taken, _rows(text, maybe)]).sort("off")
        if rows["off"].n_unique() < taken.height + maybe.height:  # some are no access lines
            text = text.with_columns(
                access=pl.col("access") & pl.col("off").is_in(rows["off"].unique().implode())
            )
    # SGLang's stamp: vLLM prints none here.
    stamped = taken["stamp"].null_count() < taken.height
    engine = "sglang" if stamped or maybe["line"].head(50).str.contains(_BRACKETED).any() else None
    rows = _filled(text, rows)
    return text, Access(rows, counted(rows), _last_stamp(text), engine)


@cache
def _compiled_stamp() -> re.Pattern[str]:
    return re.compile(_STAMP)


@cache
def _nothing() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows and counts of a block without access lines."""
    rows = pl.DataFrame(schema=ROWS)
    return rows, counted(rows)


def _rows(text: pl.DataFrame, maybe: pl.DataFrame) -> pl.DataFrame:
    """ROWS of those lines that are access lines, with what they print themselves."""
    maybe = _stamped(text, maybe)
    parts = maybe["line"].str.splitn('"', 2).struct
    rows = maybe.select("off", "no", "stamp", "wrap", tail=parts.field("field_1"))
    tails = rows.select(pl.col("tail").unique())
    whole = pl.col("tail").str.contains(_TAIL) & (pl.col("tail").str.count_matches(MARK) == 1)
    if tails.select(whole.fill_null(False).all()).item():
        return rows
    fits = rows.filter(pl.col("tail").is_in(tails.filter(whole)["tail"].implode()))
    odd = maybe.filter(~pl.col("off").is_in(fits["off"].implode()))
    return pl.concat([fits, _anywhere(odd)])


def by_form(found: Sequence[Taken], text: pl.DataFrame) -> pl.DataFrame:
    """ROWS of access lines that forms took among these lines; a form without a stamp looks for
    the last one before."""
    rows = [
        pl.DataFrame(
            {
                "off": text["off"].gather(of_form.rows),
                "no": text["no"].gather(of_form.rows),
                "stamp": of_form.stamp,
                "tail": of_form.tail,
            }
        )
        for of_form in found
    ]
    if not rows:
        return _nothing()[0]
    every = pl.concat(rows).sort("off").with_columns(wrap=pl.lit(None, pl.Datetime("us")))
    return every.select(*ROWS)


def numbered(found: Access, first: int) -> Access:
    """The same with line numbers that begin at `first`."""
    if not found.rows.height:
        return found
    no = pl.col("no") + first
    return replace(found, rows=found.rows.with_columns(no), counts=found.counts.with_columns(no))


def _forms(rows: pl.DataFrame) -> pl.LazyFrame:
    """Rows that say the same in the same minute as one, with the place and stamps of the first."""
    wrapped = rows["wrap"].null_count() < rows.height
    none = pl.lit(None, pl.Datetime("us"))
    keys = [
        pl.col("stamp").str.head(-3).alias("minute"),
        pl.col("tail"),
        (pl.col("wrap").dt.truncate("1m") if wrapped else none).alias("wrap_minute"),
    ]
    first = pl.col("off", "no", "stamp", "wrap").first()
    named = rows.lazy().with_columns(keys).group_by("minute", "tail", "wrap_minute")
    return named.agg(pl.len().cast(pl.Int64).alias("n"), first).sort("off")


def _last_stamp(text: pl.DataFrame) -> str | None:
    """A block's last stamp."""
    for line in reversed(text["line"].tail(50).to_list()):
        if match := _compiled_stamp().search(line):
            return match[1]
    if text.height > 50:
        stamps = text["line"].str.extract(_STAMP).drop_nulls()
        if stamps.len():
            return str(stamps[-1])
    return None


def _stamped(text: pl.DataFrame, maybe: pl.DataFrame) -> pl.DataFrame:
    """Access lines with the stamps that they or their wrapper print."""
    line = pl.col("line")
    bracket = maybe["line"].str.starts_with("[2")
    if bracket.all():
        own = line.str.slice(1, 19)
    elif maybe["line"].str.contains(_STAMPLESS).all():
        own = pl.lit(None, pl.String)
    else:
        own = pl.when(bracket).then(line.str.slice(1, 19)).otherwise(line.str.extract(_STAMP))
    maybe = maybe.with_columns(stamp=own)
    outer = pl.col("wrap") if "wrap" in text.columns else pl.lit(None, pl.Datetime("us"))
    return maybe.with_columns(wrap=pl.when(pl.col("stamp").is_null()).then(outer))


def _filled(text: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows without any stamp with the last one that the lines before them print."""
    stampless = pl.col("stamp").is_null() & pl.col("wrap").is_null()
    if not rows.select(stampless.any()).item():
        return rows
    line = pl.col("line")
    before = text.filter(~pl.col("access")).select("off", before=line.str.extract(_STAMP))
    stamps = pl.concat([before, rows.select("off", before="stamp")]).drop_nulls().sort("off")
    filled = rows.join_asof(stamps, on="off")
    return filled.select(
        "off",
        "no",
        pl.when(stampless).then("before").otherwise("stamp").alias("stamp"),
        "wrap",
        "tail",
    )


def _anywhere(odd: pl.DataFrame) -> pl.DataFrame:
    """Every access record of lines that hold several, or other quoted texts before one."""
    found = odd.with_columns(tail=pl.col("line").str.extract_all(_ANYWHERE)).explode("tail")
    found = found.filter(pl.col("tail").is_not_null())
    return found.select("off", "no", "stamp", "wrap", pl.col("tail").str.strip_prefix('"'))


def counted(rows: pl.DataFrame) -> pl.DataFrame:
    """How often each request came in each minute.

    Args:
        rows: ROWS.

    Returns:
        columns minute, wrap_minute, method, path (without query, ids blanked), status, n; and
        off, no, stamp and wrap of the first; in the order of the file.
    """
    return _summed(_forms(rows))


def _summed(forms: pl.LazyFrame) -> pl.DataFrame:
    tail = pl.col("tail").str
    path = tail.extract(_TAIL, 2).str.replace(r"[?#;].*$", "")
    path = path.str.replace_all(_ID, "/{id}${1}").str.replace_all(_ID, "/{id}${1}")
    return (
        forms.with_columns(
            method=tail.extract(_TAIL, 1),
            path=path.str.slice(0, _PATH_CHARS),
            status=tail.extract(_TAIL, 3).cast(pl.Int32),
        )
        .group_by("minute", "wrap_minute", "method", "path", "status")
        .agg(pl.col("n").sum(), pl.col("off", "no", "stamp", "wrap").first())
        .sort("off", "method", "path", "status")
        .collect()
    )
