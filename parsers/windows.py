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

from parsers.records import CHOICES, FEW_ROWS, says

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SECOND = 1_000_000
STAMPS, STEPS, CONFIGURED = range(len(CHOICES["interval_from"]))
MIXED, STEADY, AFTER_IDLE, STARTUP = range(len(CHOICES["window"]))
IDLE_WINDOWS = 3  # a rank is idle after so many of its median windows without a line
LONG_WINDOWS = 30  # … and after so many even where no prefill line says so
_HISTORY = 15
_NOWHERE = np.iinfo(np.int64).min  # before any place; those in files before are negative
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


def measure_sglang(rows: pl.DataFrame, rank: Rank, run: RunClock) -> Measured:
    """Windows of one SGLang rank's decode and prefill rows of one run, in file order."""
    ts, off = _micros(rows), rows["byte_offset"].to_numpy()
    is_decode = says(rows["kind"], "decode").to_numpy()
    n = len(ts)
    out = Measured(np.full(n, np.nan), np.zeros(n, np.int64), np.zeros(n, np.int64), [])
    gaps = _gaps(ts, rank)
    at = np.flatnonzero(is_decode)
    (running,) = _floats(rows, "running_reqs")
    windows = _Windows.of(rows, running, is_decode, at, gaps, rank, run)
    estimate = _estimates(rows, running, at, run)
    usual = _Usual.of(estimate, rank)
    if len(at):
        _measure_decodes(running[at], at, ts, off, windows, estimate, usual, rank, run, out)
    prefills = np.flatnonzero(~is_decode)
    if len(prefills):
        out.interval_s[prefills], late = rank.prefill.split(
            ts[prefills], off[prefills], np.ones(len(prefills), bool)
        )
        out.late += late
        silence = _certain_gap(gaps[prefills], ts[prefills])
        idle = usual.is_idle(silence, np.searchsorted(at, prefills))
        startup = _before_ready(off[prefills], run)
        out.window[prefills] = np.select([startup, idle], [STARTUP, AFTER_IDLE], MIXED)
    rank.line_ts = int(ts[-1])
    return out


@dataclass(slots=True)
class _Windows:
    """Per decode line: what happened since the decode line before."""

    prompts: Ints
    crowded: Ints
    gap: Ints  # longest silence that nothing ran in
    silence: Ints  # longest silence
    opened_by_prefill: Bools

    @classmethod
    def of(
        cls,
        rows: pl.DataFrame,
        running: Floats,
        is_decode: Bools,
        at: Ints,
        gaps: Ints,
        rank: Rank,
        run: RunClock,
    ) -> _Windows:
        (new,) = _floats(rows, "new_seqs")
        single, free = (new == 1) & (running == 0), (running == 0) | np.isnan(running)
        # Up to 0.5.8.post1 a prefill line is printed when scheduled and has no graph field.
        old = _missing(rows["graph_on"])
        prompts = np.cumsum(~is_decode)
        crowded = np.cumsum(~is_decode & ~single)
        old &= ~is_decode
        before_old = np.append(rank.last_is_old_prefill, old[:-1])
        # The rank was idle only where a prefill line found nothing running; a PD decode node
        # admits without prefill, so there any silence may be idle.
        silent = gaps if run.decode_only else np.where(~is_decode & free, gaps, 0)
        starts = np.append(0, at[:-1] + 1) if len(at) else np.empty(0, np.int64)
        made = cls(
            np.diff(prompts[at], prepend=-rank.prompts),
            np.diff(crowded[at], prepend=-rank.crowded),
            _longest(silent, rank.gap, at, starts),
            _longest(gaps, rank.silence, at, starts),
            np.append(rank.opened_by_prefill, before_old[at][:-1]) if len(at) else before_old[:0],
        )
        tail_at = int(at[-1]) + 1 if len(at) else 0
        if len(at):
            rank.prompts = rank.crowded = rank.gap = rank.silence = 0
            rank.opened_by_prefill = bool(before_old[at[-1]])
        rank.prompts += int((~is_decode[tail_at:]).sum())
        rank.crowded += int((~is_decode[tail_at:] & ~single[tail_at:]).sum())
        rank.gap = max(rank.gap, int(silent[tail_at:].max(initial=0)))
        rank.silence = max(rank.silence, int(gaps[tail_at:].max(initial=0)))
        rank.last_is_old_prefill = bool(old[-1])
        return made


def _longest(gaps: Ints, before: int, at: Ints, starts: Ints) -> Ints:
    """The longest gap before each decode line since the one before it."""
    if not len(at):
        return gaps[:0]
    seeded = gaps[: at[-1] + 1].copy()
    seeded[0] = max(seeded[0], before)
    return np.maximum.reduceat(seeded, starts)


def _measure_decodes(
    running: Floats,
    at: Ints,
    ts: Ints,
    off: Ints,
    windows: _Windows,
    estimate: Floats,
    usual: _Usual,
    rank: Rank,
    run: RunClock,
    out: Measured,
) -> None:
    before = np.append(np.nan if rank.running is None else rank.running, running[:-1])
    opened = np.append(_NOWHERE if rank.decode_off is None else rank.decode_off, off[at][:-1])
    nth = np.arange(len(at))
    idle = usual.is_idle(_certain_gap(windows.gap, ts[at]), nth)
    idle |= usual.is_idle(_certain_gap(windows.silence, ts[at]), nth, LONG_WINDOWS)
    first = opened == _NOWHERE
    startup = _before_ready(off[at], run) | _before_ready(opened, run)
    same = (running == before) & (running > 0) & ~idle & ~startup & ~first
    steady = same & (windows.prompts == 0) & ~windows.opened_by_prefill & (not run.decode_only)
    single = same & (running == 1) & (windows.crowded == 0) & (not run.decode_only)
    by_steps = (steady | single | first) & ~np.isnan(estimate)
    stamps, late = rank.decode.split(ts[at], off[at], ~by_steps)
    out.late += late
    out.interval_s[at] = np.where(by_steps, estimate, stamps)
    out.interval_from[at] = np.where(by_steps, STEPS, STAMPS)
    out.window[at] = np.select([startup, idle, steady], [STARTUP, AFTER_IDLE, STEADY], MIXED)
    rank.running, rank.decode_off = float(running[-1]), int(off[at][-1])


def _estimates(rows: pl.DataFrame, running: Floats, at: Ints, run: RunClock) -> Floats:
    """Seconds of each decode window as its line says: steps * running * accept_len / throughput."""
    length, rate = (values[at] for values in _floats(rows, "accept_len", "gen_tok_s"))
    length = np.nan_to_num(length, nan=1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = run.steps * running[at] * length / rate
    return np.where(np.isfinite(estimate), estimate, np.nan)


def measure_vllm(rows: pl.DataFrame, rank: Rank, run: RunClock, default_s: float) -> Measured:
    """Windows of one vLLM engine's stats rows of one run, in file order.

    The timer also runs while nothing is printed (0.8.5 on), so after idle the window is one
    interval long, not the whole silence; only an all-zero line can be followed by a silence.
    """
    ts, off = _micros(rows), rows["byte_offset"].to_numpy()
    running, prompt, rate = _floats(rows, "running_reqs", "prompt_tok_s", "gen_tok_s")
    prompt = np.nan_to_num(prompt)
    silent = (prompt == 0) & (np.nan_to_num(rate) == 0)
    gap = _gaps(ts, rank) / SECOND
    usual = _intervals(gap, rank, default_s)
    quiet_before = np.append(rank.quiet, silent[:-1])
    idle = quiet_before & (gap > 1.5 * usual)
    first = np.append(rank.decode_off is None, np.zeros(len(ts) - 1, bool))
    configured = idle | first
    stamps, late = rank.decode.split(ts, off, ~configured)
    before = np.append(np.nan if rank.running is None else rank.running, running[:-1])
    opened = np.append(_NOWHERE if rank.decode_off is None else rank.decode_off, off[:-1])
    startup = _before_ready(off, run) | (_before_ready(opened, run) & ~first)
    steady = (running == before) & (running > 0) & (prompt == 0) & ~configured & ~startup
    rank.running, rank.decode_off = float(running[-1]), int(off[-1])
    rank.line_ts, rank.quiet = int(ts[-1]), bool(silent[-1])
    interval = np.where(configured, usual, stamps)
    window = np.select([startup, idle, steady], [STARTUP, AFTER_IDLE, STEADY], MIXED)
    rank.configured = float(usual[-1]) if configured[-1] else None
    rank.window = int(window[-1])
    return Measured(interval, np.where(configured, CONFIGURED, STAMPS), window, late)


def measure_spec(rows: pl.DataFrame, stats: pl.DataFrame, rank: Rank, engine: Rank) -> Measured:
    """Windows of one vLLM engine's spec rows: since the spec line before, but of the stats line
    above where that one is the timer's.

    Args:
        rows: spec rows in file order.
        stats: measured stats rows of the same engine in this block (may be empty).
        rank: state of the spec rows.
        engine: state of the stats rows before this block.
    """
    ts, off = _micros(rows), rows["byte_offset"].to_numpy()
    at = np.searchsorted(stats["byte_offset"].to_numpy(), off)
    timer = pl.when(pl.col("interval_from") == "configured").then("interval_s")
    above = np.append(
        np.nan if engine.configured is None else engine.configured,
        stats.select(timer.alias("t"))["t"].fill_null(np.nan).to_numpy(),
    )[at]
    window = np.append(engine.window, stats["window"].to_physical().to_numpy())[at]
    by_timer = ~np.isnan(above)
    stamps, late = rank.decode.split(ts, off, ~by_timer)
    return Measured(
        np.where(by_timer, above, stamps), np.where(by_timer, CONFIGURED, STAMPS), window, late
    )


def _gaps(ts: Ints, rank: Rank) -> Ints:
    return np.diff(ts, prepend=ts[0] if rank.line_ts is None else rank.line_ts)


def _certain_gap(gap: Ints, ts: Ints) -> Floats:
    """Seconds that surely passed: between whole-second stamps up to one less than they show."""
    return gap / SECOND - np.where(ts % SECOND == 0, 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Usual:
    """The usual length of a rank's windows: the median of the last ones before a line."""

    known: Floats  # window lengths; before the block's own _HISTORY older ones, NaN where none is
    shortest: float

    @classmethod
    def of(cls, estimates: Floats, rank: Rank) -> _Usual:
        known = np.concatenate([np.array(rank.estimates, float), estimates])
        missing = np.isnan(known)
        filled = known[np.maximum.accumulate(np.where(missing, 0, np.arange(len(known))))]
        rank.estimates = filled[~np.isnan(filled)][-_HISTORY:].tolist()
        older = len(known) - len(estimates)
        known = np.concatenate([np.full(_HISTORY - older, np.nan), filled])
        return cls(known, float(np.fmin.reduce(known, initial=np.inf)))

    def is_idle(self, silence: Floats, at: Ints, windows: int = IDLE_WINDOWS) -> Bools:
        """Whether silences (seconds) before the decode lines number `at` were idle: longer than
        so many windows.

        Most are shorter than a stamp can tell, so medians are taken for the few others only.
        """
        out = np.zeros(len(silence), bool)
        long = np.flatnonzero(silence > max(0.0, windows * self.shortest))
        if len(long):
            before = np.lib.stride_tricks.sliding_window_view(self.known, _HISTORY)[at[long]]
            usual = np.full(len(long), np.inf)
            whole = ~np.isnan(before[:, 0])
            middle = _HISTORY // 2  # _HISTORY is odd
            usual[whole] = np.partition(before[whole], middle, axis=1)[:, middle]
            some = ~whole & ~np.isnan(before[:, -1])  # a rank's first lines
            usual[some] = np.nanmedian(before[some], axis=1)
            out[long] = silence[long] > windows * usual
        return out


def _intervals(gap: Floats, rank: Rank, default_s: float) -> Floats:
    """The stats interval learnt so far, before each line: a timer is never early, so a low
    quantile of the gaps is right however many silences lie between."""
    known = np.concatenate([np.array(rank.estimates, float), np.where(gap > 0, gap, np.nan)])
    series = pl.Series(known).fill_nan(None)
    learnt = series.rolling_quantile(0.25, "lower", window_size=_HISTORY, min_samples=1).shift(1)
    rank.estimates = [v for v in known[-_HISTORY:].tolist() if v == v]
    return learnt.fill_null(strategy="forward").fill_null(default_s).to_numpy()[-len(gap) :]


def _before_ready(off: Ints, run: RunClock) -> Bools:
    if not run.booted:
        return np.zeros(len(off), bool)
    if run.ready_off is None:
        return np.ones(len(off), bool)
    return off < run.ready_off


def _micros(rows: pl.DataFrame) -> Ints:
    micros = rows["ts"].cast(pl.Int64)
    if micros.null_count():
        micros = micros.fill_null(strategy="forward").fill_null(0)
    return micros.to_numpy()


def _missing(column: pl.Series) -> Bools:
    """Which values are missing; mostly all or none."""
    nulls = column.null_count()
    if nulls in (0, column.len()):
        return np.full(column.len(), nulls > 0)
    return column.is_null().to_numpy(writable=True)


def _floats(rows: pl.DataFrame, *names: str) -> list[Floats]:
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
