"""Rules about speed: graphs, prefill beside decode, contexts, the prefix cache."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from data import intervals
from data import windows as w
from data.findings.model import INFO, WARNING, Case, Finding, share, shown

_MIN_WINDOWS = 8
_SLOWER = 0.8
_MIN_PREFILLS, _MIN_PROMPT_TOKENS = 100, 20_000
_USELESS_HITS = 0.01


def graph_off(case: Case) -> Iterator[Finding]:
    """Decode runs without captured graphs all the time."""
    rows = case.busy.filter(pl.col("graph_on").is_not_null())
    on_cpu = (
        case.run.args.get("device") == "cpu" or case.run.effective.get("device_config") == "cpu"
    )
    eager = case.vllm and case.run.args.get("enforce_eager") is True
    off = rows.height >= _MIN_WINDOWS and not rows["graph_on"].any()
    if on_cpu or not (off or eager):
        return
    asked = eager or bool(case.run.args.get("disable_cuda_graph"))
    why = case.events("override").filter(pl.col("evidence").str.contains("raph is disabled"))
    quote = why["evidence"][0] if why.height else ""
    flag = case.name("--disable-cuda-graph", "--enforce-eager")
    yield Finding(
        "graph_off", INFO if asked else WARNING,
        "Decode runs without captured graphs"
        + (", as asked for." if asked else f", in every window under load ({rows.height})."),
        "Small batches wait for the CPU to launch each kernel.",
        f"without {flag}" if asked else "what the quoted line names" if quote
        else f"{case.graph_flag} and the start of the log, for why none was captured",
        {"windows": rows.height}, quote=quote, **shown(rows),
    )  # fmt: skip


def graph_off_when_large(case: Case) -> Iterator[Finding]:
    """Graphs were captured, but not for batches as large as the ones that run."""
    rows = case.busy.filter(pl.col("graph_on").is_not_null())
    on, off = rows.filter(pl.col("graph_on")), rows.filter(~pl.col("graph_on"))
    part = share(off, rows)
    if on.height < 3 or off.height < 3 or part < 0.1:
        return
    largest, smallest = on["running_reqs"].max(), off["running_reqs"].min()
    if not isinstance(largest, int) or not isinstance(smallest, int) or smallest <= largest:
        return
    yield Finding(
        "graph_off_when_large", WARNING,
        f"Above {largest} running requests decode leaves the captured graphs: {part:.0%} of the "
        f"time under load, from {smallest} requests on.",
        "Each step of these batches pays for launching its kernels one by one.",
        f"{case.graph_flag} at the cap, or the cap at {largest}",
        {"largest_with_graph": largest, "smallest_without": smallest, "share": round(part, 3)},
        **shown(off),
    )  # fmt: skip


def slowed_by_prefill(case: Case) -> Iterator[Finding]:
    """Decode stands still while prompts are computed."""
    busy = case.busy.select("window", "running_reqs", "tokens", "interval_s", "ts", "line_no")
    counts = busy.filter(pl.col("window") == "steady").group_by("running_reqs").len()
    usual = counts.filter(pl.col("len") >= _MIN_WINDOWS)["running_reqs"].to_list()
    rows = busy.filter(pl.col("running_reqs").is_in(usual))
    mixed = rows.filter(pl.col("window") == "mixed")
    if mixed.height < _MIN_WINDOWS or share(mixed, case.busy) < 0.2:
        return
    steady = rows.filter(pl.col("window") == "steady").group_by("running_reqs").agg(
        steady=pl.col("tokens").sum() / pl.col("interval_s").sum()
    )  # fmt: skip
    joined = mixed.join(steady, on="running_reqs")
    possible = w.total(joined["steady"] * joined["interval_s"])
    lost = 1 - w.total(joined["tokens"]) / possible
    if lost < 0.4:
        return
    seconds = w.total(case.busy["interval_s"])
    yield Finding(
        "slowed_by_prefill", INFO,
        f"Prefill takes decode's time: with prompts coming in, decode runs {lost:.0%} slower than "
        "without, at the same running counts.",
        "Running requests stutter whenever new ones arrive.",
        case.name("--chunked-prefill-size smaller, or --enable-mixed-chunk",
                  "--max-num-batched-tokens smaller"),
        {"slower_by": round(lost, 3), "share_of_time": round(share(mixed, case.busy), 3)},
        cost_tok_s=lost * possible / seconds, **shown(mixed),
    )  # fmt: skip


def _usual_count(case: Case) -> pl.DataFrame:
    """The steady windows of the running count with most of them, with KV tokens per request."""
    rows = case.run.steady.select(
        "running_reqs", "kv_tokens", "tokens", "interval_s", "accept_len", "request_steps", "ts",
        "line_no",
    ).filter(pl.col("kv_tokens") > 0)  # fmt: skip
    if not rows.height:
        return rows.with_columns(kv=pl.lit(0.0))
    counts = rows.group_by("running_reqs").len().sort("len", "running_reqs")
    usual = rows.filter(pl.col("running_reqs") == counts["running_reqs"][-1])
    return usual.with_columns(kv=pl.col("kv_tokens") / pl.col("running_reqs"))


def slower_with_context(case: Case) -> Iterator[Finding]:
    """Decode slows as contexts grow: expected, but often taken for a fault."""
    rows = _usual_count(case).sort("kv")
    third = rows.height // 3
    if third < _MIN_WINDOWS:
        return
    short, long = rows.head(third), rows.tail(third)
    rates, sizes = (w.rate(short), w.rate(long)), (short["kv"].mean(), long["kv"].mean())
    if not rates[0] or not rates[1] or rates[1] > _SLOWER * rates[0]:
        return
    at = (float(sizes[0] or 0), float(sizes[1] or 0))  # type: ignore[arg-type]
    if at[1] < 1.5 * at[0]:
        return
    running = rows["running_reqs"][0]
    yield Finding(
        "slower_with_context", INFO,
        f"Decode slows as contexts grow: with {running} running, {rates[0]:.0f} tok/s at "
        f"{at[0]:,.0f} tokens a request and {rates[1]:.0f} at {at[1]:,.0f}.",
        "Attention reads the whole context at every step; this is no fault by itself.",
        case.name("another --attention-backend, or --kv-cache-dtype fp8_e5m2",
                  "another attention backend, or --kv-cache-dtype fp8"),
        {"running": running, "short_tok_s": round(rates[0], 1), "long_tok_s": round(rates[1], 1)},
        **shown(long),
    )  # fmt: skip


def slower_over_time(case: Case) -> Iterator[Finding]:
    """The same work gets slower while the run goes on."""
    rows = _usual_count(case)
    third = rows.height // 3
    if third < 2 * _MIN_WINDOWS:
        return
    first, last = rows.head(third), rows.tail(third)
    contexts = [float(part["kv"].mean() or 0) for part in (first, last)]  # type: ignore[arg-type]
    lengths = [w.accept_len(part) or 1.0 for part in (first, last)]
    alike = contexts[1] < 1.2 * contexts[0] and lengths[1] > 0.95 * lengths[0]
    spreads = [
        intervals.resampled(part.select("tokens", "interval_s").to_numpy(), intervals.log_ratio)
        for part in (first, last)
    ]
    if spreads[0] is None or spreads[1] is None or not alike:
        return
    ratio = (spreads[1] - spreads[0]).interval(intervals.WITHIN_RUN)
    rates = [w.rate(part) or 0.0 for part in (first, rows.slice(third, third), last)]
    if ratio.high >= 0.9 or not rates[0] > rates[1] > rates[2]:
        return
    yield Finding(
        "slower_over_time", WARNING,
        f"The same work got slower: {rates[0]:.0f} tok/s in the first third of the steady windows "
        f"with {rows['running_reqs'][0]} running, {rates[2]:.0f} in the last.",
        "Running count and context are the same, so it is the server or its machine.",
        "clocks and temperature of the GPUs, other work on the machine, or a restart",
        {"first_tok_s": round(rates[0], 1), "last_tok_s": round(rates[2], 1)},
        cost_tok_s=rates[0] - rates[2], **shown(last),
    )  # fmt: skip


def prefix_cache_useless(case: Case) -> Iterator[Finding]:
    """Prompts find nothing in the prefix cache, or it is off."""
    off = case.run.args.get("disable_radix_cache") is True or (
        case.vllm and case.run.args.get("enable_prefix_caching") is False
    )
    rows = case.prefills.filter(
        pl.col("new_tokens").is_not_null() & pl.col("cached_tokens").is_not_null()
    )
    cached, new = w.total(rows["cached_tokens"]), w.total(rows["new_tokens"])
    hit = cached / (cached + new) if cached + new else 0.0
    enough = rows.height >= _MIN_PREFILLS and cached + new >= _MIN_PROMPT_TOKENS
    if case.vllm:
        rows = case.busy.filter(pl.col("prefix_hit_rate").is_not_null())
        highest = rows["prefix_hit_rate"].max()
        hit = highest if isinstance(highest, float) else 1.0
        enough = rows.height >= 30
    if not enough or hit >= _USELESS_HITS:
        return
    flag = case.name("--disable-radix-cache", "--no-enable-prefix-caching")
    yield Finding(
        "prefix_cache_useless", INFO,
        "The prefix cache is off." if off else f"Prompts find next to nothing in the prefix cache: "
        f"{hit:.1%} of their tokens.",
        "Every prompt is computed in full.",
        f"without {flag}" if off else "what prompts share placed first, the same byte for byte",
        {"hit_rate": round(hit, 4), "lines": rows.height}, **shown(rows),
    )  # fmt: skip


def overlap_off(case: Case) -> Iterator[Finding]:
    """The overlap schedule is off, so the GPU waits for the scheduler."""
    rows = case.events("override").filter(pl.col("evidence").str.contains("verlap schedule"))
    for row in rows.head(1).iter_rows(named=True):
        yield Finding(
            "overlap_off", INFO, "The overlap schedule is off.",
            "Each step waits for the scheduler, which could have worked beside the one before.",
            "what the quoted line names as the reason", {}, lines=(row["line_no"],),
            quote=row["evidence"] or "",
        )  # fmt: skip


RULES = (
    graph_off, graph_off_when_large, slowed_by_prefill, slower_with_context, slower_over_time,
    prefix_cache_useless, overlap_off,
)  # fmt: skip
