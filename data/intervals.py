"""How sure a ratio is: from the windows of one start, or over several starts.

Windows of one start say how its speed varies while it runs, not how the next start of the same
configuration would do; so an interval from them is called "within-run" and names no winner below
MIN_DIFFERENCE. All intervals are 95 %, on the logarithm of a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MIN_BLOCKS, MAX_BLOCKS = 8, 500
MIN_DIFFERENCE = 0.05
WITHIN_RUN, OVER_STARTS, OVER_POINTS = "within-run", "over starts", "over benchmark points"
NONE_OF_ONE = "n = 1: no interval"
_DRAWS = 1000
_SEED = 20_260_101


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval of a ratio (or of another positive number)."""

    low: float
    high: float
    kind: str  # WITHIN_RUN, OVER_STARTS or OVER_POINTS

    def __str__(self) -> str:
        return f"{self.kind} 95 % interval {self.low:.2f} to {self.high:.2f}"

    def holds(self, value: float) -> bool:
        """Whether a value lies in it."""
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Spread:
    """A logarithm with its variance and the degrees of freedom behind it."""

    value: float
    variance: float
    freedom: int

    def __sub__(self, other: Spread) -> Spread:
        """The difference of two that are independent (Welch)."""
        variance = self.variance + other.variance
        parts = ((s.variance**2 / s.freedom) for s in (self, other))
        squares = sum(parts)
        freedom = variance**2 / squares if squares else self.freedom + other.freedom
        return Spread(self.value - other.value, variance, max(1, math.floor(freedom + 1e-9)))

    def interval(self, kind: str) -> Interval:
        """The 95 % interval of the number whose logarithm this is."""
        half = t_quantile(self.freedom) * math.sqrt(self.variance)
        return Interval(math.exp(self.value - half), math.exp(self.value + half), kind)


def t_quantile(freedom: int) -> float:
    """The 97.5 % point of Student's t with whole degrees of freedom, by bisection."""
    low, high = 1.9, 13.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, freedom) < 0.95 else (low, middle)
    return (low + high) / 2


def _inside(t: float, freedom: int) -> float:
    """P(|T| < t): the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    if freedom > 2000:
        return math.erf(t / math.sqrt(2))
    angle = math.atan(t / math.sqrt(freedom))
    cos, sin = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cos if odd else 1.0
    series = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cos * cos * (k - 1) / k
        series += term
    return (angle + sin * series) * 2 / math.pi if odd else sin * series


def block_count(windows: int) -> int | None:
    """How many blocks these windows in a row are cut into; None if they are too few.

    Neighbouring windows are alike, so whole blocks of them are drawn: about 2 n^(1/3) long, and
    at least MIN_BLOCKS of them.
    """
    if windows < MIN_BLOCKS:
        return None
    return min(MAX_BLOCKS, max(MIN_BLOCKS, round(windows / (2 * math.cbrt(windows)))))


def log_ratio(sums: Floats) -> Floats:
    """The logarithm of the first sum over the second, of each draw: what `resampled` asks for.

    Args:
        sums: shape (draws, 2).
    """
    return np.asarray(np.log(sums[:, 0] / sums[:, 1]))


def resampled(columns: Floats, log_of: Callable[[Floats], Floats]) -> Spread | None:
    """A logarithm computed of sums over windows, and its variance within the run.

    Args:
        columns: one row a window in the order of time, one column a quantity that is summed.
        log_of: gives of each row of sums the logarithm.

    Returns:
        None where there are fewer than MIN_BLOCKS blocks.
    """
    count = block_count(len(columns))
    if count is None:
        return None
    edges = np.linspace(0, len(columns), count + 1).astype(np.int64)[:-1]
    return resampled_blocks(np.add.reduceat(columns, edges, axis=0), log_of)


def resampled_blocks(blocks: Floats, log_of: Callable[[Floats], Floats]) -> Spread:
    """The same of sums over blocks of neighbouring windows, one row a block."""
    count = len(blocks)
    drawn = log_of(_picks(count) @ blocks)
    whole = blocks.sum(axis=0)
    # Draws of few blocks vary less than the blocks do: the variance of a mean has n - 1 below.
    variance = float(np.var(drawn)) * count / (count - 1) * _alike(log_of(whole - blocks))
    return Spread(float(log_of(whole[None, :])[0]), variance, count - 1)


@lru_cache(16)  # of 4 MB at most; a comparison asks for the same ones again and again
def _picks(count: int) -> Floats:
    """How often each of so many blocks is drawn: shape (_DRAWS, count)."""
    random = np.random.default_rng(_SEED)
    picks = random.multinomial(count, np.full(count, 1 / count), size=_DRAWS)
    return picks.astype(np.float64)


def _alike(without: Floats) -> float:
    """How much more a sum of blocks varies where a block is like the one before it.

    Args:
        without: the logarithm with each block left out.
    """
    pull = without - without.mean()
    squares = float(pull @ pull)
    return max(1.0, 1 + 2 * float(pull[1:] @ pull[:-1]) / squares) if squares else 1.0


def over_starts(
    values: Sequence[float], base: Sequence[float], kind: str = OVER_STARTS
) -> Interval | None:
    """The interval of exp(mean(values) - mean(base)) over starts, logarithms given.

    Starts, or what `kind` says, of both sides are taken to vary alike; None unless a side has two.
    Without a base the interval is of exp(mean(values)).
    """
    sides = [side for side in (values, base) if side]
    freedom = sum(map(len, sides)) - len(sides)
    if freedom < 1:
        return None
    squares = sum(float(np.var(side)) * len(side) for side in sides)
    variance = squares / freedom * sum(1 / len(side) for side in sides)
    value = float(np.mean(values)) - (float(np.mean(base)) if base else 0.0)
    return Spread(value, variance, freedom).interval(kind)
