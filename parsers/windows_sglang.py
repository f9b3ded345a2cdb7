"""Windows of SGLang's decode and prefill lines: by the steps they tell, or by their stamps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from parsers.records import says
from parsers.windows import (
    AFTER_IDLE,
    HISTORY,
    MIXED,
    NOWHERE,
    SECOND,
    STAMPS,
    STARTUP,
    STEADY,
    STEPS,
    Bools,
    Floats,
    Ints,
    Measured,
    Rank,
    RunClock,
    before_ready,
    floats,
    gaps_before,
    micros,
)

_IDLE_WINDOWS = 3  # a rank is idle after so many of its median windows without a line
_LONG_WINDOWS = 30  # … and after so many even where no prefill line says so


def measure_sglang(rows: pl.DataFrame, rank: Rank, run: RunClock) -> Measured:
    """Windows of one SGLang rank's decode and prefill rows of one run, in file order."""
    ts, off = micros(rows), rows["byte_offset"].to_numpy()
    is_decode = says(rows["kind"], "decode").to_numpy()
    n = len(ts)
    out = Measured(np.full(n, np.nan), np.zeros(n, np.int64), np.zeros(n, np.int64), [])
    gaps = gaps_before(ts, rank)
    at = np.flatnonzero(is_decode)
    (running,) = floats(rows, "running_reqs")
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
        startup = before_ready(off[prefills], run)
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
        (new,) = floats(rows, "new_seqs")
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
    opened = np.append(NOWHERE if rank.decode_off is None else rank.decode_off, off[at][:-1])
    nth = np.arange(len(at))
    idle = usual.is_idle(_certain_gap(windows.gap, ts[at]), nth)
    idle |= usual.is_idle(_certain_gap(windows.silence, ts[at]), nth, _LONG_WINDOWS)
    first = opened == NOWHERE
    startup = before_ready(off[at], run) | before_ready(opened, run)
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
    length, rate = (values[at] for values in floats(rows, "accept_len", "gen_tok_s"))
    length = np.nan_to_num(length, nan=1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = run.steps * running[at] * length / rate
    return np.where(np.isfinite(estimate), estimate, np.nan)


def _certain_gap(gap: Ints, ts: Ints) -> Floats:
    """Seconds that surely passed: between whole-second stamps up to one less than they show."""
    return gap / SECOND - np.where(ts % SECOND == 0, 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Usual:
    """The usual length of a rank's windows: the median of the last ones before a line."""

    known: Floats  # window lengths; before the block's own HISTORY older ones, NaN where none is
    shortest: float

    @classmethod
    def of(cls, estimates: Floats, rank: Rank) -> _Usual:
        known = np.concatenate([np.array(rank.estimates, float), estimates])
        missing = np.isnan(known)
        filled = known[np.maximum.accumulate(np.where(missing, 0, np.arange(len(known))))]
        rank.estimates = filled[~np.isnan(filled)][-HISTORY:].tolist()
        older = len(known) - len(estimates)
        known = np.concatenate([np.full(HISTORY - older, np.nan), filled])
        return cls(known, float(np.fmin.reduce(known, initial=np.inf)))

    def is_idle(self, silence: Floats, at: Ints, windows: int = _IDLE_WINDOWS) -> Bools:
        """Whether silences (seconds) before the decode lines number `at` were idle: longer than
        so many windows.

        Most are shorter than a stamp can tell, so medians are taken for the few others only.
        """
        out = np.zeros(len(silence), bool)
        long = np.flatnonzero(silence > max(0.0, windows * self.shortest))
        if len(long):
            before = np.lib.stride_tricks.sliding_window_view(self.known, HISTORY)[at[long]]
            usual = np.full(len(long), np.inf)
            whole = ~np.isnan(before[:, 0])
            middle = HISTORY // 2  # HISTORY is odd
            usual[whole] = np.partition(before[whole], middle, axis=1)[:, middle]
            some = ~whole & ~np.isnan(before[:, -1])  # a rank's first lines
            usual[some] = np.nanmedian(before[some], axis=1)
            out[long] = silence[long] > windows * usual
        return out


def _missing(column: pl.Series) -> Bools:
    """Which values are missing; mostly all or none."""
    nulls = column.null_count()
    if nulls in (0, column.len()):
        return np.full(column.len(), nulls > 0)
    return column.is_null().to_numpy(writable=True)
