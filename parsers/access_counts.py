"""How often each request came in each minute: what access lines say, summed up.

Tails of lines repeat thousands of times, so each is taken apart once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from parsers import kernels

Ints = npt.NDArray[np.int64]

_MANY = 2000  # different texts: these are put together by polars first
_TAIL = re.compile(
    # What the engine of polars takes for no space, Python does not.
    r"([A-Z]{3,10}) ((?:\S|[\x1c-\x1f])+) HTTP/1\.[01]\" ([1-5][0-9]{2})(?:[^0-9]|$)"
)
# Names of single things in a path: whole numbers, hexadecimal and long random words.
_RANDOM = r"[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*|[A-Za-z0-9]{20,}"
_ID = re.compile(rf"/(?:[0-9]+|(?:[A-Za-z]+[-_])?(?:{_RANDOM}))(/|$)")
_QUERY = re.compile(r"[?#;].*$")
_PATH_CHARS = 120
REFUSED = 400  # statuses from this one on: refused (4xx) or failed (5xx)
_REFUSED = r" HTTP/1\.[01]\" [45]"
_MINUTE_US = 60_000_000
NO_US = -1
_SOME_DAY = "2000-01-01 00:00:00"  # a leap year, so that the last of February stands too


@dataclass(slots=True)
class Count:
    """Requests of one kind in one minute; of those that were refused or failed, at one time.

    Attributes:
        minute: "[YYYY-]MM-DD HH:MM" as printed, None where no stamp is known.
        wrap_minute: of the wrapper's stamp, where the lines have none.
        path: without query, ids blanked.
        off, no, stamp, wrap: of the first one, or one before it in its minute.
        us, late: how far in the minute the first and the latest one were printed, in
            microseconds; None where no stamp tells.
    """

    minute: str | None
    wrap_minute: datetime | None
    method: str
    path: str
    status: int
    n: int
    off: int
    no: int
    stamp: str | None
    wrap: datetime | None
    us: int | None
    late: int | None


def counted(rows: pl.DataFrame, said: pl.DataFrame) -> list[Count]:
    """How often each request came in each minute, in the order of the file. Those that were
    refused or failed are rare, and what stands before them counts: each keeps its own time.

    Args:
        rows: access.ROWS in the order of the file.
        said: access.SAID.
    """
    if not rows.height:
        return []
    numbers, firsts = alike(rows["said"].to_numpy())
    by_form = rows["us"].null_count() < rows.height
    if by_form:
        us = rows["us"].fill_null(NO_US).to_numpy()
        tails = said["tail"].gather(rows["said"].gather(firsts))
        numbers, firsts = _apart(numbers, firsts, us, tails)
    texts = said[rows["said"].gather(firsts)].hstack(rows.select("off", "no", "us")[firsts])
    late = np.full(len(firsts), NO_US)
    if by_form:
        np.maximum.at(late, numbers, us)
    n = np.bincount(numbers, minlength=len(firsts))
    texts = texts.with_columns(pl.Series("n", n), pl.Series("late", late), last="stamp", end="wrap")
    found: dict[tuple[object, ...], Count] = {}
    for one in _counts(texts if texts.height <= _MANY else _fewer(texts)):
        own = one.us if one.status >= REFUSED else None
        key = one.minute, one.wrap_minute, one.method, one.path, one.status, own
        if known := found.get(key):
            known.n += one.n
            known.late = _latest(known.late, one.late)
        else:
            found[key] = one
    return sorted(found.values(), key=lambda c: (c.off, c.method, c.path, c.status))


def _apart(numbers: Ints, firsts: Ints, us: Ints, tails: pl.Series) -> tuple[Ints, Ints]:
    """The numbers of lines and their first ones, with requests that were refused or failed
    numbered by time too: what a form has read is the same all through a minute."""
    refused = tails.str.contains(_REFUSED).to_numpy()
    if not refused.any():
        return numbers, firsts
    return alike(numbers * _MINUTE_US + np.where(refused[numbers], us, 0))


def _counts(texts: pl.DataFrame) -> Iterator[Count]:
    names = ("stamp", "wrap", "last", "end", "tail", "n", "off", "no", "us", "late")
    columns = [texts[name].to_list() for name in names]
    for stamp, wrap, last, end, tail, n, off, no, us, late in zip(*columns, strict=True):
        minute = None if stamp is None else stamp[:-3]
        wrap_minute = wrap and wrap.replace(second=0, microsecond=0)
        first = _in_minute(stamp, wrap) if us is None else us
        latest = _latest(None if late == NO_US else late, _in_minute(last, end))
        asked = _asked(tail)
        yield Count(minute, wrap_minute, *asked, n, off, no, stamp, wrap, first, latest)


def _latest(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


@lru_cache(1024)
def _in_minute(stamp: str | None, wrap: datetime | None) -> int | None:
    """How far a stamp is in its minute, in microseconds; None where it is no time."""
    if stamp is not None:
        try:
            wrap = datetime.fromisoformat(_SOME_DAY[: -len(stamp)] + stamp)
        except ValueError:
            return None
    return None if wrap is None else wrap.second * 1_000_000 + wrap.microsecond


@lru_cache(8192)
def _asked(tail: str) -> tuple[str, str, int]:
    """Method, path and status of an access line from its method on."""
    match = _TAIL.match(tail)
    assert match is not None  # it was found to be one
    path = _QUERY.sub("", match[2])
    for _ in range(2):  # ids that stand side by side share a slash
        path = _ID.sub(r"/{id}\1", path)
    return match[1], path[:_PATH_CHARS], int(match[3])


def _fewer(texts: pl.DataFrame) -> pl.DataFrame:
    """Rows that say the same in the same minute as one, with the place and stamps of the first;
    of requests that were refused or failed those of one time."""
    minute, wrap_minute = pl.col("stamp").str.head(-3), pl.col("wrap").dt.truncate("1m")
    refused = pl.when(pl.col("tail").str.contains(_REFUSED))
    own = [refused.then(name).alias(f"own_{name}") for name in ("stamp", "wrap", "us")]
    first = pl.col("off", "no", "stamp", "wrap", "us").first()
    together = texts.lazy().group_by(minute.alias("m"), wrap_minute.alias("w"), "tail", *own)
    last = pl.col("last", "end", "late").max()
    return together.agg(pl.col("n").sum(), first, last).sort("off").collect()


def alike(numbers: Ints) -> tuple[Ints, Ints]:
    """For each number the place of its like among all that differ, in order of their first ones;
    and where these are."""
    if kernels.BUILT:
        return kernels.alike(numbers)
    _, firsts, places = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    return np.argsort(order)[places], firsts[order]
