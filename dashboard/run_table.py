"""The table of runs as the page shows it: which columns, in which words and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import polars as pl
import streamlit as st

from dashboard import sentences, words
from data import shapes

_ORDER: Final = ["running", "silent", "crashed", "lost", "stopped"]
_SETUP: Final = ("engine", "model", "parallel", "speculation")
_SILENT_AFTER: Final = timedelta(seconds=sentences.LOST_AFTER_S)


def with_states(runs: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """The runs with a column state. One that has not ended, as far as its log tells, is idle or
    gone where it has printed nothing for a long time: Live knows which.

    Args:
        now: in UTC, without a zone.
    """
    is_silent = pl.lit(now) - pl.col("last_ts") > _SILENT_AFTER
    goes_on = pl.when(is_silent).then(pl.lit("silent")).otherwise(pl.lit("running"))
    return runs.with_columns(state=pl.coalesce("end_state", goes_on))


def summary(runs: pl.DataFrame, every: pl.DataFrame) -> str:
    """How many runs there are, how they ended, and how many of all these are."""
    if runs.is_empty():
        return f"None of {words.counted(every.height, 'run')}."
    counts = dict(runs["state"].value_counts().iter_rows())
    parts = [f"{counts[state]} {state}" for state in _ORDER if state in counts]
    some = f"{runs.height:,} of " if runs.height < every.height else ""
    return f"{some}{words.counted(every.height, 'run')}: {', '.join(parts)}."


def shown(runs: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """One row a run, in the order given, with the columns of `columns`.

    Args:
        names: of data.run_names.
    """
    engine = pl.concat_str("engine", "engine_version", separator=" ", ignore_nulls=True)
    parallel = pl.format("TP {} × DP {}", pl.col("tp").fill_null(1), pl.col("dp").fill_null(1))
    speculation = pl.when(pl.col("spec_algorithm").is_null()).then(pl.lit("none"))
    return runs.select(
        run=pl.format("/run?run={}", "run_id"),
        name=pl.col("run_id").replace_strict(names, return_dtype=pl.String),
        marks=pl.concat_str(
            pl.when("baseline").then(pl.lit("baseline")),
            pl.when("archived").then(pl.lit("archived")),
            pl.when(pl.col("tags").list.len() > 0).then(pl.col("tags").list.join(", ")),
            separator=", ", ignore_nulls=True,
        ).replace("", None),
        state="state",
        started=pl.coalesce("started_at", "first_ts"),
        engine=engine,
        model=pl.col("model").str.split("/").list.last(),
        speculation=speculation.otherwise(
            pl.concat_str(
                "spec_algorithm", pl.format(", {} draft tokens", "spec_draft_tokens"),
                ignore_nulls=True,
            )
        ),
        cap="max_running_requests",
        shape="shape",
        steady="steady_tok_s",
        at_one="decode_tok_s_at_1",
        accept="accept_len",
        peak="max_gen_tok_s",
        kv="max_kv_usage",
        points="n_points",
        faults="n_faults",
        retractions="n_retractions",
        ready_after=pl.col("ready_after_s"),
        duration=pl.col("duration_s").map_elements(words.duration, return_dtype=pl.String),
        parallel=parallel,
    )  # fmt: skip


def alike(shown: pl.DataFrame) -> dict[str, str]:
    """What several rows have in common, by column: said once it need not stand in each row."""
    same = [name for name in _SETUP if shown.height > 1 and shown[name].n_unique() == 1]
    return {name: shown[name][0] for name in same if shown[name][0] is not None}


def in_common(same: Mapping[str, str]) -> str:
    """The same in words."""
    titles = {name: column["label"] for name, column in _identity().items()}
    return f"All: {', '.join(f'{titles[name]} {value}' for name, value in same.items())}."


def baseline_of(cards: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Which of several runs the others are held against: the one that is marked, else the one
    that started first."""
    marked = [card for card in cards if card["baseline"]]
    return (marked or sorted(cards, key=_start))[0]


def _start(card: Mapping[str, Any]) -> tuple[bool, datetime]:
    start = card["started_at"] or card["first_ts"]
    return start is None, start or datetime.max


STEADY_HELP = (
    "Tokens over seconds of the windows with a constant number of running requests. A dash: not "
    "measurable from this log. vLLM has such windows only while the same requests run through a "
    "whole interval of its stats."
)


def columns() -> dict[str, Any]:
    """Titles, units and definitions of the columns."""
    return {**_identity(), **_figures()}


def _identity() -> dict[str, Any]:
    text, figure = st.column_config.TextColumn, st.column_config.NumberColumn
    return {
        "run": st.column_config.LinkColumn(
            "Run",
            display_text=r"run=(.{8})",
            help="The first digits of the run's id; commands take them. Opens the run's page.",
        ),
        "name": text(
            "Name",
            help="Its label, else its file with the folder; where runs share that, with the start.",
        ),
        "marks": text("Tags", help="Baseline, archived, and the tags it was given."),
        "state": text(
            "State",
            help="Running; silent: no line for ten minutes, so idle or gone; stopped in order; "
            "crashed; or lost: its log ends without a stop.",
        ),
        "engine": text("Engine"),
        "model": text("Model", help="The last part of the model's path or name."),
        "parallel": text("Parallel", help="Tensor-parallel size × data-parallel size."),
        "speculation": text(
            "Speculation", help="Method, and draft tokens as the engine's own argument counts them."
        ),
        "cap": figure("Cap", help="Running requests allowed, as printed; SGLang's is per DP rank."),
        "started": st.column_config.DatetimeColumn(
            "Started", format="YYYY-MM-DD HH:mm:ss", help="As the log's clock shows it."
        ),
        "ready_after": figure(
            "Ready after, s", format="%.1f", help="From the first line to the ready line."
        ),
        "duration": text("Duration", help="From the first line to the last."),
    }


def _figures() -> dict[str, Any]:
    figure = st.column_config.NumberColumn
    return {
        "shape": st.column_config.LineChartColumn(
            "Throughput",
            width=110,
            y_min=0,
            help="Generated tokens per second over the time of the run, in "
            f"{shapes.PIECES} equal pieces; the tokens of a line count where it stands.",
        ),
        "steady": figure("Steady tok/s", format="%.1f", help=STEADY_HELP),
        "at_one": figure(
            "tok/s at 1",
            format="%.1f",
            help="Steady tok/s of the windows with exactly one running request over all ranks. "
            "A dash: not measurable from this log.",
        ),
        "accept": figure(
            "Accept length",
            format="%.2f",
            help="Tokens a verification step yields for a request, bonus token included, "
            "weighted by steps.",
        ),
        "peak": figure(
            "Peak of one rank, tok/s",
            format="%.0f",
            help="The highest rate that one data-parallel rank printed; not a sum over ranks.",
        ),
        "kv": st.column_config.ProgressColumn(
            "Highest KV use",
            format="percent",
            min_value=0,
            max_value=1,
            width=110,
            help="Share of the KV cache pool in use, of the fullest rank.",
        ),
        "points": figure(
            "Benchmark points", help="Results of load generators that this run served."
        ),
        "faults": figure(
            "Faults", help="Incidents such as a crash or a failed start; lines of one count once."
        ),
        "retractions": figure(
            "Retractions", help="Requests put back because the KV cache was full."
        ),
    }
