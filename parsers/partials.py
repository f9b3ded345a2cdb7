"""Messages that a container runtime cut into pieces of 16 KiB, put together again.

Kubernetes marks all pieces but the last with P instead of F, docker leaves the newline off, the
journal adds a field. Pieces of different streams may be mixed.
"""

from __future__ import annotations

import re

import polars as pl

_LOOK_BACK = 256  # lines; the runtimes write the pieces of a message one right after another
_CRI = re.compile(rb"[0-9]{2}:[0-9]{2}:[0-9.]+(?:Z|[+-][0-9:]{5}) (stdout|stderr) ([FP])[ :]")
_DOCKER = re.compile(rb'\{"log":"')
_DOCKER_END = re.compile(rb'(\\*)(n?)","(?:stream":"(\w+)"|attrs)')
_JOURNAL = re.compile(rb'"CONTAINER_PARTIAL_MESSAGE" ?: ?"true"')


def joined(rows: pl.DataFrame, cut: pl.Series, alone: pl.Series) -> pl.DataFrame:
    """The rows with pieces put together, each message at the place of its first piece.

    Args:
        rows: with columns line and who (the stream).
        cut: whether the message goes on in the next row of the same stream.
        alone: rows that are no pieces of anything.
    """
    lines = rows["line"].to_list()
    keep = [True] * len(lines)
    begun: dict[str, list[int]] = {}
    for at, (who, more, single) in enumerate(zip(rows["who"], cut, alone, strict=True)):
        if single:
            continue
        pieces = begun.setdefault(who, [])
        pieces.append(at)
        if not more:
            _put_together(lines, keep, begun.pop(who))
    for pieces in begun.values():
        _put_together(lines, keep, pieces)
    whole = pl.Series(lines, dtype=pl.String)
    return rows.with_columns(line=whole).filter(pl.Series(keep, dtype=pl.Boolean))


def _put_together(lines: list[str], keep: list[bool], pieces: list[int]) -> None:
    first, *others = pieces
    lines[first] = "".join(lines[at] for at in pieces)
    for at in others:
        keep[at] = False


def whole_until(data: bytes) -> int:
    """Where the first message begins whose last piece is not there yet; else the data's length.

    Args:
        data: whole lines.
    """
    end = len(data)
    # Messages of other streams may span the place where the open one begins.
    while (cut := _first_open(data, end)) < end:
        end = cut
    return end


def _first_open(data: bytes, end: int) -> int:
    cut = end
    open_streams: set[bytes] = set()
    whole_streams: set[bytes] = set()
    for _ in range(_LOOK_BACK):
        if not end:
            break
        start = data.rfind(b"\n", 0, end - 1) + 1
        piece = _piece(data[start:end])
        if piece is None:
            break
        stream, more = piece
        if stream not in whole_streams:
            if more:
                open_streams.add(stream)
                cut = start
            else:
                whole_streams.add(stream)
        end = start
    return cut


def _piece(line: bytes) -> tuple[bytes, bool] | None:
    """The stream of a piece and whether another one follows; None for other lines."""
    if cri := _CRI.search(line, 0, 200):
        return line[: cri.start()][:-11] + cri[1], cri[2] == b"P"
    if docker := _DOCKER.search(line, 0, 200):
        ends = [*_DOCKER_END.finditer(line, max(docker.end(), len(line) - 2000))]
        if not ends:
            return None
        end = ends[-1]
        newline = end[2] == b"n" and len(end[1]) % 2 == 1
        return line[: docker.start()] + (end[3] or b""), not newline
    if line.startswith(b"{") and b'"__REALTIME_TIMESTAMP"' in line:
        return b"journal", bool(_JOURNAL.search(line))
    return None
