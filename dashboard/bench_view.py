"""Benchmark points as the Bench page shows them: grouped into set-ups, with what is derived."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

import polars as pl
import streamlit as st

from dashboard import words
from data import bench_text, palette
from data.run_names import run_names

SHOWN: Final = 4  # set-ups on the first paint


def with_sets(points: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Points with name, set and slot, tok_s_user, tok_s_gpu and the cap of their run.

    Args:
        points: of data.bench.points.
        runs: of data.queries.runs_table.

    A set is what one line of a chart joins: the points of one label, else of one run, else of
    one folder and tool. tok_s_user is 1000 / TPOT, the median where there is one; tok_s_gpu is
    output_tok_s over the GPUs of the point or its run, null where nobody says how many.
    """
    about = runs.select(
        "run_id",
        run_name=pl.col("run_id").replace_strict(run_names(runs), return_dtype=pl.String),
        run_gpus="gpus",
        cap=pl.col("max_running_requests") * pl.col("dp").fill_null(1),
    )
    joined = points.join(about, on="run_id", how="left")
    tpot = pl.coalesce("tpot_ms_median", "tpot_ms_mean")
    named = joined.with_columns(
        name=pl.Series(
            [bench_text.point_name(row) for row in joined.iter_rows(named=True)], dtype=pl.String
        ),
        set=pl.Series([_set(row) for row in joined.iter_rows(named=True)], dtype=pl.String),
        tok_s_user=pl.when(tpot > 0).then(1000 / tpot),
        tok_s_gpu=pl.col("output_tok_s") / pl.coalesce("gpus", "run_gpus"),
    )
    return named.sort(
        "set", "concurrency", "request_rate", "position", nulls_last=True, maintain_order=True
    )


def with_slots(shown: pl.DataFrame) -> pl.DataFrame:
    """The points that are drawn together, with a palette slot of its own for each set."""
    return shown.with_columns(slot=pl.col("set").replace_strict(_slots(shown)))


def _set(row: Mapping[str, Any]) -> str:
    if name := row["label"] or row["run_label"] or row["run_name"]:
        return str(name)
    file = PurePath(row["bench_file"] or "")
    return f"{file.parent.name or file.stem} ({row['tool']})"


def _slots(points: pl.DataFrame) -> dict[str, str]:
    """A palette slot for each set: that of its run where it is free."""
    sets = points.select("set", "run_id").unique("set", maintain_order=True).rows()
    places = palette.slots([run_id or name for name, run_id in sets])
    return {name: str(place) for (name, _), place in zip(sets, places, strict=True)}


def headline(points: pl.DataFrame) -> str:
    """How many points there are, and the best one."""
    sets = points["set"].n_unique()
    text = f"{words.counted(points.height, 'benchmark point')} of {words.counted(sets, 'set-up')}"
    row = _best(points)
    if row is None:
        return f"{text}."
    return f"{text}; most output {words.number(row['output_tok_s'])} tok/s: {row['set']}{at(row)}."


def _best(points: pl.DataFrame) -> dict[str, Any] | None:
    """The point with most output; None where no point tells its output."""
    best = points.drop_nulls("output_tok_s").sort(
        "output_tok_s", descending=True, maintain_order=True
    )
    return best.row(0, named=True) if best.height else None


def at(row: Mapping[str, Any]) -> str:
    """The load of a point, in words."""
    if row["concurrency"]:
        return f" at {words.whole(row['concurrency'])} concurrent"
    return (
        f" at {words.number(row['request_rate'])} requests a second" if row["request_rate"] else ""
    )


def table(points: pl.DataFrame) -> pl.DataFrame:
    """One row a point, with the columns of `columns`."""
    return points.select(
        set="set",
        concurrency="concurrency",
        rate="request_rate",
        output="output_tok_s",
        user="tok_s_user",
        ttft="ttft_ms_median",
        ttft99="ttft_ms_p99",
        tpot="tpot_ms_median",
        accept=pl.coalesce("accept_len", "server_accept_len"),
        completed="completed",
        failed="failed",
        running="server_running_reqs",
        queued="server_queued_reqs",
        odd=bench_text.odd_count(),
        tool="tool",
        dataset="dataset",
        point="name",
    )


def columns() -> dict[str, Any]:
    """Titles, units and definitions of the columns."""
    text, figure = st.column_config.TextColumn, st.column_config.NumberColumn
    return {
        "set": text("Set-up", help="The label, else the run, else the folder of the file."),
        "concurrency": figure("Concurrency", format="%d", help="Requests allowed at once."),
        "rate": figure("Rate, req/s", format="%.2f", help="Requests per second asked for."),
        "output": figure(
            "Output tok/s",
            format="%.1f",
            help="Generated tokens per second, as the client counted.",
        ),
        "user": figure("tok/s per user", format="%.1f", help="1000 / TPOT in ms."),
        "ttft": figure(
            "TTFT p50, ms", format="%.0f", help="Time to the first token, half of them below."
        ),
        "ttft99": figure(
            "TTFT p99, ms", format="%.0f", help="Time to the first token, 99 of 100 below."
        ),
        "tpot": figure("TPOT p50, ms", format="%.2f", help="Without the first token."),
        "accept": figure("Accept length", format="%.2f", help="Bonus token included."),
        "completed": figure("Completed", help="Requests with a whole answer."),
        "failed": figure("Failed", help="Requests without one."),
        "running": figure(
            "Server running", format="%.1f", help="Mean over the point, from the server's log."
        ),
        "queued": figure("Server queue", format="%.1f", help="Likewise."),
        "odd": figure("Odd", help="Reasons to doubt the point; select it to read them."),
        "tool": text("Tool"),
        "dataset": text("Data set"),
        "point": text("File"),
    }


def notes(row: Mapping[str, Any]) -> list[str]:
    """How values of the point are to be read."""
    return list(json.loads(row["extra"] or "{}").get("notes", []))


def server_side(row: Mapping[str, Any]) -> pl.DataFrame | None:
    """What the server's log says over the point, beside the client's values; None if unjoined."""
    if row["window_started_at"] is None:
        return None
    facts = [
        ("Output tok/s", row["output_tok_s"], row["server_gen_tok_s"], words.number),
        ("Running requests", row["concurrency"], row["server_running_reqs"], words.number),
        ("Queued requests", None, row["server_queued_reqs"], words.number),
        ("Accept length", row["accept_len"], row["server_accept_len"], words.number),
        ("KV use", None, row["server_kv_usage"], words.percent),
        ("Prefix cache hits", None, row["server_prefix_hit_rate"], words.percent),
        ("Tokens", row["output_tokens"], row["log_tokens"], words.whole),
    ]
    return pl.DataFrame(
        {
            "value": [name for name, *_ in facts],
            "client": [show(client) for _, client, _, show in facts],
            "server's log": [show(server) for _, _, server, show in facts],
        }
    )


def join_sentence(row: Mapping[str, Any]) -> str:
    """How the point was joined to its run, or that it was not."""
    if row["run_id"] is None:
        return "No run was found that served this point. Import its server's log, then look again."
    run = row["run_name"] or row["run_id"][:8]
    if row["window_started_at"] is None:
        return f"Given as of run {run}; its time was not found in the log."
    span = f"{words.clock(row['window_started_at'])} to {words.clock(row['window_ended_at'])}"
    how = {
        "clock": "by its clock",
        "order": "by its tokens, duration and requests",
        "explicit": "as given",
    }[row["join_method"]]
    offset = row["clock_offset_s"]
    zone = f", {offset / 3600:+g} h on the server's clock" if offset else ""
    return f"Run {run}, {span} of the server's clock: joined {how}{zone}."


def token_sentence(row: Mapping[str, Any]) -> str | None:
    """The token check in one sentence; None where it could not be made."""
    difference, allowed = row["token_difference"], row["allowed_tokens"]
    if difference is None or allowed is None:
        return None
    verdict = "can be explained" if abs(difference) <= allowed else "cannot be explained"
    return (
        f"Log minus client: {difference:+,.0f} tokens; {words.whole(allowed)} {verdict} by "
        f"{_parts(row['join_detail'])}."
    )


_PARTS: Final = {
    "share": "5 % of the client's",
    "tail": "the tail that was not printed",
    "tail_before": "the tail of the point before",
    "first_tokens": "first tokens",
    "warmup": "warm-up requests",
    "failed": "failed requests",
    "shared": "windows with other load",
}


def _parts(detail: str | None) -> str:
    allowed: Mapping[str, float] = json.loads(detail or "{}").get("allowed", {})
    named = [f"{_PARTS[name]} ({words.whole(n)})" for name, n in allowed.items() if n >= 0.5]
    return ", ".join(named)


def default_sets(points: pl.DataFrame) -> Sequence[str]:
    """The set-ups of the first paint: that of the headline, and those with most points."""
    counts = points.group_by("set").len().sort("len", "set", descending=[True, False])
    most, best = counts["set"].to_list(), _best(points)
    named = [] if best is None else [best["set"]]
    return [*named, *(name for name in most if name not in named)][:SHOWN]
