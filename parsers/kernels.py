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

_USUAL_BYTES = 32  # of a line, at least
_EDITION = 3  # of what the loops take: an older library is none
_SLOTS = 1 << 13  # of the table that finds a text again
NO_TIME = int(np.iinfo(np.int64).min)
_POINTER, _INT, _BYTES = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p
_ARGUMENTS = {
    "values": [
        _BYTES, _POINTER, _POINTER, _POINTER, _INT, _BYTES, _BYTES, _INT, _BYTES, _POINTER,
        _POINTER, _INT, _BYTES, _INT, _POINTER, _POINTER,
    ],
    "requests": [
        _BYTES, _POINTER, _POINTER, _POINTER, _INT, _BYTES, _BYTES, _INT, _INT, _INT, _POINTER,
        _POINTER,
    ],
    "distinct": [_BYTES, _POINTER, _POINTER, _INT, _INT, _POINTER, _INT, _POINTER, _POINTER],
    "gather": [_BYTES, _POINTER, _POINTER, _POINTER, _INT, _POINTER],
    "stamps": [_BYTES, _POINTER, _INT, _POINTER],
    "newlines": [_BYTES, _INT, _INT, _POINTER],
    "edition": [],
}  # fmt: skip


def _library() -> ctypes.CDLL | None:
    for path in Path(__file__).parent.glob("_kernels*"):
        try:
            library = ctypes.CDLL(str(path))
            for name, arguments in _ARGUMENTS.items():
                loop = getattr(library, name)
                loop.argtypes, loop.restype = arguments, ctypes.c_int64
            if library.edition() != _EDITION:
                continue
        except (OSError, AttributeError):
            continue  # of another machine, or of an older release
        return library
    return None


_memchr = ctypes.CDLL(None).memchr  # of the C library
_memchr.argtypes, _memchr.restype = [_BYTES, ctypes.c_int, ctypes.c_size_t], _POINTER
_LIBRARY = _library()
BUILT = _LIBRARY is not None


def _loop(name: str) -> Callable[..., int]:
    loop: Callable[..., int] = getattr(_LIBRARY, name)
    return loop


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of a block and where its lines stand in them.

    Attributes:
        offset: bytes of the file before it.
    """

    data: bytes
    starts: Ints
    ends: Ints  # without their newlines
    offset: int = 0

    @classmethod
    def split(cls, data: bytes, offset: int = 0) -> Block:
        """Lines are what newlines end; the last one may lack it."""
        ends = newlines(data)
        starts = np.append(0, ends + 1)
        if data and not data.endswith(b"\n"):
            return cls(data, starts, np.append(ends, len(data)), offset)
        return cls(data, starts[:-1], ends, offset)

    @property
    def lines(self) -> int:
        """How many there are."""
        return len(self.starts)

    @property
    def ended(self) -> int:
        """How many have a newline."""
        return len(self.starts) - (len(self.data) > 0 and not self.data.endswith(b"\n"))


def holds(data: bytes, byte: int) -> bool:
    """Whether a byte is somewhere in it: told while other threads go on, unlike by `in`."""
    return _memchr(data, byte, len(data)) is not None


def newlines(data: bytes) -> Ints:
    """Where newlines stand."""
    if not BUILT:
        return np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    most = len(data) // _USUAL_BYTES + 1
    places = np.empty(most, np.int64)
    if (n := _loop("newlines")(data, len(data), most, _at(places))) == most:
        most = len(data)  # lines shorter than any of a server
        places = np.empty(most, np.int64)
        n = _loop("newlines")(data, len(data), most, _at(places))
    return places[:n].copy()


def values(
    block: Block, lines: Ints, head: bytes, texts: list[bytes], decimals: list[int], tail: bytes
) -> tuple[Ints, Ints]:
    """Lines that are `head`, then values behind fixed texts, then `tail`.

    Args:
        lines: those to look at.
        head: text before the first value, any digit for its zeros.
        texts: one in front of each value.
        decimals: of each value, at most 6; -1 for a flag, True or False. A number has at most 15
            digits.

    Returns:
        the places of such lines; and shape (values, lines): whole numbers and flags as 1 and 0 as
        they are, numbers with decimals as the bytes of float64.
    """
    rows, found = np.empty(len(lines), np.int64), np.empty((len(texts), len(lines)), np.int64)
    text_ends, places = np.cumsum([len(text) for text in texts]), np.array(decimals, np.int64)
    n = _loop("values")(
        block.data, _at(block.starts), _at(block.ends), _at(lines), len(lines), head, _span(head),
        len(head), b"".join(texts), _at(text_ends), _at(places), len(texts), tail, len(tail),
        _at(rows), _at(found),
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
        block.data, _at(block.starts), _at(block.ends), _at(lines), len(lines), head, _span(head),
        len(head), shortest, longest, _at(rows), _at(places),
    )  # fmt: skip
    return rows[:n], places[:n]


def distinct(block: Block, starts: Ints, ends: Ints, same: int) -> tuple[Ints, Ints]:
    """What texts say, by numbers: texts that begin with the same so many bytes are one. (Beyond
    thousands of texts one that comes again, not straight behind, may have another number.)

    Args:
        starts, ends: of the texts in the block.

    Returns:
        the number of each text, and the first text of each number.
    """
    code, firsts = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
    table = np.full(_SLOTS, -1, np.int64)
    n = _loop("distinct")(
        block.data, _at(starts), _at(ends), len(starts), same, _at(table), _SLOTS, _at(code),
        _at(firsts),
    )  # fmt: skip
    return code, firsts[:n]


def alike(numbers: Ints) -> tuple[Ints, Ints]:
    """The same of whole numbers, which need no block: each is a text of eight bytes."""
    starts = 8 * np.arange(len(numbers))
    return distinct(Block(numbers.tobytes(), starts, starts + 8), starts, starts + 8, 8)


def gather(block: Block, lines: Ints) -> bytes:
    """The texts of some lines, each ended by a newline."""
    size = int((block.ends[lines] - block.starts[lines]).sum()) + len(lines)
    texts = np.empty(size, np.uint8)
    _loop("gather")(
        block.data, _at(block.starts), _at(block.ends), _at(lines), len(lines), texts.ctypes.data
    )
    return texts.tobytes()


def stamps(block: Block, places: Ints) -> tuple[Ints, int]:
    """Times printed as 2026-02-23 00:00:27, whose digits are known to be digits.

    Returns:
        microseconds since 1970, NO_TIME for a stamp that is no time; and how many are none.
    """
    found = np.empty(len(places), np.int64)
    none = _loop("stamps")(block.data, _at(places), len(places), _at(found))
    return found, none


def _span(head: bytes) -> bytes:
    """How many bytes from each one of a head on may stand in its place: any digit for a zero."""
    return bytes(9 if byte == ord("0") else 0 for byte in head)


def _at(array: npt.NDArray[Any]) -> int:
    """Where the numbers of an array stand; the loops know of nothing else."""
    if array.dtype != np.int64 or not array.flags.c_contiguous:
        raise TypeError("the loops read int64 numbers that stand one behind another")
    return array.ctypes.data
