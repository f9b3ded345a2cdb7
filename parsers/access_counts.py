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


@dataclass(slots=True)
class Count:
    """Requests of one kind in one minute.

    Attributes:
        minute: "[YYYY-]MM-DD HH:MM" as printed, None where no stamp is known.
        wrap_minute: of the wrapper's stamp, where the lines have none.
        path: without query, ids blanked.
        off, no, stamp, wrap: of the first one.
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


def counted(rows: pl.DataFrame, said: pl.DataFrame) -> list[Count]:
    """How often each request came in each minute, in the order of the file.

    Args:
        rows: access.ROWS in the order of the file.
        said: access.SAID.
    """
    if not rows.height:
        return []
    numbers, firsts = alike(rows["said"].to_numpy())
    texts = said[rows["said"].gather(firsts)].hstack(rows.select("off", "no")[firsts])
    texts = texts.with_columns(n=pl.Series(np.bincount(numbers, minlength=len(firsts))))
    found: dict[tuple[object, ...], Count] = {}
    for one in _counts(texts if texts.height <= _MANY else _fewer(texts)):
        key = one.minute, one.wrap_minute, one.method, one.path, one.status
        if known := found.get(key):
            known.n += one.n
        else:
            found[key] = one
    return sorted(found.values(), key=lambda c: (c.off, c.method, c.path, c.status))


def _counts(texts: pl.DataFrame) -> Iterator[Count]:
    names = ("stamp", "wrap", "tail", "n", "off", "no")
    columns = [texts[name].to_list() for name in names]
    for stamp, wrap, tail, n, off, no in zip(*columns, strict=True):
        minute = None if stamp is None else stamp[:-3]
        wrap_minute = wrap and wrap.replace(second=0, microsecond=0)
        yield Count(minute, wrap_minute, *_asked(tail), n, off, no, stamp, wrap)


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
    """Rows that say the same in the same minute as one, with the place and stamps of the first."""
    minute, wrap_minute = pl.col("stamp").str.head(-3), pl.col("wrap").dt.truncate("1m")
    first = pl.col("off", "no", "stamp", "wrap").first()
    together = texts.lazy().group_by(minute.alias("m"), wrap_minute.alias("w"), "tail")
    return together.agg(pl.col("n").sum(), first).sort("off").collect()


def alike(numbers: Ints) -> tuple[Ints, Ints]:
    """For each number the place of its like among all that differ, in order of their first ones;
    and where these are."""
    if kernels.BUILT:
        return kernels.alike(numbers)
    _, firsts, places = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    return np.argsort(order)[places], firsts[order]
