"""Reading many files when one of them cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from data.errors import HostError, SourceError


@contextmanager
def left_out(notes: list[str], *, of: int) -> Iterator[None]:
    """Makes a note of a file that cannot be read and goes on with the others.

    `of`: how many files there are. The error of an only one is raised, and that of a host, which
    the others could not be read from either.
    """
    try:
        yield
    except HostError:
        raise
    except SourceError as error:
        if of == 1:
            raise
        notes.append(f"{error}; left out")
