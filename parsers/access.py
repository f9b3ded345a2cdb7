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

from parsers.access_counts import Count, alike, counted
from parsers.access_forms import MARK, AccessForms, Taken
from parsers.block_text import Text
from parsers.records import Schema, with_columns

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
# A time without a day only where SGLang up to 0.3.3 has it: torch prints [W1129 14:37:23.9 ...].
_STAMP = (
    r"^.{0,120}?(?:\b((?:[0-9]{4}-)?[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"|\[([0-9]{2}:[0-9]{2}:[0-9]{2}))"
    r"(?:[.,][0-9]+)?(?: [A-Z_]+[0-9]+)*\]? "
)

# One row an access line: where it stands, which row of SAID it says, and how far in its minute it
# was printed, in microseconds, where a form has read it; else the stamp of SAID is its own.
ROWS: Schema = {"off": pl.Int64(), "no": pl.Int64(), "said": pl.Int64(), "us": pl.Int64()}
SAID: Schema = {
    "stamp": pl.String(),  # "[YYYY-]MM-DD HH:MM:SS" of the first line that says it, or the last
    # one before it in the block that has one; null where there is none, or a wrapper's stamp
    "wrap": pl.Datetime("us"),  # the wrapper's stamp, where the line has none itself
    "tail": pl.String(),  # from the method on
}
_NO_WRAP = pl.lit(None, pl.Datetime("us"))
_NO_US = pl.lit(None, pl.Int64())


@dataclass(frozen=True, slots=True)
class Access:
    """Access lines of a block.

    Attributes:
        rows: ROWS of them.
        said: SAID: what lines of one minute say, several times the same perhaps.
        counts: the same summed up; the lines of each are counted from `first`.
        last_stamp: the block's last stamp, for those at the start of the next block.
        engine: sglang where they begin with its stamp in brackets (0.3.4 on), else None.
    """

    rows: pl.DataFrame
    said: pl.DataFrame
    counts: list[Count]
    last_stamp: str | None
    engine: str | None = None
    first: int = 0


def read(text: Text, forms: AccessForms, taken: Sequence[Taken]) -> tuple[Text, Access]:
    """Access lines of a block.

    Args:
        text: with access (whether the line contains MARK).
        forms: learn from the lines.
        taken: those lines that a form has read already.

    Returns:
        the block, `access` now true only where the line is one; and what they say.
    """
    if not taken and not text.rest["access"].any():
        return text, Access(*_nothing(), [], _last_stamp(text))
    maybe = text.rest.filter("access")
    rows, said = _by_form(taken, text)
    if maybe.height:
        forms.learn(maybe.item(0, "line"))
        others = _rows(text.rest, maybe)
        if others["off"].n_unique() < maybe.height:  # some are no access lines
            is_one = pl.col("off").is_in(others["off"].unique().implode())
            text = replace(text, rest=text.rest.with_columns(access=pl.col("access") & is_one))
        numbers = pl.int_range(said.height, said.height + others.height, dtype=pl.Int64)
        rows = pl.concat([rows, others.select("off", "no", said=numbers, us=_NO_US)]).sort("off")
        said = pl.concat([said, others.select(*SAID)])
    # SGLang's stamp: vLLM prints none here.
    stamped = any(of_form.stamped for of_form in taken)
    engine = "sglang" if stamped or maybe["line"].head(50).str.contains(_BRACKETED).any() else None
    rows, said = _filled(text, rows, said)
    return text, Access(rows, said, counted(rows, said), _last_stamp(text), engine)


@cache
def _compiled_stamp() -> re.Pattern[str]:
    return re.compile(_STAMP)


@cache
def _compiled_stampless() -> re.Pattern[str]:
    return re.compile(_STAMPLESS)


@cache
def _nothing() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows and texts of a block without access lines."""
    return pl.DataFrame(schema=ROWS), pl.DataFrame(schema=SAID)


def _rows(text: pl.DataFrame, maybe: pl.DataFrame) -> pl.DataFrame:
    """Those lines that are access lines: off, no, and SAID with what they print themselves."""
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


def _by_form(taken: Sequence[Taken], text: Text) -> tuple[pl.DataFrame, pl.DataFrame]:
    """ROWS and SAID of access lines that forms took."""
    rows, said = [pl.DataFrame(schema=ROWS)], [pl.DataFrame(schema=SAID)]
    for of_form in taken:
        assert text.block is not None
        at, before = of_form.rows, sum(texts.height for texts in said)
        off = text.block.starts[at] + text.block.offset
        places = {"off": off, "no": at, "said": of_form.said + before, "us": of_form.us}
        rows.append(pl.DataFrame(places, schema_overrides=ROWS))
        said.append(of_form.texts.select("stamp", "tail", wrap=_NO_WRAP).select(*SAID))
    every = pl.concat(rows)
    return every.sort("off") if len(taken) > 1 else every, pl.concat(said)


def numbered(found: Access, first: int) -> Access:
    """The same with line numbers that begin at `first`."""
    if not found.rows.height:
        return found
    rows = with_columns(found.rows, found.rows["no"] + first)
    return replace(found, rows=rows, first=first)


def _stamp(line: pl.Expr) -> pl.Expr:
    """The stamp that a line prints, null where it prints none."""
    groups = line.str.extract_groups(_STAMP).struct
    return pl.coalesce(groups.field("1"), groups.field("2"))


def _last_stamp(text: Text) -> str | None:
    """A block's last stamp."""
    last = text.last()
    for line in reversed(last):
        if (match := _compiled_stamp().search(line)) and not _compiled_stampless().match(line):
            return match[1] or match[2]
    if text.height > len(last):
        every = text.stamped().filter(~pl.col("line").str.contains(_STAMPLESS))
        stamps = every.select(_stamp(pl.col("line"))).to_series().drop_nulls()
        if stamps.len():
            return str(stamps[-1])
    return None


def _stamped(text: pl.DataFrame, maybe: pl.DataFrame) -> pl.DataFrame:
    """Access lines with the stamps that they or their wrapper print."""
    line = pl.col("line")
    bracket = maybe["line"].str.starts_with("[2")
    if bracket.all():
        own = line.str.slice(1, 19)
    else:
        bare = line.str.contains(_STAMPLESS)
        own = pl.when(bracket).then(line.str.slice(1, 19)).when(~bare).then(_stamp(line))
    maybe = maybe.with_columns(stamp=own)
    outer = pl.col("wrap") if "wrap" in text.columns else pl.lit(None, pl.Datetime("us"))
    return maybe.with_columns(wrap=pl.when(pl.col("stamp").is_null()).then(outer))


def _filled(
    text: Text, rows: pl.DataFrame, said: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows without any stamp with the last one that the lines before them print."""
    stampless = pl.col("stamp").is_null() & pl.col("wrap").is_null()
    if not said.select(stampless.any()).item():
        return rows, said
    others = text.stamped().filter(~pl.col("access"))
    own = rows.select("off", "us", before=said["stamp"].gather(rows["said"]))
    printed = others.select("off", us=_NO_US, before=_stamp(pl.col("line")))
    stamps = pl.concat([printed, own]).drop_nulls("before").sort("off")
    at = stamps["off"].search_sorted(rows["off"], side="right").cast(pl.Int64)  # of those up to it
    at = at.set(~said.select(stampless)["stamp"].gather(rows["said"]), 0)
    places, firsts = alike((rows["said"] * (stamps.height + 1) + at).to_numpy())
    before = at.gather(firsts)
    last = stamps["before"].gather((before - 1).set(before == 0, None))
    filled = said[rows["said"].gather(firsts)].with_columns(
        pl.when(stampless).then(last.alias("stamp")).otherwise("stamp").alias("stamp")
    )
    us = rows["us"]
    if us.null_count() < rows.height:  # of such a stamp `before` tells the minute
        us = us.zip_with(at == 0, stamps["us"].gather((at - 1).set(at == 0, None)))
    return rows.with_columns(said=places, us=us), filled


def _anywhere(odd: pl.DataFrame) -> pl.DataFrame:
    """Every access record of lines that hold several, or other quoted texts before one."""
    found = odd.with_columns(tail=pl.col("line").str.extract_all(_ANYWHERE)).explode("tail")
    found = found.filter(pl.col("tail").is_not_null())
    return found.select("off", "no", "stamp", "wrap", pl.col("tail").str.strip_prefix('"'))
