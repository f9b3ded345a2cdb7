"""Rules about benchmarks joined to the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from data.findings.model import INFO, WARNING, Case, Finding


def _name(row: dict[str, Any]) -> str:
    """A point as a reader knows it."""
    if row["concurrency"] is not None:
        return f"the benchmark at concurrency {row['concurrency']:g}"
    if row["request_rate"] is not None:
        return f"the benchmark at {row['request_rate']:g} requests/s"
    return "the benchmark"


def _span(row: dict[str, Any]) -> dict[str, Any]:
    return {"start": row["window_started_at"], "end": row["window_ended_at"]}


def above_cap(case: Case) -> Iterator[Finding]:
    """The client kept more requests open than the server lets run."""
    if case.cap is None:
        return
    cap = case.cap * case.run.ranks
    over = case.run.bench.filter(pl.col("concurrency") > cap)
    for row in over.sort("concurrency").tail(1).iter_rows(named=True):
        waiting = row["concurrency"] - cap
        yield Finding(
            "bench_above_cap", WARNING,
            f"{_name(row).capitalize()} is above the server's cap of {cap}: {waiting:g} requests "
            "always wait.",
            "Its time to first token measures the queue, and its throughput is that of the cap.",
            case.name("--max-running-requests", "--max-num-seqs")
            + f" at {row['concurrency']:g}, or concurrency {cap}",
            {"concurrency": row["concurrency"], "cap": cap}, **_span(row),
        )  # fmt: skip


def failed_requests(case: Case) -> Iterator[Finding]:
    """Part of a benchmark's requests failed."""
    for row in case.run.bench.filter(pl.col("failed") > 0).iter_rows(named=True):
        asked = row["num_prompts"] or (row["completed"] or 0) + row["failed"]
        yield Finding(
            "bench_failed", WARNING,
            f"{row['failed']} of {asked} requests of {_name(row)} failed.",
            "Its throughput and latencies are those of the others only.",
            "the server's events in that time", {"failed": row["failed"], "asked": asked},
            **_span(row),
        )  # fmt: skip


def random_prompts(case: Case) -> Iterator[Finding]:
    """Acceptance was measured on prompts without meaning."""
    if not case.run.speculates:
        return
    rows = case.run.bench.filter(pl.col("dataset").str.contains(r"^random"))
    for row in rows.head(1).iter_rows(named=True):
        yield Finding(
            "bench_random_prompts", WARNING,
            f"{_name(row).capitalize()} sent random prompts ({row['dataset']}): its acceptance "
            "says little about real text.",
            "A draft model that works may look useless, and n-gram drafts may look too good.",
            "a data set of real prompts (ShareGPT, your own requests)",
            {"dataset": row["dataset"]}, **_span(row),
        )  # fmt: skip


def tokens_differ(case: Case) -> Iterator[Finding]:
    """Log and client disagree about how many tokens were made."""
    beyond = pl.col("token_difference").abs() > pl.col("allowed_tokens")
    for row in case.run.bench.filter(beyond).iter_rows(named=True):
        more = "more" if row["token_difference"] > 0 else "fewer"
        yield Finding(
            "bench_tokens_differ", WARNING,
            f"The log has {abs(row['token_difference']):,.0f} tokens {more} than the client counts "
            f"in {_name(row)} ({row['allowed_tokens']:,.0f} are explained).",
            "Other clients were served at the same time, lines are missing, or the join is wrong.",
            "the same time in the chart, and whether the benchmark belongs to this run",
            {"difference": round(row["token_difference"]), "allowed": round(row["allowed_tokens"])},
            **_span(row),
        )  # fmt: skip


def odd_numbers(case: Case) -> Iterator[Finding]:
    """A benchmark holds numbers that cannot be."""
    for row in case.run.bench.drop_nulls("extra").iter_rows(named=True):
        odd = json.loads(row["extra"]).get("impossible")
        texts = odd if isinstance(odd, list) else [odd] if odd else []
        if texts:
            yield Finding(
                "bench_odd_numbers", WARNING,
                f"{_name(row).capitalize()} holds numbers that cannot be: "
                + "; ".join(map(str, texts[:3])) + ".",
                "Latencies of this point are not to be trusted.",
                "streaming on in the client, and outputs longer than two tokens",
                {"oddities": len(texts)}, **_span(row),
            )  # fmt: skip


def mostly_ramp(case: Case) -> Iterator[Finding]:
    """A point with so few requests that it never ran steadily."""
    few = (pl.col("concurrency") > 1) & (pl.col("num_prompts") < 2 * pl.col("concurrency"))
    for row in case.run.bench.filter(few).iter_rows(named=True):
        yield Finding(
            "bench_mostly_ramp", INFO,
            f"{_name(row).capitalize()} sent {row['num_prompts']} requests only: it is mostly ramp "
            "up and tail.",
            "Its throughput is below what the server holds at that concurrency.",
            f"at least {5 * row['concurrency']:g} requests",
            {"num_prompts": row["num_prompts"], "concurrency": row["concurrency"]}, **_span(row),
        )  # fmt: skip


RULES = (
    above_cap, failed_requests, random_prompts, tokens_differ, odd_numbers, mostly_ramp,
)  # fmt: skip
