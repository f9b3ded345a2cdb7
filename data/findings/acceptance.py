"""Rules about speculative decoding."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import polars as pl

from data import intervals, speculation
from data import windows as w
from data.compare import accept_note
from data.findings.model import INFO, WARNING, Case, Finding, shown
from parsers.records import CHOICES

_WITH_BONUS = CHOICES["accept_def"][1]
_NOTHING = 1.005  # accept_len as printed: 1.00
_MIN_WINDOWS = 8
_DRIFT = 0.9
_USELESS = 0.02
_OFF = "speculation off, or a draft that fits the model"


def _drafting(case: Case) -> pl.DataFrame:
    """Windows under load that tell their acceptance."""
    return case.busy.filter(pl.col("accept_len").is_not_null() & (pl.col("request_steps") > 0))


def below_break_even(case: Case) -> Iterator[Finding]:
    """Too few accepted tokens to pay for what a speculative step costs."""
    if case.base is None or not case.run.speculates:
        return
    found = speculation.economics([case.run], [case.base])
    losing = [
        row for row in (() if isinstance(found, str) else found)
        if not row.refused and row.speedup < 1 and row.accept_len and row.cost
        and not (row.speedup_interval and row.speedup_interval.holds(1.0))
    ]  # fmt: skip
    if not losing:
        return
    row = max(losing, key=lambda r: r.windows)
    rows = case.run.steady.filter(pl.col("running_reqs") == row.running)
    yield Finding(
        "below_break_even", WARNING, row.sentence,
        f"It pays from {row.cost:.2f} tokens a step on; {speculation.WORTHWHILE} times the base "
        f"needs {row.worthwhile_len:.2f}.",
        "fewer draft tokens, a better draft, or speculation off",
        {
            "accept_len": round(row.accept_len or 0, 3), "break_even": round(row.cost or 0, 3),
            "speedup": round(row.speedup, 3), "running": row.running,
        },
        cost_tok_s=row.base_tok_s - row.tok_s, **shown(rows),
    )  # fmt: skip


def rate_at_floor(case: Case) -> Iterator[Finding]:
    """The printed rate looks like acceptance and is its formula's smallest value."""
    rows = _drafting(case).filter(pl.col("accept_def") == _WITH_BONUS)
    length, note = w.accept_len(rows), accept_note(case.run, rows)
    if rows.height < _MIN_WINDOWS or length is None or length >= _NOTHING or not note:
        return
    yield Finding(
        "rate_at_floor", WARNING, f"Accept rate {note}.",
        "Every step pays for drafts and verification and yields one token, as without speculation.",
        _OFF + " (same vocabulary, trained on this model's outputs)",
        {"accept_len": round(length, 3)}, **shown(rows),
    )  # fmt: skip


def nothing_accepted(case: Case) -> Iterator[Finding]:
    """No draft token is ever accepted."""
    rows = _drafting(case).filter((pl.col("accept_def") != _WITH_BONUS).fill_null(True))
    length = w.accept_len(rows)
    if rows.height < _MIN_WINDOWS or length is None or length >= _NOTHING:
        return
    yield Finding(
        "nothing_accepted", WARNING,
        f"No draft token is accepted: {length:.2f} tokens a step over {rows.height} windows.",
        "Every step pays for drafts and verification and yields one token, as without speculation.",
        _OFF, {"accept_len": round(length, 3), "windows": rows.height}, **shown(rows),
    )  # fmt: skip


def rate_counts_bonus(case: Case) -> Iterator[Finding]:
    """The printed rate counts the bonus token and reads too high."""
    rows = _drafting(case).filter(pl.col("accept_def") == _WITH_BONUS)
    length, note = w.accept_len(rows), accept_note(case.run, rows)
    if rows.height < _MIN_WINDOWS or length is None or length < _NOTHING or not note:
        return
    raw = w.weighted(rows, "accept_rate_raw", "request_steps")
    yield Finding(
        "rate_counts_bonus", INFO, note[0].upper() + note[1:] + ".",
        "Rates of other releases and engines do not compare with the printed one; lengths do.",
        "accept_len or draft_accept_rate for comparisons",
        {"printed": round(raw or 0, 3), "accept_len": round(length, 3)}, **shown(rows),
    )  # fmt: skip


def collapsed(case: Case) -> Iterator[Finding]:
    """Acceptance was there and then fell to nothing."""
    rows = _drafting(case)
    dead = rows["accept_len"] < _NOTHING + 0.01
    alive = np.flatnonzero(~dead.to_numpy())
    if not len(alive):
        return
    earlier, tail = rows.head(int(alive[-1]) + 1), rows.tail(rows.height - int(alive[-1]) - 1)
    length = w.accept_len(earlier)
    if tail.height < _MIN_WINDOWS or earlier.height < _MIN_WINDOWS or (length or 0) < 1.2:
        return
    before, after = w.rate(earlier), w.rate(tail)
    yield Finding(
        "acceptance_collapsed", WARNING,
        f"Acceptance fell from {length:.2f} tokens a step to 1.00 and stayed there.",
        "From then on speculation only costs.",
        "the requests since then (other language, random prompts), or a restart",
        {"before": round(length or 0, 3), "windows_since": tail.height},
        cost_tok_s=max(0.0, before - after) if before and after else None, **shown(tail),
    )  # fmt: skip


def drifts_down(case: Case) -> Iterator[Finding]:
    """Acceptance falls slowly over the run."""
    rows = _drafting(case)
    third = rows.height // 3
    if third < 2 * _MIN_WINDOWS or next(collapsed(case), None):
        return
    parts = [rows.slice(i * third, third) for i in range(3)]
    lengths = [w.accept_len(part) or 0.0 for part in parts]
    spreads = [
        intervals.resampled(_sums(part), intervals.log_ratio) for part in (parts[0], parts[2])
    ]
    if spreads[0] is None or spreads[1] is None or not lengths[0] > lengths[1] > lengths[2]:
        return
    ratio = (spreads[1] - spreads[0]).interval(intervals.WITHIN_RUN)
    if ratio.high >= _DRIFT:
        return
    yield Finding(
        "acceptance_drifts", WARNING,
        f"Acceptance falls over the run: {lengths[0]:.2f}, {lengths[1]:.2f}, {lengths[2]:.2f} "
        "tokens a step in its thirds.",
        "Speculation pays less and less, or not any more.",
        "whether the requests changed; else a restart shows whether it is the server",
        {"first": round(lengths[0], 3), "last": round(lengths[2], 3)}, **shown(parts[2]),
    )  # fmt: skip


def _sums(rows: pl.DataFrame) -> intervals.Floats:
    weighted = pl.col("accept_len") * pl.col("request_steps")
    return rows.select(weighted.alias("a"), "request_steps").to_numpy()


def late_positions_useless(case: Case) -> Iterator[Finding]:
    """The last draft positions add next to nothing."""
    rows = _drafting(case)
    yields = speculation.position_yields(rows)
    gains = np.diff([1.0, *yields])
    useful = int(np.count_nonzero(gains >= _USELESS))
    if rows.height < _MIN_WINDOWS or len(yields) < 2 or useful >= len(yields):
        return
    k = max(1, useful)
    modern = "speculative_config" in case.run.args
    flag = (
        f"\"num_speculative_tokens\": {k} in --speculative-config" if modern
        else case.name(f"--speculative-num-draft-tokens {k + 1}", f"--num-speculative-tokens {k}")
    )  # fmt: skip
    yield Finding(
        "late_positions_useless", INFO,
        f"Of {len(yields)} draft tokens a step only the first {k} count: the others add "
        f"{yields[-1] - yields[k - 1]:.2f} tokens.",
        "Drafting and verifying them costs time at every step.",
        flag, {"positions": len(yields), "useful": k, "accept_len": round(yields[-1], 3)},
        **shown(rows),
    )  # fmt: skip


def simulated(case: Case) -> Iterator[Finding]:
    """Acceptance was simulated, not measured."""
    spec = case.run.args.get("speculative_config")
    text = json.dumps(spec) if spec else ""
    if "synthetic" not in text:
        return
    yield Finding(
        "simulated_acceptance", WARNING,
        "Acceptance is simulated: the speculative configuration asks for synthetic acceptance.",
        "Its numbers say nothing about a real draft.",
        "a run without it before anything is compared", {"speculative_config": text[:120]},
    )  # fmt: skip


RULES = (
    below_break_even, rate_at_floor, nothing_accepted, rate_counts_bonus, collapsed, drifts_down,
    late_positions_useless, simulated,
)  # fmt: skip
