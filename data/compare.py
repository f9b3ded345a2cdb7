"""Any number of configurations against a baseline: numbers, ratios with honest intervals, and
what is configured differently.

A configuration is one or more starts. Pure functions over `RunData`; `data.report` writes the
result down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from data import configs, intervals, matching, speculation
from data import windows as w
from data.configs import Difference, LoweredCap
from data.intervals import Interval
from data.matching import Match
from data.names import tame
from data.run_data import RunData
from data.speculation import Economics
from parsers.records import CHOICES

_WITH_BONUS = CHOICES["accept_def"][1]
POINT_COLUMNS = ("output_tok_s", "ttft_ms_median", "tpot_ms_median")
RATES = ("single_stream_tok_s", "decode_tok_s_at_1", "peak_log_tok_s", "best_point_tok_s")


@dataclass(frozen=True, slots=True)
class Group:
    """The starts of one configuration."""

    label: str
    runs: tuple[RunData, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A throughput of a configuration."""

    value: float | None  # tokens per second
    note: str  # where it comes from, or why it is missing


@dataclass(frozen=True, slots=True)
class Summary:
    """One configuration by itself."""

    label: str
    run_ids: tuple[str, ...]
    engine: str | None
    engine_version: str | None
    model: str | None
    starts: int
    rates: dict[str, Measured]
    accept_len: float | None
    accept_rate_raw: float | None
    draft_accept_rate: float | None
    accept_note: str
    max_running_requests: int | None  # over all ranks


@dataclass(frozen=True, slots=True)
class Point:
    """A benchmark point that both sides have: equal concurrency, or equal request rate."""

    concurrency: float | None
    request_rate: float | None
    base: dict[str, float | None]  # POINT_COLUMNS, means over repeats
    other: dict[str, float | None]
    ratio: float | None  # of output_tok_s
    difference_tok_s: float | None
    interval: Interval | None
    note: str


@dataclass(frozen=True, slots=True)
class Pair:
    """One configuration against the baseline."""

    label: str
    base_label: str
    match: Match | None  # at equal running counts, from the logs
    no_match: str  # why there is none
    points: tuple[Point, ...]  # at equal concurrency, from benchmarks
    differences: tuple[Difference, ...]
    lowered_cap: LoweredCap | None
    economics: tuple[Economics, ...]
    no_economics: str  # why there are none, where speculation is on
    verdict: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that `servescope compare` says."""

    groups: tuple[Group, ...]  # the baseline first
    summaries: tuple[Summary, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]


def grouped(
    named: Sequence[tuple[str | None, RunData]], names: Mapping[str, str] | None = None
) -> list[Group]:
    """Runs by configuration, in their order: starts of one config_hash are one group.

    Args:
        named: the label that the user gave here, or None, with each run. Different given labels
            stay apart although their arguments are the same: something else was changed.
        names: of data.run_names, where the runs are known to the reader by them.
    """
    found: dict[tuple[Any, ...], list[tuple[str | None, RunData]]] = {}
    for label, run in named:
        same = run.card["config_hash"] or run.card["run_id"]
        key = (label, run.card["engine"], run.card["engine_version"], same)
        found.setdefault(key, []).append((label, run))
    groups: list[Group] = []
    for members in found.values():
        name = _group_name(members, names or {})
        taken = {group.label for group in groups}
        n = next(i for i in range(1, len(taken) + 2) if _numbered(name, i) not in taken)
        groups.append(Group(_numbered(name, n), tuple(run for _, run in members)))
    return groups


def _group_name(members: Sequence[tuple[str | None, RunData]], names: Mapping[str, str]) -> str:
    """A run's own name; several starts have no start in theirs."""
    label, run = members[0]
    alone = names.get(str(run.card["run_id"])) if len(members) == 1 else None
    return alone or (tame(label) if label else run.name)


def _numbered(name: str, n: int) -> str:
    return name if n == 1 else f"{name} ({n})"


def compare(groups: Sequence[Group], notes: Sequence[str] = ()) -> Comparison:
    """All groups against the first."""
    base, *others = groups
    return Comparison(
        tuple(groups),
        tuple(summary(group) for group in groups),
        tuple(pair(base, other) for other in others),
        (*notes, *_best_k(base, others)),
    )


def summary(group: Group) -> Summary:
    """A configuration's own numbers; over several starts Σ tokens / Σ seconds."""
    card = group.runs[0].card
    windows = pl.concat([w.measured(run.windows) for run in group.runs])
    cap = card["max_running_requests"]
    return Summary(
        group.label,
        tuple(run.card["run_id"] for run in group.runs),
        card["engine"], card["engine_version"], card["model"], len(group.runs),
        {name: _rate(group, name) for name in RATES},
        w.accept_len(windows),
        w.weighted(windows, "accept_rate_raw", "request_steps"),
        w.weighted(windows, "draft_accept_rate", "request_steps"),
        accept_note(group.runs[0], windows),
        None if cap is None else cap * group.runs[0].ranks,
    )  # fmt: skip


def _rate(group: Group, name: str) -> Measured:
    points = [run.bench for run in group.runs if run.bench.height]
    if name == "best_point_tok_s":
        best = max((v for p in points for v in p["output_tok_s"].drop_nulls()), default=None)
        return Measured(best, "" if best is not None else "no benchmark")
    found = [getattr(w, name)(run.windows) for run in group.runs]
    known = [number for number in found if number.value is not None]
    if known and name == "peak_log_tok_s":
        return Measured(max(number.value for number in known), "")
    if known:
        seconds = sum(number.seconds for number in known)
        values = [number.value for number in known if number.value is not None]
        pooled = sum(v * n.seconds for v, n in zip(values, known, strict=True)) / seconds
        spread = f"{min(values):,.1f} to {max(values):,.1f} over {len(values)} starts"
        return Measured(pooled, spread if len(values) > 1 else "")
    return _of_benchmark(name, points) or Measured(None, found[0].why)


def _of_benchmark(name: str, points: list[pl.DataFrame]) -> Measured | None:
    """A number of one stream from a joined benchmark at concurrency 1, saying so."""
    column = {"single_stream_tok_s": "output_tok_s", "decode_tok_s_at_1": "tpot_ms_mean"}.get(name)
    if column is None or not points:
        return None
    values = pl.concat([p.filter(pl.col("concurrency") == 1) for p in points])[column].drop_nulls()
    if not values.len():
        return None
    mean = float(np.mean(values.to_numpy()))
    if name == "decode_tok_s_at_1":
        return Measured(1000 / mean, "from the benchmark: 1000 / TPOT") if mean > 0 else None
    return Measured(mean, "from the benchmark")


def accept_note(run: RunData, windows: pl.DataFrame) -> str:
    """What the printed acceptance rate means in this release, where it misleads."""
    known = windows.filter(pl.col("accept_rate_raw").is_not_null())
    if not known.height or not (known["accept_def"] == _WITH_BONUS).any():
        return ""
    raw = w.weighted(known, "accept_rate_raw", "request_steps")
    length = w.accept_len(known)
    strict = w.weighted(known, "draft_accept_rate", "request_steps")
    if raw is None or length is None:
        return ""
    if length < 1.005:
        return f"{raw:.2f} is the floor of this version's formula: nothing is accepted"
    if strict is None:
        return f"accept rate {raw:.2f} as printed counts the bonus token"
    return f"accept rate {raw:.2f} as printed counts the bonus token; strict {strict:.2f}"


def pair(base: Group, other: Group) -> Pair:
    """One configuration against the baseline."""
    found = matching.match(base.runs, other.runs)
    match, no_match = (None, found) if isinstance(found, str) else (found, "")
    points = tuple(bench_points(base.runs, other.runs))
    economics: tuple[Economics, ...] = ()
    no_economics = ""
    if other.runs[0].speculates:
        reckoned = speculation.economics(other.runs, base.runs)
        if isinstance(reckoned, str):
            no_economics = reckoned
        else:
            economics = tuple(reckoned)
    return Pair(
        other.label, base.label, match, no_match, points,
        tuple(configs.differing([base.runs[0], other.runs[0]])),
        configs.lowered_cap(other.runs[0], base.runs[0]),
        economics, no_economics,
        verdict(base.label, other.label, match, no_match, points) + _but(match, points),
    )  # fmt: skip


def bench_points(base: Sequence[RunData], other: Sequence[RunData]) -> list[Point]:
    """Benchmark points that both sides have, at equal concurrency and request rate."""
    sides = [_points(runs) for runs in (base, other)]
    found = []
    for key in sorted(set(sides[0]) & set(sides[1]), key=lambda k: [v or 0.0 for v in k]):
        rows = [side[key] for side in sides]
        means = [{name: _mean(part[name]) for name in POINT_COLUMNS} for part in rows]
        before, after = (mean["output_tok_s"] for mean in means)
        logs = [np.log(part["output_tok_s"].drop_nulls().to_numpy()).tolist() for part in rows]
        sure = intervals.over_starts(logs[1], logs[0], intervals.OVER_POINTS) if all(logs) else None
        notes = [] if sure else [intervals.NONE_OF_ONE]
        notes += _unlike(*rows)
        known = before and after
        found.append(Point(
            key[0], key[1], means[0], means[1],
            after / before if before and after else None,
            after - before if before is not None and after is not None else None,
            sure if known else None, "; ".join(notes),
        ))  # fmt: skip
    return found


def _points(runs: Sequence[RunData]) -> dict[tuple[float | None, float | None], pl.DataFrame]:
    rows = pl.concat([run.bench for run in runs])
    key = ["concurrency", "request_rate"]
    usable = rows.filter(pl.any_horizontal(pl.col(key).is_not_null()))
    return {(k[0], k[1]): part for k, part in usable.group_by(key)}


def _mean(values: pl.Series) -> float | None:
    known = values.drop_nulls().cast(pl.Float64)
    return float(np.mean(known.to_numpy())) if known.len() else None


def _unlike(base: pl.DataFrame, other: pl.DataFrame) -> list[str]:
    """What makes two points of one concurrency differ in more than the server."""
    notes = []
    for name, what in (("input_tokens", "prompts"), ("output_tokens", "outputs")):
        sizes = [_mean(rows[name] / rows["completed"]) for rows in (base, other)]
        if sizes[0] and sizes[1] and not 0.8 < sizes[1] / sizes[0] < 1.25:
            notes.append(f"{what} of {sizes[1]:.0f} tokens against {sizes[0]:.0f}")
    for rows, side in ((base, "baseline"), (other, "this side")):
        failed = w.total(rows["failed"])
        if failed:
            notes.append(f"{failed:.0f} requests failed on the {side}")
    return notes


def verdict(
    base: str, label: str, match: Match | None, no_match: str, points: Sequence[Point]
) -> str:
    """The comparison in one sentence."""
    if match is None:
        best = [point for point in points if point.ratio is not None]
        if not best:
            return f"{label} and {base} cannot be compared: {no_match}."
        point = max(best, key=lambda p: p.base["output_tok_s"] or 0.0)
        at = load(point)
        told = [str(point.interval)] if point.interval else []
        sure = "; ".join([*told, point.note] if point.note else told)
        return f"{label} gives {point.ratio:.2f} times the output of {base} at {at} ({sure})."
    ratio, sure_of = match.ratio, match.interval
    where = f"at equal running counts ({_counts(match)})" + _starts(match)
    if sure_of is None:
        return f"{label} decodes at {ratio:.2f} times {base} {where}; {match.interval_note}."
    if sure_of.holds(1.0):
        return f"No measurable difference between {label} and {base} {where}: {sure_of}."
    small = abs(ratio - 1) < intervals.MIN_DIFFERENCE
    if small and sure_of.kind == intervals.WITHIN_RUN:
        return (
            f"{label} decodes at {ratio:.2f} times {base} {where}; one start a side names no "
            f"winner below {intervals.MIN_DIFFERENCE:.0%} ({sure_of})."
        )
    word = "faster" if ratio > 1 else "slower"
    return f"{label} is {word}: {ratio:.2f} times {base} {where} ({sure_of})."


def _but(match: Match | None, points: Sequence[Point]) -> str:
    """Where benchmark points say the contrary of the equal running counts of the logs."""
    known = sorted((p.concurrency, p.ratio) for p in points if p.concurrency and p.ratio)
    clear = [(at, r) for at, r in known if abs(r - 1) >= intervals.MIN_DIFFERENCE]
    contrary = clear
    if match is None:
        contrary = []
    elif abs(match.ratio - 1) >= intervals.MIN_DIFFERENCE:
        contrary = [(at, r) for at, r in clear if (r > 1) != (match.ratio > 1)]
    told = []
    if contrary:
        at, most = contrary[-1]
        told.append(f"the benchmark gives {most:.2f} times at concurrency {at:g}")
    turns = [(a, b) for (a, x), (b, y) in pairwise(clear) if (x > 1) != (y > 1)]
    if turns:
        a, b = turns[0]
        told.append(f"the sides cross between concurrency {a:g} and {b:g}")
    return f" But {'; '.join(told)}." if told else ""


def _starts(match: Match) -> str:
    base, other = match.starts
    return f", {other} starts against {base}" if base + other > 2 else ""


def _counts(match: Match) -> str:
    counts = sorted({cell.running for cell in match.cells})
    return ", ".join(map(str, counts[:6])) + (" …" if len(counts) > 6 else "")


def load(point: Point) -> str:
    """What both sides of a point were asked for."""
    if point.concurrency is not None:
        return f"concurrency {point.concurrency:g}"
    return f"{point.request_rate:g} requests/s"


def _best_k(base: Group, others: Sequence[Group]) -> list[str]:
    """Which number of proposed tokens was fastest; only where runs tried several."""
    tried: dict[int, dict[int, float]] = {}
    for other in others:
        k = speculation.proposed(other.runs[0])
        found = speculation.economics(other.runs, base.runs) if k is not None else ""
        for row in () if isinstance(found, str) else found:
            if k is not None and not row.refused:
                tried.setdefault(row.running, {})[k] = row.speedup
    notes = []
    for running, speedups in sorted(tried.items()):
        best = speculation.best_k(list(speedups.items()))
        if best is not None:
            shown = ", ".join(f"{k}: {speedup:.2f}" for k, speedup in sorted(speedups.items()))
            at = speculation.at_count(running)
            notes.append(f"of the draft lengths tried, {best} is fastest {at} ({shown})")
    return notes
