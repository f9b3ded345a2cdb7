"""The compiled loops of kernels.c, over the bytes of a block.

They are built when Servescope is installed. What they read, patterns read too, several times
slower, and tests hold both equal: where the library is missing, the patterns do it all. They run
without the interpreter's lock, so that blocks are read on all cores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

NO_TIME = int(np.iinfo(np.int64).min)
_POINTER, _INT, _BYTES = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p
_ARGUMENTS = {
    "values": [
        _BYTES, _POINTER, _POINTER, _INT, _BYTES, _INT, _BYTES, _POINTER, _POINTER, _INT, _BYTES,
        _INT, _POINTER, _POINTER,
    ],
    "requests": [
        _BYTES, _POINTER, _POINTER, _POINTER, _INT, _BYTES, _INT, _INT, _INT, _POINTER, _POINTER,
    ],
    "runs": [_BYTES, _POINTER, _POINTER, _INT, _INT, _POINTER, _POINTER],
    "stamps": [_BYTES, _POINTER, _INT, _POINTER],
    "newlines": [_BYTES, _INT, _INT, _POINTER],
}  # fmt: skip


def _library() -> ctypes.CDLL | None:
    for path in Path(__file__).parent.glob("_kernels*"):
        try:
            library = ctypes.CDLL(str(path))
            for name, arguments in _ARGUMENTS.items():
                loop = getattr(library, name)
                loop.argtypes, loop.restype = arguments, ctypes.c_int64
        except (OSError, AttributeError):
            continue  # of another machine, or of an older release
        return library
    return None


_LIBRARY = _library()
BUILT = _LIBRARY is not None


def _loop(name: str) -> Callable[..., int]:
    loop: Callable[..., int] = getattr(_LIBRARY, name)
    return loop


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of a block and where its lines stand in them."""

    data: bytes
    starts: Ints
    ends: Ints  # without their newlines

    @classmethod
    def of(cls, data: bytes, offsets: Ints) -> Block:
        """A block whose lines begin at these offsets of the file, each going on to the next."""
        starts = np.ascontiguousarray(offsets - offsets[:1])
        size = len(data) - data.endswith(b"\n")
        return cls(data, starts, np.append(starts[1:] - 1, size))


def newlines(data: bytes, most: int) -> Ints:
    """Where newlines stand, of which there are at most so many."""
    if not BUILT:
        return np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    places = np.empty(most, np.int64)
    return places[: _loop("newlines")(data, len(data), most, _at(places))]


def values(
    block: Block, head: bytes, texts: list[bytes], decimals: list[int], tail: bytes
) -> tuple[Ints, Ints]:
    """Lines that are `head`, then values behind fixed texts, then `tail`.

    Args:
        head: text before the first value, any digit for its zeros.
        texts: one in front of each value.
        decimals: of each value, at most 6; -1 for a flag, True or False. A number has at most 15
            digits.

    Returns:
        the places of such lines; and shape (values, lines): whole numbers and flags as 1 and 0 as
        they are, numbers with decimals as the bytes of float64.
    """
    lines = len(block.starts)
    rows, found = np.empty(lines, np.int64), np.empty((len(texts), lines), np.int64)
    text_ends, places = np.cumsum([len(text) for text in texts]), np.array(decimals, np.int64)
    n = _loop("values")(
        block.data, _at(block.starts), _at(block.ends), lines, head, len(head), b"".join(texts),
        _at(text_ends), _at(places), len(texts), tail, len(tail), _at(rows), _at(found),
    )  # fmt: skip
    return rows[:n], found[:, :n]


def requests(
    block: Block, lines: Ints, head: bytes, shortest: int, longest: int
) -> tuple[Ints, Ints]:
    """Access lines: `head`, an IPv4 address with its port, ` - "`, and a request.

    Args:
        lines: those to look at.
        head: any digit for its zeros.
        shortest, longest: bytes of a request with all that stands behind it.

    Returns:
        the places of such lines, and of their requests in the block.
    """
    rows, places = np.empty(len(lines), np.int64), np.empty(len(lines), np.int64)
    n = _loop("requests")(
        block.data, _at(block.starts), _at(block.ends), _at(lines), len(lines), head, len(head),
        shortest, longest, _at(rows), _at(places),
    )  # fmt: skip
    return rows[:n], places[:n]


def runs(block: Block, starts: Ints, ends: Ints, same: int) -> tuple[Ints, Ints]:
    """Runs of neighbouring texts that begin with the same so many bytes.

    Args:
        starts, ends: of the texts in the block.

    Returns:
        the number of each text's run, and the first text of each run.
    """
    run, firsts = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
    n = _loop("runs")(
        block.data, _at(starts), _at(ends), len(starts), same, _at(run), _at(firsts)
    )  # fmt: skip
    return run, firsts[:n]


def stamps(block: Block, places: Ints) -> tuple[Ints, int]:
    """Times printed as 2026-02-23 00:00:27, whose digits are known to be digits.

    Returns:
        microseconds since 1970, NO_TIME for a stamp that is no time; and how many are none.
    """
    found = np.empty(len(places), np.int64)
    none = _loop("stamps")(block.data, _at(places), len(places), _at(found))
    return found, none


def _at(array: npt.NDArray[Any]) -> int:
    """Where the numbers of an array stand; the loops know of nothing else."""
    if array.dtype != np.int64 or not array.flags.c_contiguous:
        raise TypeError("the loops read int64 numbers that stand one behind another")
    return array.ctypes.data
