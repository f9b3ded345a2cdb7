"""What commands write: to the screen, into a pipe or a file, and how far they are."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from data.errors import CommandError, ServescopeError
from ingest import zones
from ingest.sources.names import shown


def silence_output() -> None:
    """What could not be written is dropped: at its end Python would try, and complain, again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def told() -> Iterator[None]:
    """The body is a whole command: what the user can act on is one line on standard error."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # closed by the caller, as in `>&-`
                sys.stdout.flush()
    except ServescopeError as error:
        warn(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone, as in `| head`
        silence_output()
        sys.exit(1)
    except OSError as error:
        silence_output()
        warn(f"{error.filename or 'standard output'}: {error.strerror or error}")
        sys.exit(1)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[int, int, int], object]]:
    """Shows how far an import is, where somebody can see it."""
    if not sys.stderr.isatty():
        yield lambda done, total, lines: None
        return
    start = time.monotonic()

    def show(done: int, total: int, lines: int) -> None:
        line = progress_line(done, total, lines, time.monotonic() - start)
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def progress_line(done: int, total: int, lines: int, seconds: float) -> str:
    """Bytes, lines a second and the time that is left, as far as it can be told."""
    line = f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
    if seconds < 1 or not done:
        return line
    left = seconds * (total - done) / done
    return f"{line}, {lines / seconds:,.0f} lines/s, {left:,.0f} s left"


@contextlib.contextmanager
def writable(output: Path | None, *, binary: bool) -> Iterator[BinaryIO]:
    """Where output goes; CommandError where it cannot be written.

    Args:
        output: a file, None for standard output.
        binary: no text: it is refused on a screen.
    """
    try:
        if output is not None:
            with output.open("wb") as file:
                yield file
            return
        if sys.stdout is None:
            raise CommandError("standard output is closed; give --output FILE")
        if binary and sys.stdout.isatty():
            raise CommandError("this form is not for the screen; give --output FILE")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if output is None:
            silence_output()
        name = output or "standard output"
        raise CommandError(f"{name}: cannot be written ({error.strerror})") from error


def warn(text: str) -> None:
    """One line on standard error, while the command goes on."""
    print(f"servescope: {shown(text)}", file=sys.stderr, flush=True)


def zone_option(name: str | None) -> str | None:
    """The time zone that an option names; CommandError if there is none of that name."""
    if name and zones.known(name) is None:
        raise CommandError(f"{name!r} is no time zone; an example is Europe/Berlin")
    return zones.known(name)


def latest(commands: Any, run: str) -> str:
    """The run that the user means; of several with one name the latest, and it is said."""
    found: list[str] = commands.find(run)
    if len(found) > 1:
        print(f"{run!r} names {len(found)} runs; this is the latest, {found[0]}", file=sys.stderr)
    return found[0]
