"""What time each sample describes: `interval_s`, `interval_from` and `window`.

A sample describes the time since the sample before it of its rank. Stamps are mostly whole
seconds, so lines that share one divide the time since the second before evenly: the sum is the
clock's and none is zero. Such a window is final only when the second is over; until then the
sample carries what is known so far, and a later block's frame of late intervals corrects it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from parsers.records import CHOICES, FEW_ROWS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SECOND = 1_000_000
STAMPS, STEPS, CONFIGURED = range(len(CHOICES["interval_from"]))
MIXED, STEADY, AFTER_IDLE, STARTUP = range(len(CHOICES["window"]))
HISTORY = 15  # windows that the usual length is taken from
NOWHERE = np.iinfo(np.int64).min  # before any place; those in files before are negative
DEFAULT_STEPS = 40  # SGLang's decode_log_interval where the arguments are unknown


@dataclass(slots=True)
class Ties:
    """The open second of one series of lines: what divides the time when it closes."""

    before: int | None = None  # the second before, microseconds
    at: int | None = None  # the open second
    n: int = 0  # lines in it so far
    waiting: list[tuple[int, float]] = field(default_factory=list)  # offset, interval so far

    def split(self, ts: Ints, off: Ints, wants: Bools) -> tuple[Floats, list[tuple[int, float]]]:
        """Seconds since the line before for each line of a block.

        Args:
            ts: microseconds, in file order.
            off: byte offsets.
            wants: lines whose interval comes from here.

        Returns:
            intervals (NaN: unknown), those of the last second as known so far; and corrections
            (offset, seconds) of lines given in earlier blocks.
        """
        joins = self.at is not None and ts[0] == self.at and ts[0] % SECOND == 0
        opens = np.append(not joins, np.diff(ts) != 0) | (ts % SECOND != 0)
        group = np.cumsum(opens)  # 0: the second that was open when the block began
        starts = np.flatnonzero(opens)
        stamps = np.append(np.nan if self.at is None else self.at, ts[starts])
        befores = np.append(np.nan if self.before is None else self.before, stamps[:-1])
        counts = np.bincount(group, minlength=len(stamps))
        counts[0] += self.n
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = (stamps - befores) / SECOND / counts
        shares[~(shares > 0)] = np.nan  # nothing before, or the clock was set back
        late = self._corrected(shares[0]) if group[-1] else []
        self.before = None if np.isnan(befores[-1]) else int(befores[-1])
        self.at, self.n = int(stamps[-1]), int(counts[-1])
        is_open = (group == group[-1]) & (ts[-1] % SECOND == 0)
        self.waiting += [(int(o), float(shares[-1])) for o in off[is_open & wants]]
        return shares[group], late

    def finish(self) -> list[tuple[int, float]]:
        """Closes the last second: no more lines will come."""
        if self.before is None or self.at is None or self.at <= self.before:
            return self._corrected(np.nan)
        return self._corrected((self.at - self.before) / SECOND / self.n)

    def _corrected(self, share: float) -> list[tuple[int, float]]:
        late = [(off, float(share)) for off, given in self.waiting if given != share == share]
        self.waiting = []
        return late


@dataclass(slots=True)
class Rank:
    """What one rank's next block needs of the blocks before."""

    decode: Ties = field(default_factory=Ties)
    prefill: Ties = field(default_factory=Ties)
    line_ts: int | None = None  # of the last line of either kind
    gap: int = 0  # longest silence since the last decode line that nothing ran in, microseconds
    silence: int = 0  # longest silence since the last decode line, microseconds
    decode_off: int | None = None
    running: float | None = None  # of the last decode line
    prompts: int = 0  # prefill lines since the last decode line
    crowded: int = 0  # of these, the ones with several new sequences or others running
    opened_by_prefill: bool = False  # the last decode line came straight after an old prefill line
    last_is_old_prefill: bool = False
    estimates: list[float] = field(default_factory=list)  # window lengths as printed, seconds
    # vLLM
    quiet: bool = False  # the last stats line was all zeros
    configured: float | None = None  # the last stats line's window, where it is the timer's
    window: int = MIXED  # of the last stats line
    totals: list[float] | None = None  # V0's cumulative accepted and drafted tokens


@dataclass(slots=True)
class RunClock:
    """What windows need to know of the run: set from its marks."""

    booted: bool = False
    ready_off: int | None = None
    steps: int = DEFAULT_STEPS
    decode_only: bool = False  # PD decode node: admits without prefill, never steady


@dataclass(slots=True)
class Measured:
    """Columns for a rank's rows, in their order."""

    interval_s: Floats
    interval_from: Ints  # place in CHOICES
    window: Ints  # place in CHOICES
    late: list[tuple[int, float]]


def gaps_before(ts: Ints, rank: Rank) -> Ints:
    """Microseconds since the rank's line before, for each line."""
    return np.diff(ts, prepend=ts[0] if rank.line_ts is None else rank.line_ts)


def before_ready(off: Ints, run: RunClock) -> Bools:
    """Which places lie before the line that says the server is ready."""
    if not run.booted:
        return np.zeros(len(off), bool)
    if run.ready_off is None:
        return np.ones(len(off), bool)
    return off < run.ready_off


def micros(rows: pl.DataFrame) -> Ints:
    """Times of all rows; where one is missing, that of the row before."""
    found = rows["ts"].cast(pl.Int64)
    if found.null_count():
        found = found.fill_null(strategy="forward").fill_null(0)
    return found.to_numpy()


def floats(rows: pl.DataFrame, *names: str) -> list[Floats]:
    """Values of all rows, NaN where there is none: put there by polars, since NumPy's own way to
    a missing value is three times slower and keeps all other threads waiting."""
    found = []
    for name in names:
        column = rows[name]
        if column.null_count() == column.len():
            found.append(np.full(column.len(), np.nan))
        elif column.len() <= FEW_ROWS:
            found.append(np.array(column.to_list(), np.float64))
        elif column.null_count():
            found.append(column.cast(pl.Float64).fill_null(np.nan).to_numpy())
        else:
            found.append(column.cast(pl.Float64).to_numpy())
    return found
