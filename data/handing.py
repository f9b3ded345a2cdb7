"""Frames handed to DuckDB the fast way."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import polars as pl


class Stream:
    """A frame as a stream of Arrow arrays and nothing else: DuckDB takes it several times faster
    than a polars frame, and without importing pyarrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame: pl.DataFrame | None = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.frame is not None
        return self.frame.__arrow_c_stream__(requested_schema)


@contextlib.contextmanager
def without_pandas() -> Iterator[None]:
    """Keeps DuckDB from importing pandas and pyarrow.dataset to see whether a table or a parameter
    is theirs: a third of a second, more than any other part of the start of most commands."""
    absent = [name for name in ("pandas", "pyarrow.dataset") if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
