"""One log in several files: a run goes on from a file that was rotated away in the one after it.

The successor begins with the parser's state of the file before. Places count from its own first
byte and line, so what lies in earlier files is at negative ones, and comparing places goes on
telling what came first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from data.checkpoints import Checkpoint
from ingest.ranks import Late
from ingest.sources.names import follows
from parsers import records

if TYPE_CHECKING:
    from ingest.ledger import Append
    from ingest.reading import Reading

State = dict[str, Any]
_OF_RUN = ("start_off", "ready_off", "end_off", "first_off")


@dataclass(frozen=True, slots=True)
class Before:
    """A file that was read to its end, as its successor needs it."""

    file_id: str
    state: str


@dataclass(frozen=True, slots=True)
class Places:
    """Which file a place is in.

    Attributes:
        file_id: of the places from 0 on.
        earlier: files before, the oldest first: id, and where its first byte and line are.
    """

    source_id: str
    file_id: str
    earlier: tuple[tuple[str, int, int], ...] = ()

    def of(self, off: int, no: int = 0) -> dict[str, Any]:
        """The columns that name a place."""
        file_id, first, lines = self.file_id, 0, 0
        for file in self.earlier:
            if off < 0 and file[1] <= off:
                file_id, first, lines = file
        return {
            "source_id": self.source_id, "file_id": file_id,
            "byte_offset": off - first, "line_no": no - lines,
        }  # fmt: skip

    def late(self, late: Late) -> pl.DataFrame:
        """Corrected intervals as rows of `sample_intervals`."""
        rows = []
        for run_id, off, seconds in late:
            place = self.of(off)
            rows.append(
                {
                    "run_id": run_id, "file_id": place["file_id"],
                    "byte_offset": place["byte_offset"], "interval_s": seconds,
                }
            )  # fmt: skip
        return records.frame(rows, records.INTERVALS)


def carried(before: Before) -> State:
    """The state with which the successor of a file begins."""
    state: State = json.loads(before.state)
    size, lines = state["offset"], state["line_no"] - 1
    state["offset"], state["line_no"], state["encoding"] = 0, 1, None
    if state["run"]:
        _move(state["run"], _OF_RUN, size)
        if told := state["run"].get("rate_def"):
            state["run"]["rate_def"] = (told[0], told[1] - size)
    waiting: list[int] = []
    for rank in state["ranks"].values():
        _move(rank, ("decode_off",), size)
        for ties in (rank["decode"], rank["prefill"]):
            ties["waiting"] = [(off - size, seconds) for off, seconds in ties["waiting"]]
            waiting += [off for off, _ in ties["waiting"]]
    held = [(line, off - size, no - lines, *rest) for line, off, no, *rest in state["held"]]
    state["held"] = held
    waiting += [off for _, off, *_ in held]
    earlier = [*state.get("earlier", ()), (before.file_id, 0, 0)]
    moved = [(file_id, first - size, no - lines) for file_id, first, no in earlier]
    state["earlier"] = _needed(moved, min(waiting, default=0))
    return state


def _move(values: State, names: Iterable[str], size: int) -> None:
    for name in names:
        if values.get(name) is not None:
            values[name] -= size


def _needed(earlier: list[tuple[str, int, int]], first: int) -> list[tuple[str, int, int]]:
    """The files with places that something still waits in, from the one that holds `first` on."""
    ends = [at for _, at, _ in earlier[1:]] + [0]
    return [file for file, end in zip(earlier, ends, strict=True) if end > first]


def earlier_of(state: Mapping[str, Any]) -> tuple[tuple[str, int, int], ...]:
    """The files before, in a state."""
    return tuple((str(file_id), int(off), int(no)) for file_id, off, no in state.get("earlier", ()))


@dataclass(slots=True)
class Succession:
    """Ends a file once it is known what comes after it: in a successor that is read for the first
    time its run goes on, else it is over.

    Attributes:
        put: takes the appends that end files.
        seq: of the latest checkpoint made.
        order: the files to come, where that is known: what has no successor is ended at once.
    """

    put: Callable[[Append], object]
    seq: int = 0
    order: Sequence[str] | None = None
    _name: str = ""
    _ended: Reading | Checkpoint | None = field(default=None)

    def ended(self, name: str, last: Reading | Checkpoint) -> None:
        """A file was read to its end, now or (a checkpoint) before: nothing is written to it any
        more."""
        self._name, self._ended = name, last
        if self.order is not None:
            after = self.order[self.order.index(name) + 1 :][:1]
            if not (after and follows(name, after[0])):
                self.close()

    def next(self, name: str, *, fresh: bool) -> Before | None:
        """What the file of this name takes over; None where it begins by itself.

        `fresh`: nothing of it was read before.
        """
        last, self._ended = self._ended, None
        if last is None:
            return None
        goes_on = fresh and follows(self._name, name)
        if isinstance(last, Checkpoint):
            self.seq = max(self.seq, last.seq)
            return Before(last.file_id, last.state) if goes_on and last.finished else None
        self.put(last.hand_over() if goes_on else last.finish())
        self.seq = max(self.seq, last.seq)
        return last.before() if goes_on else None

    def close(self) -> None:
        """No file comes after."""
        self.next("", fresh=False)
