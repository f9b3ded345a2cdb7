"""Rules about room: the cap on running requests, and the memory of the KV cache."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import polars as pl

from data import configs
from data import windows as w
from data.findings.model import INFO, WARNING, Case, Finding, marginal_tok_s, share, shown

_SHARE = 0.1  # of the time under load, from which on waiting matters
_MIN_WINDOWS = 3
_FULL = 0.9
_BEFORE = timedelta(seconds=120)


def _known(**numbers: float | int | str | None) -> dict[str, float | int | str]:
    """The numbers that are known."""
    return {name: value for name, value in numbers.items() if value is not None}


def queue_at_cap(case: Case) -> Iterator[Finding]:
    """Requests wait while as many run as the cap allows."""
    if case.cap is None:
        return
    at_cap = case.busy.filter((pl.col("queued_reqs") > 0) & (pl.col("running_reqs") >= case.cap))
    part = share(at_cap, case.busy)
    if at_cap.height < _MIN_WINDOWS or part < _SHARE:
        return
    waiting = w.weighted(at_cap, "queued_reqs", "interval_s") or 0.0
    more = marginal_tok_s(case.busy)
    usage = at_cap["kv_usage"].max()
    flag = case.name("--max-running-requests", "--max-num-seqs")
    yield Finding(
        "queue_at_cap", WARNING,
        f"Requests wait while {case.cap} run, which is the cap: {part:.0%} of the time under "
        f"load, {waiting:.0f} in the queue on average.",
        "Time to first token grows with the queue while the GPU could take a larger batch.",
        f"{flag} higher than {case.cap}"
        + (f" (KV cache at most {usage:.0%} full)" if isinstance(usage, float) else ""),
        {"cap": case.cap, "share_of_time": round(part, 3), "mean_queue": round(waiting, 1)},
        cost_tok_s=more * waiting * part if more is not None else None,
        **shown(at_cap),
    )  # fmt: skip


def cap_lowered_by_speculation(case: Case) -> Iterator[Finding]:
    """Speculation lowered the cap without being asked."""
    found = configs.lowered_cap(case.run, case.base)
    if found is None:
        return
    yield Finding(
        "cap_lowered_by_speculation", WARNING, found.sentence + ".",
        f"At most {found.cap} running at once, however many requests are sent.",
        "--max-running-requests set to the cap that you want; speculation keeps one that is set",
        _known(cap=found.cap, base_cap=found.base_cap),
        lines=(found.line_no,) if found.line_no else (), quote=found.evidence,
    )  # fmt: skip


def cap_lowered_by_state_cache(case: Case) -> Iterator[Finding]:
    """The state cache of a hybrid model lowered the cap."""
    lines = case.events("override").filter(pl.col("evidence").str.contains("by the mamba state"))
    for row in lines.head(1).iter_rows(named=True):
        yield Finding(
            "cap_lowered_by_state_cache", WARNING,
            f"max_running_requests was lowered by the mamba state cache"
            f"{f' to {case.cap}' if case.cap else ''}.",
            "No more requests run at once than the state cache has slots for.",
            "--mamba-full-memory-ratio higher, or --max-mamba-cache-size",
            _known(cap=case.cap), lines=(row["line_no"],), quote=row["evidence"],
        )  # fmt: skip


def queue_for_memory(case: Case) -> Iterator[Finding]:
    """Requests wait below the cap because the KV cache is full."""
    full = case.busy.filter((pl.col("queued_reqs") > 0) & (pl.col("kv_usage") >= _FULL))
    if case.cap is not None:
        full = full.filter(pl.col("running_reqs") < case.cap)
    part = share(full, case.busy)
    if full.height < _MIN_WINDOWS or part < _SHARE:
        return
    running = w.weighted(full, "running_reqs", "interval_s") or 0.0
    more = case.name(
        "--mem-fraction-static higher, --kv-cache-dtype fp8_e5m2, or more GPUs",
        "--gpu-memory-utilization higher, --kv-cache-dtype fp8, or more GPUs",
    )
    yield Finding(
        "queue_for_memory", WARNING,
        f"Requests wait because the KV cache is full: {part:.0%} of the time under load, with "
        f"{running:.0f} running.",
        "The batch stays smaller than the cap allows.",
        more, {"share_of_time": round(part, 3), "mean_running": round(running, 1)}, **shown(full),
    )  # fmt: skip


def retractions(case: Case) -> Iterator[Finding]:
    """Running requests were thrown out of a full KV cache and computed again."""
    events = case.events("retraction", "preemption")
    if not events.height:
        return
    n = int(w.total(events["count"].fill_null(1)))
    usage = case.run.windows["kv_usage"].max()
    more = case.name(
        "--schedule-conservativeness above 1, or --mem-fraction-static higher",
        "--gpu-memory-utilization higher, or --max-num-seqs lower",
    )
    first = events.row(0, named=True)
    yield Finding(
        "retractions", WARNING,
        f"The KV cache ran full and running requests were put back: {n} "
        f"{'time' if n == 1 else 'times'}.",
        "Their prompts and answers so far are computed a second time.",
        more,
        _known(events=n, highest_kv_usage=usage if isinstance(usage, float) else None),
        quote=first["evidence"] or "", **shown(events),
    )  # fmt: skip


def slower_since_retraction(case: Case) -> Iterator[Finding]:
    """Throughput fell with a retraction and did not return, while requests waited."""
    events = case.events("retraction", "preemption").drop_nulls("ts")
    if not events.height:
        return
    at = events["ts"][0]
    wanted = case.busy.filter(pl.col("queued_reqs") > 0)
    before = wanted.filter((pl.col("ts") <= at) & (pl.col("ts") > at - _BEFORE))
    after = wanted.filter(pl.col("ts") > at)
    late = after.tail(max(4, after.height // 4))
    rates = w.rate(before), w.rate(after), w.rate(late)
    if before.height < 4 or after.height < 8 or None in rates:
        return
    was, since, lately = (rate or 0.0 for rate in rates)
    if since > 0.7 * was or lately > 0.7 * was:
        return
    yield Finding(
        "slower_since_retraction", WARNING,
        f"Throughput fell from {was:.0f} to {since:.0f} tok/s per rank at the first retraction "
        "and did not come back, although requests waited.",
        "The server goes on, slower, until it is restarted.",
        "a restart to confirm; "
        + case.name("--schedule-conservativeness 1.3", "--max-num-seqs lower"),
        {"before_tok_s": round(was, 1), "after_tok_s": round(since, 1)},
        cost_tok_s=was - since, **shown(after),
    )  # fmt: skip


def pool_below_context(case: Case) -> Iterator[Finding]:
    """One request of full length does not fit into the KV cache."""
    pool, context = case.run.card["max_total_tokens"], case.run.card["context_len"]
    if not pool or not context or pool >= context:
        return
    flag = case.name("--context-length", "--max-model-len")
    yield Finding(
        "pool_below_context", INFO,
        f"The KV cache holds {pool:,} tokens, less than one request of {context:,} tokens.",
        "A long request cannot be served, and two middling ones push each other out.",
        f"{flag} lower than {pool:,}, or more memory for the cache",
        {"pool_tokens": pool, "context_len": context},
    )  # fmt: skip


RULES = (
    queue_at_cap, cap_lowered_by_speculation, cap_lowered_by_state_cache, queue_for_memory,
    retractions, slower_since_retraction, pool_below_context,
)  # fmt: skip
