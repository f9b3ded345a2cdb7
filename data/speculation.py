"""What speculative decoding costs and yields, from steady windows at one exact running count.

S is the speculative run's throughput over the base's, A its accept_len weighted by request_steps.
A speculative step then costs c = A / S plain steps, and it pays only while accept_len is above c.
Nothing is said where it would not be honest: no comparable base, another graph state, other
context lengths, or steps without a draft.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import polars as pl

from data import intervals, matching
from data import windows as w
from data.configs import differing
from data.intervals import Interval
from data.run_data import RunData

Floats = npt.NDArray[np.float64]

WORTHWHILE = 1.3  # the gain that a user asks about
_EVERY_STEP = 0.95  # share of the tokens that drafting steps explain
_KV_DIFFERENCE = 0.25
_DECISIVE = ("engine", "engine_version", "model", "hardware", "gpus", "tp", "dp", "pp", "ep")


@dataclass(frozen=True, slots=True)
class Economics:
    """Speculation against the base at one running count."""

    running: int  # requests per rank
    base_tok_s: float
    tok_s: float
    speedup: float  # S
    accept_len: float | None  # A
    cost: float | None  # c, in plain steps: also the break-even accept_len
    worthwhile_len: float | None  # accept_len for a gain of WORTHWHILE
    step_ms: float | None  # milliseconds of one verification step
    speedup_interval: Interval | None
    accept_len_interval: Interval | None
    cost_interval: Interval | None
    base_windows: int
    windows: int
    base_kv_per_req: float | None
    kv_per_req: float | None
    base_graph: str
    graph: str
    yields: tuple[float, ...]  # tokens a step of the first 1, 2, … positions, bonus included
    refused: str  # why there is no comparison; then the numbers above stand side by side only

    @property
    def sentence(self) -> str:
        """What it means, in one sentence."""
        where = at_count(self.running)
        if self.refused:
            return f"Not compared {where}: {self.refused}."
        if self.accept_len is None or self.cost is None:
            return (
                f"Not every step drafts, so the cost of a step cannot be told: {self._gain(where)}."
            )
        return (
            f"A speculative step costs {self.cost:.2f} plain steps and yields "
            f"{self.accept_len:.2f} tokens: {self._gain(where)}."
        )

    def _gain(self, where: str) -> str:
        times = f"{self.speedup:.2f} times the base"
        sure = self.speedup_interval
        if sure is not None and sure.holds(1.0):
            return f"no measurable difference {where} ({times}, {sure})"
        if self.speedup <= 1:
            return f"no gain {where} ({times})"
        within = sure is None or sure.kind == intervals.WITHIN_RUN
        if within and self.speedup < 1 + intervals.MIN_DIFFERENCE:
            return f"no gain to speak of {where} ({times})"
        return f"{times} {where}"


def at_count(running: int) -> str:
    """How a sentence names a running count."""
    return "at one stream" if running == 1 else f"at {running} running requests"


def not_comparable(spec: RunData, base: RunData) -> list[str]:
    """Why a run is no base for the speculative one; empty where it is.

    Same engine, version, model, hardware, parallelism and quantisation, differing only in
    speculation and in what that forces.
    """
    reasons = []
    if base.speculates:
        reasons.append(f"{base.name} speculates too")
    for name in _DECISIVE:
        ours, theirs = spec.card[name], base.card[name]
        if ours is not None and theirs is not None and ours != theirs:
            reasons.append(f"{name} {ours} against {theirs}")
    if not reasons:
        reasons += [
            f"{row.name} {row.text(1)} against {row.text(0)}"
            for row in differing([base, spec])
            if not row.speculation
        ]
    return reasons


def economics(spec: Sequence[RunData], base: Sequence[RunData]) -> list[Economics] | str:
    """Speculation against its base at every running count that both held, or why not.

    Args:
        spec: starts of the speculative configuration.
        base: starts of the one without.
    """
    reasons = not_comparable(spec[0], base[0])
    if reasons:
        more = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
        return "no comparable base run: " + "; ".join(reasons[:3]) + more
    held = [
        set.intersection(*(set(run.steady["running_reqs"]) for run in side))
        for side in (base, spec)
    ]
    if not held[0] & held[1]:
        return "no running count that both held steady"
    return [_at(running, spec, base) for running in sorted(held[0] & held[1])]


def _at(running: int, spec: Sequence[RunData], base: Sequence[RunData]) -> Economics:
    ours, theirs = (
        [run.steady.filter(pl.col("running_reqs") == running) for run in side]
        for side in (spec, base)
    )
    mine, plain = pl.concat(ours), pl.concat(theirs)
    tok_s, base_tok_s = w.rate(mine) or 0.0, w.rate(plain) or 0.0
    length = None if _skips(mine) else w.accept_len(mine)
    speedup = tok_s / base_tok_s
    cost = length / speedup if length else None
    kv = [
        matching.kv_per_request(rows, side[0].card["max_total_tokens"])
        for rows, side in ((plain, base), (mine, spec))
    ]
    graphs = [_graph(plain), _graph(mine)]
    sums = [_columns(rows) for rows in ours], [_columns(rows) for rows in theirs]
    drafting = length is not None
    return Economics(
        running, base_tok_s, tok_s, speedup, length, cost,
        WORTHWHILE * cost if cost else None,
        1000 * running * length / tok_s if length else None,
        _interval(*sums, _log_rate, -1),
        _interval(*sums, _log_length, 0) if drafting else None,
        _interval(*sums, _log_cost, 1) if drafting else None,
        plain.height, mine.height, kv[0], kv[1], graphs[0], graphs[1],
        position_yields(mine), _refusal(kv, graphs),
    )  # fmt: skip


def _skips(rows: pl.DataFrame) -> bool:
    """Whether some steps ran without a draft: counted tokens explain too few of those generated."""
    counted = rows.filter(pl.col("accepted_tokens").is_not_null())
    generated = w.total(counted["tokens"])
    explained = w.total(counted["accepted_tokens"]) + w.total(counted["request_steps"])
    silent = rows.height - counted.height if counted.height else 0
    return bool(generated) and (explained < _EVERY_STEP * generated or silent > 0)


def _graph(rows: pl.DataFrame) -> str:
    states = rows["graph_on"].drop_nulls().unique().sort().to_list()
    return " and ".join("on" if state else "off" for state in states) or "unknown"


def _refusal(kv: Sequence[float | None], graphs: Sequence[str]) -> str:
    if graphs[0] != graphs[1] and "unknown" not in graphs:
        return f"graphs are {graphs[1]} with speculation and {graphs[0]} without"
    if kv[0] and kv[1] and abs(np.log(kv[1] / kv[0])) > np.log(1 + _KV_DIFFERENCE):
        return (
            f"{kv[1]:.0f} KV tokens a request with speculation and {kv[0]:.0f} without: "
            "contexts of different length"
        )
    return ""


_TOKENS, _SECONDS, _ACCEPTED, _STEPS = range(4)


def _columns(rows: pl.DataFrame) -> Floats:
    """Per window: tokens, seconds, accept_len · request_steps, request_steps."""
    steps = pl.when(pl.col("accept_len").is_not_null()).then("request_steps").fill_null(0)
    length = pl.col("accept_len").fill_null(0)
    return rows.select("tokens", "interval_s", a=length * steps, s=steps).to_numpy()


def _log_rate(sums: Floats) -> Floats:
    return np.asarray(np.log(sums[:, _TOKENS] / sums[:, _SECONDS]))


def _log_length(sums: Floats) -> Floats:
    return np.asarray(np.log(sums[:, _ACCEPTED] / sums[:, _STEPS]))


def _log_cost(sums: Floats) -> Floats:
    """log A - log of the run's own rate: c times the base's rate, from the same draws."""
    return _log_length(sums) - _log_rate(sums)


def _log_of_all(columns: Floats, log_of: Callable[[Floats], Floats]) -> float:
    return float(log_of(columns.sum(axis=0)[None, :])[0])


def _interval(
    ours: list[Floats], theirs: list[Floats], log_of: Callable[[Floats], Floats], sign: int
) -> Interval | None:
    """Of log_of(speculative run) + sign · log(base's rate); S and A are drawn together, so that
    c keeps how they hang together."""
    if len(ours) + len(theirs) > 2:
        base = [-sign * _log_of_all(columns, _log_rate) for columns in theirs] if sign else []
        return intervals.over_starts([_log_of_all(columns, log_of) for columns in ours], base)
    spread = intervals.resampled(ours[0], log_of)
    plain = intervals.resampled(theirs[0], _log_rate)
    if spread is None or plain is None:
        return None
    if sign:
        spread -= intervals.Spread(-sign * plain.value, plain.variance, plain.freedom)
    return spread.interval(intervals.WITHIN_RUN)


def position_yields(rows: pl.DataFrame) -> tuple[float, ...]:
    """Tokens a step would yield with only the first k positions drafted, k = 1, 2, …

    1 + Σ of the first k per-position rates, weighted by request_steps; also what a step with k
    drafts may cost at most, in plain steps. Empty where no positions are printed.
    """
    known = rows.filter(
        (pl.col("accept_per_position").list.len() > 0) & (pl.col("request_steps") > 0)
    )
    if not known.height:
        return ()
    width = int(known["accept_per_position"].list.len().max() or 0)  # type: ignore[arg-type]
    known = known.filter(pl.col("accept_per_position").list.len() == width)
    rates = np.array(known["accept_per_position"].to_list())
    mean = np.average(rates, axis=0, weights=known["request_steps"].to_numpy())
    return tuple(float(v) for v in 1 + np.cumsum(mean))


def proposed(run: RunData) -> int | None:
    """Draft tokens proposed a step: SGLang counts one more in num_draft_tokens."""
    tokens = run.card["spec_draft_tokens"]
    if tokens is None:
        return None
    return int(tokens) - int(run.card["engine"] == "sglang")


def best_k(tried: Sequence[tuple[int, float]]) -> int | None:
    """The number of proposed tokens with the highest speed-up; only of runs that tried several.

    Args:
        tried: (proposed tokens a step, speed-up over the same base) of each run.
    """
    if len({k for k, _ in tried}) < 2:
        return None
    return max(tried, key=itemgetter(1))[0]
