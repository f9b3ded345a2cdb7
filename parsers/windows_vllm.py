"""Windows of vLLM's stats lines and of the lines of speculation below them."""

from __future__ import annotations

import numpy as np
import polars as pl

from parsers.windows import (
    AFTER_IDLE,
    CONFIGURED,
    HISTORY,
    MIXED,
    NOWHERE,
    SECOND,
    STAMPS,
    STARTUP,
    STEADY,
    Floats,
    Measured,
    Rank,
    RunClock,
    before_ready,
    floats,
    gaps_before,
    micros,
)


def measure_vllm(rows: pl.DataFrame, rank: Rank, run: RunClock, default_s: float) -> Measured:
    """Windows of one vLLM engine's stats rows of one run, in file order.

    The timer also runs while nothing is printed (0.8.5 on), so after idle the window is one
    interval long, not the whole silence; only an all-zero line can be followed by a silence.
    """
    ts, off = micros(rows), rows["byte_offset"].to_numpy()
    running, prompt, rate = floats(rows, "running_reqs", "prompt_tok_s", "gen_tok_s")
    prompt = np.nan_to_num(prompt)
    silent = (prompt == 0) & (np.nan_to_num(rate) == 0)
    gap = gaps_before(ts, rank) / SECOND
    usual = _intervals(gap, rank, default_s)
    quiet_before = np.append(rank.quiet, silent[:-1])
    idle = quiet_before & (gap > 1.5 * usual)
    first = np.append(rank.decode_off is None, np.zeros(len(ts) - 1, bool))
    configured = idle | first
    stamps, late = rank.decode.split(ts, off, ~configured)
    before = np.append(np.nan if rank.running is None else rank.running, running[:-1])
    opened = np.append(NOWHERE if rank.decode_off is None else rank.decode_off, off[:-1])
    startup = before_ready(off, run) | (before_ready(opened, run) & ~first)
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
    ts, off = micros(rows), rows["byte_offset"].to_numpy()
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


def _intervals(gap: Floats, rank: Rank, default_s: float) -> Floats:
    """The stats interval learnt so far, before each line: a timer is never early, so a low
    quantile of the gaps is right however many silences lie between."""
    known = np.concatenate([np.array(rank.estimates, float), np.where(gap > 0, gap, np.nan)])
    series = pl.Series(known).fill_nan(None)
    learnt = series.rolling_quantile(0.25, "lower", window_size=HISTORY, min_samples=1).shift(1)
    rank.estimates = [v for v in known[-HISTORY:].tolist() if v == v]
    return learnt.fill_null(strategy="forward").fill_null(default_s).to_numpy()[-len(gap) :]
