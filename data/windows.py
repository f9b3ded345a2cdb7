"""Throughput of one run out of its samples: steady numbers, single stream, the peak.

A sample describes the time since the sample before it of its rank; this module calls that time
with its tokens a window. A rate over several windows is Σ tokens / Σ seconds, never a mean of
printed rates. All functions are pure: frames in, frames or numbers out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

PEAK_S = 10.0
MIN_ADMISSIONS = 2  # one request after another
_GUESSES = 200
_SECOND = 1_000_000
_PLACE = ("file_id", "byte_offset")
NOT_MEASURABLE = "not measurable from this log"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Number:
    """One measured throughput, or in words why there is none."""

    value: float | None  # tokens per second
    windows: int = 0
    seconds: float = 0.0  # of the windows together
    why: str = ""  # where it comes from if not from the log, or why it is missing


# What the analysis reads of a sample. A run of a million is handed from rule to rule, and each of
# them pays for every column.
_READ = (
    "file_id", "byte_offset", "line_no", "ts", "kind", "engine_index", "running_reqs",
    "queued_reqs", "kv_tokens", "kv_usage", "gen_tok_s", "accept_len", "accept_rate_raw",
    "draft_accept_rate", "accept_def", "accepted_tokens", "drafted_tokens", "accept_per_position",
    "request_steps", "new_seqs", "new_tokens", "cached_tokens", "prefix_hit_rate", "graph_on",
    "interval_s", "interval_from", "window",
)  # fmt: skip


def counted(samples: pl.DataFrame) -> pl.DataFrame:
    """The samples of the ranks that count, in the order of the log: columns of _READ, and `lane`.

    Tensor-parallel ranks and pipeline stages print the same batch: only the lowest counts. Of
    data-parallel ranks and engines every one does; each is a lane.

    Args:
        samples: columns of parsers.records.SAMPLES, of one run.
    """
    found = _in_order(_of_lanes(samples).select(*_READ, "lane"))
    # A column without any value costs nothing from here on where it is said to be one null.
    empty = [column for column in found.iter_columns() if column.null_count() == found.height]
    return found.with_columns(pl.lit(None, one.dtype).alias(one.name) for one in empty)


def _of_lanes(samples: pl.DataFrame) -> pl.DataFrame:
    group = [name for name in ("dp_rank", "engine_index") if not _alike(samples[name])]
    staged = not (_alike(samples["pp_rank"]) and _alike(samples["tp_rank"]))
    if not group and not staged:
        return samples.with_columns(lane=pl.lit(0, pl.UInt32))
    group = group or ["dp_rank"]
    stage = (pl.col("pp_rank").fill_null(0), pl.col("tp_rank").fill_null(0))
    lanes = (
        samples.select(*group, _pp=stage[0], _tp=stage[1])
        .unique()
        .sort(*group, "_pp", "_tp", nulls_last=False)
        .unique(group, keep="first", maintain_order=True)
        .with_row_index("lane")
    )
    found = samples.join(lanes, on=group, how="left", nulls_equal=True)
    return (
        found.filter((stage[0] == pl.col("_pp")) & (stage[1] == pl.col("_tp"))) if staged else found
    )


def _in_order(samples: pl.DataFrame) -> pl.DataFrame:
    """Of several rotated files the one that began earlier comes first."""
    if _alike(samples["file_id"]):
        return samples.sort("byte_offset")
    return samples.sort(pl.col("ts").min().over("file_id"), "file_id", "byte_offset")


def _alike(values: pl.Series) -> bool:
    """Whether all rows hold one value, or none holds any."""
    nulls = values.null_count()
    return nulls == len(values) or (nulls == 0 and bool((values == values[0]).all()))


def windows(samples: pl.DataFrame) -> pl.DataFrame:
    """One row per decode or stats window of a run, in the order of the log.

    Args:
        samples: as `counted` gives them.

    Returns:
        the columns of the samples and
        - tokens: null where the window's length is not known;
        - prefills: prefill lines inside;
        - crowded: of these, the ones of several sequences or beside running ones;
        - first_tokens: new sequences inside, whose first token a prefill made (SGLang counts it
          in no decode line).
        vLLM's spec line is laid over the stats line above it.
    """
    prefill = pl.col("kind") == "prefill"
    alone = ((pl.col("new_seqs") == 1) & (pl.col("running_reqs") == 0)).fill_null(False)
    inside = {
        "prefills": prefill.cast(pl.Int32),
        "crowded": (prefill & ~alone).cast(pl.Int32),
        "first_tokens": pl.when(prefill).then("new_seqs").otherwise(0).fill_null(0),
    }
    sofar = [value.cum_sum().over("lane").alias(name) for name, value in inside.items()]
    seen = samples.with_columns(sofar)
    rows = seen.filter(pl.col("kind").is_in(["decode", "stats"])).with_columns(
        *((pl.col(name) - pl.col(name).shift(1, fill_value=0)).over("lane") for name in inside),
        tokens=pl.col("gen_tok_s") * pl.col("interval_s"),
    )
    spec = samples.filter(pl.col("kind") == "spec")
    return _with_spec(rows, spec) if spec.height else rows


_SPEC = (
    "accept_len", "accept_rate_raw", "draft_accept_rate", "accept_def", "accepted_tokens",
    "drafted_tokens", "accept_per_position", "request_steps",
)  # fmt: skip


def _with_spec(rows: pl.DataFrame, spec: pl.DataFrame) -> pl.DataFrame:
    """Stats rows with the values of the spec line that follows each before the next."""
    nth = pl.int_range(pl.len()).over("lane")
    numbered = rows.with_columns(_nth=nth)
    places = numbered.select("lane", "file_id", "byte_offset", "_nth")
    above = (
        spec.select("lane", *_PLACE, *_SPEC)
        .sort("byte_offset")
        .join_asof(
            places.sort("byte_offset"), on="byte_offset", by=["lane", "file_id"],
            check_sortedness=False,
        )
        .drop_nulls("_nth")
        .unique(["lane", "_nth"], keep="last")
        .drop(*_PLACE)
    )  # fmt: skip
    return numbered.drop(_SPEC).join(above, on=["lane", "_nth"], how="left").drop("_nth")


def measured(rows: pl.DataFrame) -> pl.DataFrame:
    """The windows whose tokens and seconds are both known."""
    return rows.filter(pl.col("tokens").is_not_null() & (pl.col("interval_s") > 0))


def steady(rows: pl.DataFrame) -> pl.DataFrame:
    """The steady windows: a constant running count, no prefill inside."""
    return measured(rows).filter(pl.col("window") == "steady")


def rate(rows: pl.DataFrame) -> float | None:
    """Tokens per second over these windows: Σ tokens / Σ seconds; None without any."""
    seconds = total(rows["interval_s"])
    return total(rows["tokens"]) / seconds if seconds else None


def total(values: pl.Series) -> float:
    """The sum of what is known."""
    return float(values.cast(pl.Float64).sum())


def accept_len(rows: pl.DataFrame) -> float | None:
    """Mean tokens per verification step and request, weighted by request_steps."""
    return weighted(rows, "accept_len", "request_steps")


def weighted(rows: pl.DataFrame, name: str, by: str) -> float | None:
    """The mean of a column, weighted by another; None where nothing is known."""
    known = rows.filter(pl.col(name).is_not_null() & (pl.col(by) > 0))
    weight = total(known[by])
    return total(known[name] * known[by]) / weight if weight else None


def decode_tok_s_at_1(rows: pl.DataFrame) -> Number:
    """Tokens per second of steady windows with one running request over all ranks.

    Compare with 1000 / TPOT in milliseconds.
    """
    held = steady(rows).filter(pl.col("running_reqs") == 1)
    return _number(_alone(held, rows), "no steady window with one running request")


def single_stream_tok_s(rows: pl.DataFrame) -> Number:
    """Tokens per second of one request after another, their prefills included.

    Consecutive windows with one running request whose prefills each had one new sequence and
    found none running, at least two of them between two idle times: the tail of a burst and the
    server's own warm-up do not count. Compare with the client's
    output tokens / duration. vLLM's lines do not tell its admissions, so there it is measurable
    from a benchmark only.
    """
    one = (pl.col("running_reqs") == 1) & (pl.col("crowded") == 0)
    timed = pl.col("window").is_in(["steady", "mixed"])
    stream = (~(one & timed)).fill_null(True).cum_sum().over("lane")
    admissions = pl.when(one & (pl.col("window") != "startup")).then("prefills").otherwise(0).sum()
    streams = rows.filter(pl.col("kind") == "decode").with_columns(stream=stream)
    single = measured(
        streams.filter(one & timed & (admissions.over("lane", "stream") >= MIN_ADMISSIONS))
    ).filter(pl.col("interval_from") == "steps")
    single = single.with_columns(tokens=pl.col("tokens") + pl.col("first_tokens").fill_null(0))
    return _number(_alone(single, rows), "no window of one request after another")


def _number(rows: pl.DataFrame, missing: str) -> Number:
    value = rate(rows)
    if value is None:
        return Number(None, why=f"{NOT_MEASURABLE}: {missing}")
    return Number(value, rows.height, total(rows["interval_s"]))


def _alone(rows: pl.DataFrame, everything: pl.DataFrame) -> pl.DataFrame:
    """The windows during which no other lane had a request running."""
    if everything["lane"].n_unique() < 2 or not rows.height:
        return rows
    busy = everything.select("lane", "ts", "interval_s", "running_reqs").filter(
        (pl.col("running_reqs") > 0) & pl.col("interval_s").is_not_null()
    )
    overlaps = _overlaps(_span(busy), _span(rows))
    kept = []
    for (lane,), own in rows.with_columns(_n=overlaps).group_by("lane", maintain_order=True):
        inside = _overlaps(_span(busy.filter(pl.col("lane") == lane)), _span(own))
        kept.append(own.filter(own["_n"] <= pl.Series(inside)).drop("_n"))
    return pl.concat(kept)


def _overlaps(busy: tuple[Floats, Floats], asked: tuple[Floats, Floats]) -> npt.NDArray[np.int64]:
    """How many of the busy spans have a moment in common with each of those asked about."""
    starts, ends = busy
    start, end = asked
    before = np.searchsorted(np.sort(starts, kind="stable"), end)
    return np.asarray(before - np.searchsorted(np.sort(ends, kind="stable"), start, side="right"))


def _span(rows: pl.DataFrame) -> tuple[Floats, Floats]:
    """Start and end of each window in seconds."""
    end = rows["ts"].to_physical().to_numpy() / _SECOND
    return end - rows["interval_s"].to_numpy(), end


def peak_log_tok_s(rows: pl.DataFrame) -> Number:
    """Most tokens in any 10 s, over all ranks, per second; a longer window counts as it is.

    Windows after idleness are left out: nobody knows when in them their tokens were made.
    """
    known = measured(rows.select("lane", "ts", "interval_s", "tokens", "window")).filter(
        pl.col("window").is_in(["steady", "mixed"]) & pl.col("ts").is_not_null()
    )
    if not known.height:
        return Number(None, why=f"{NOT_MEASURABLE}: no window under load")
    starts, ends, rates = [], [], []
    for _, lane in known.group_by("lane", maintain_order=True):
        start, end = _placed(lane)
        starts.append(start)
        ends.append(end)
        rates.append(lane["tokens"].to_numpy() / np.maximum(end - start, 1e-9))
    at = np.concatenate(starts + ends)
    change = np.concatenate(rates + [-r for r in rates])
    order = np.argsort(at, kind="stable")
    at, speed = at[order], np.cumsum(change[order])
    sofar = np.append(0.0, np.cumsum(speed[:-1] * np.diff(at)))
    edges = np.concatenate([at, at - PEAK_S])
    gained = np.interp(edges + PEAK_S, at, sofar) - np.interp(edges, at, sofar)
    return Number(float(gained.max()) / PEAK_S, known.height, total(known["interval_s"]))


def _placed(lane: pl.DataFrame) -> tuple[Floats, Floats]:
    """Windows of one lane laid end to end where their stamps allow it.

    A whole-second stamp stands for any moment of its second. Taking it as the window's end would
    let up to 11 seconds of tokens fall into 10.
    """
    stamp = lane["ts"].to_physical().to_numpy() / _SECOND
    length = lane["interval_s"].to_numpy()
    ends = _ends(stamp, length, np.where(stamp % 1 == 0, stamp + 0.999999, stamp))
    starts = np.maximum(ends - length, np.append(-np.inf, ends[:-1]))
    return starts, ends


def _ends(stamp: Floats, length: Floats, latest: Floats, guesses: int = _GUESSES) -> Floats:
    """Where each window ends: its length after the one before, but from its stamp to `latest`.

    Every end hangs on the one before. All are guessed at once, and those after a guess that was
    wrong once more: few windows pass a wrong guess on for long. What is left after `guesses` goes
    one by one.
    """
    ends = stamp.copy()
    wrong = np.arange(len(stamp))
    for _ in range(guesses):
        previous = np.where(wrong > 0, ends[wrong - 1], -np.inf)
        better = np.minimum(np.maximum(previous + length[wrong], stamp[wrong]), latest[wrong])
        changed = better != ends[wrong]
        ends[wrong[changed]] = better[changed]
        wrong = wrong[changed] + 1
        wrong = wrong[wrong < len(stamp)]
        if not len(wrong):
            return ends
    for first in wrong.tolist():
        for i in range(first, len(stamp)):
            before = ends[i - 1] if i else -np.inf
            end = min(max(before + length[i], stamp[i]), latest[i])
            if end == ends[i]:
                break
            ends[i] = end
    return ends


def ranks_seen(samples: pl.DataFrame) -> int:
    """How many lanes printed anything."""
    return samples["lane"].n_unique()
