"""Rules about the log and the server itself: faults, ranks, missing lines, errors to clients."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from data import windows as w
from data.findings.model import FAULT, INFO, WARNING, Case, Finding, shown

_MIN_WINDOWS = 8
_IMBALANCE = 1.3
_MIN_REQUESTS = 20
_ERRORS = 0.01
_GENERATION = r"/(?:generate|completions|messages|responses)$"


def crashed(case: Case) -> Iterator[Finding]:
    """The run ended in a fault."""
    faults = case.run.events.filter(pl.col("severity") == "fault")
    if case.run.card["end_state"] != "crashed" or not faults.height:
        return
    last = faults["incident_id"].drop_nulls()
    incident = faults.filter(pl.col("incident_id") == last[-1]) if last.len() else faults
    first = incident.row(0, named=True)
    title, told = first["title"], first["detail"]
    detail = f": {told}" if told and told not in title else ""
    served = case.run.card["ready_at"] is not None or case.run.windows.height
    yield Finding(
        "crashed", FAULT,
        f"The server {'crashed' if served else 'failed before it was ready'}: {title}{detail}.",
        "Every request that was running is lost." if served else "It served no request.",
        "the quoted line; what follows it in the log is its consequence",
        {"lines_of_the_incident": incident.height}, quote=first["evidence"] or "",
        **shown(incident),
    )  # fmt: skip


def ended_unsaid(case: Case) -> Iterator[Finding]:
    """The log just ends, with requests running."""
    rows = case.run.windows.filter(pl.col("running_reqs").is_not_null())
    whole = case.run.card["end_state"] == "lost" and case.run.card["ready_at"] is not None
    if not whole or not rows.height or not rows["running_reqs"][-1]:
        return
    yield Finding(
        "ended_unsaid", WARNING,
        f"The log ends without a stop or a fault; requests running: {rows['running_reqs'][-1]}.",
        "The process was killed (SIGKILL, out of memory, node lost) or the log was cut off.",
        "dmesg and the container's state for an out-of-memory kill",
        {"running": rows["running_reqs"][-1]}, **shown(rows.tail(1)),
    )  # fmt: skip


def imbalance(case: Case) -> Iterator[Finding]:
    """Some data-parallel ranks run far more requests than others."""
    busy = case.busy.filter(pl.col("kind").is_in(["decode", "stats"]))
    ranks = busy.group_by("lane").agg(
        n=pl.len(),
        running=(pl.col("running_reqs") * pl.col("interval_s")).sum(),
        tokens=pl.col("tokens").sum(),
    )
    if ranks.height < 2 or ranks["n"].min() < _MIN_WINDOWS:  # type: ignore[operator]
        return
    loads = [value / w.total(ranks["running"]) * ranks.height for value in ranks["running"]]
    if max(loads) < _IMBALANCE:
        return
    most, least = max(loads), min(loads)
    yield Finding(
        "imbalance", WARNING,
        f"Load is uneven over the {ranks.height} ranks: the busiest carries {most:.1f} times its "
        f"share, the least busy {least:.1f} times.",
        "Ranks wait for the busiest one at every step, or idle while it queues.",
        case.name("--load-balance-method, or a router that counts tokens",
                  "--data-parallel-backend and the router's policy"),
        {"ranks": ranks.height, "most": round(most, 2), "least": round(least, 2)}, **shown(busy),
    )  # fmt: skip


def ranks_missing(case: Case) -> Iterator[Finding]:
    """Fewer ranks printed than the arguments promise."""
    promised, rows = case.run.card["dp"] or 1, case.run.windows
    seen = rows["lane"].n_unique()
    aggregated = case.vllm and rows["engine_index"].is_null().all()
    if seen >= promised or rows.height < 3 * _MIN_WINDOWS or aggregated:
        return
    yield Finding(
        "ranks_missing", WARNING,
        f"Lines of {seen} of {promised} data-parallel ranks are in the log.",
        "Sums over ranks are too small.",
        "the logs of the other nodes, imported with this one", {"seen": seen, "promised": promised},
    )  # fmt: skip


def stats_off(case: Case) -> Iterator[Finding]:
    """vLLM switched its stats lines off because of several API servers."""
    for row in case.events("stats_off").head(1).iter_rows(named=True):
        yield Finding(
            "stats_off", WARNING, "Stats lines are off because several API servers run.",
            "The log tells nothing about throughput, queue or cache.",
            "--api-server-count 1", {}, lines=(row["line_no"],), quote=row["evidence"] or "",
        )  # fmt: skip


def no_periodic_lines(case: Case) -> Iterator[Finding]:
    """Requests were answered and no periodic line was printed."""
    answered = case.run.access.filter(
        pl.col("path").str.contains(_GENERATION) & (pl.col("status") < 300)
    )
    n = int(w.total(answered["n"]))
    if n < _MIN_REQUESTS or case.run.samples.height or case.events("stats_off").height:
        return
    yield Finding(
        "no_periodic_lines", WARNING,
        f"{n} requests were answered, but the log has no decode or stats line.",
        "Throughput, queue and cache cannot be shown.",
        case.name("--log-level info, and standard error kept in the log",
                  "without --disable-log-stats, and VLLM_LOGGING_LEVEL=INFO"),
        {"requests": n},
    )  # fmt: skip


def errors_to_clients(case: Case) -> Iterator[Finding]:
    """The server answered requests with errors of its own."""
    asked = case.run.access.filter(pl.col("path").str.contains(_GENERATION))
    failed = asked.filter(pl.col("status") >= 500)
    n, bad = w.total(asked["n"]), w.total(failed["n"])
    if n < _MIN_REQUESTS or bad / n < _ERRORS:
        return
    yield Finding(
        "errors_to_clients", WARNING,
        f"{bad:.0f} of {n:.0f} requests were answered with a server error ({bad / n:.1%}).",
        "Clients retry or lose answers; throughput of the rest looks better than it is.",
        "the events around these minutes", {"failed": int(bad), "requests": int(n)},
        start=failed["minute"].min(), end=failed["minute"].max(),  # type: ignore[arg-type]
    )  # fmt: skip


def refused_by_server(case: Case) -> Iterator[Finding]:
    """Many requests were refused as wrong or too many."""
    asked = case.run.access.filter(pl.col("path").str.contains(_GENERATION))
    refused = asked.filter(pl.col("status").is_between(400, 499))
    n, bad = w.total(asked["n"]), w.total(refused["n"])
    if n < _MIN_REQUESTS or bad / n < 0.05:
        return
    codes = ", ".join(map(str, refused["status"].unique().sort().to_list()))
    yield Finding(
        "refused_by_server", INFO,
        f"{bad:.0f} of {n:.0f} requests were refused ({codes}).",
        "Too long prompts, wrong parameters or a full queue: the client's figures miss them.",
        "the client's error messages", {"refused": int(bad), "requests": int(n)},
        start=refused["minute"].min(), end=refused["minute"].max(),  # type: ignore[arg-type]
    )  # fmt: skip


def stalled(case: Case) -> Iterator[Finding]:
    """vLLM's workers waited minutes for one another while it served."""
    events = case.events("stall").drop_nulls("ts")
    ready = case.run.card["ready_at"]
    late = events.filter(pl.col("ts") > ready) if ready else events.clear()
    if late.height < 2:
        return
    yield Finding(
        "stalled", WARNING, f"Workers waited for one another {late.height} times, a minute each.",
        "A rank hangs or compiles while the others stand still.",
        "the first of these lines and what that rank did then", {"lines": late.height},
        quote=late["evidence"][0] or "", **shown(late),
    )  # fmt: skip


RULES = (
    crashed, ended_unsaid, imbalance, ranks_missing, stats_off, no_periodic_lines,
    errors_to_clients, refused_by_server, stalled,
)  # fmt: skip
