"""Tokens of the server's log against tokens of the client, over one benchmark point.

The two never agree exactly: the log does not print the end of a burst, prints the end of the one
before with the next, counts warm-up requests, and SGLang's decode lines leave each request's
first token out. How much each of these can be is computed; what is beyond is a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from data import windows as w

SHARE = 0.05  # of the client's tokens
DECODE_LOG_INTERVAL = 40
_WARMUP_TOKENS = 32  # SGLang's client cuts its warm-up requests there
_EDGE_S = 1.0  # stamps of logs, and of vLLM's results, are whole seconds


@dataclass(frozen=True, slots=True)
class Allowance:
    """Tokens by which log and client may differ, part by part."""

    share: float  # 5 % of the client's
    tail: float  # of this point, not printed
    tail_before: float  # of the point before, printed with this one
    first_tokens: float  # made by prefills, in no decode line
    warmup: float  # requests before the measured ones
    failed: float  # requests that the client does not count
    shared: float  # windows that reach into other load

    @property
    def total(self) -> float:
        """All parts together."""
        return float(sum(asdict(self).values()))


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """The comparison of one point."""

    log_tokens: float
    client_tokens: float
    allowance: Allowance

    @property
    def difference(self) -> float:
        """Tokens of the log minus tokens of the client."""
        return self.log_tokens - self.client_tokens

    @property
    def agrees(self) -> bool:
        """Whether the difference is one that can be explained."""
        return abs(self.difference) <= self.allowance.total


def begins(rows: pl.DataFrame) -> pl.DataFrame:
    """Windows with `begin`: where the tokens of each can have been made at the earliest.

    A window after idle reaches back to the burst before; its tokens belong to its end.
    """
    usual = rows.filter(pl.col("window") != "after_idle")["interval_s"].median()
    short = float(usual) if isinstance(usual, float) and usual > 0 else 1.0
    length = pl.col("interval_s").fill_null(0.0)
    after_idle = (pl.col("window") == "after_idle") & (pl.col("kind") == "decode")
    length = pl.when(after_idle).then(pl.min_horizontal(length, short)).otherwise(length)
    return rows.with_columns(begin=pl.col("ts") - pl.duration(microseconds=length * 1e6))


def inside(rows: pl.DataFrame, start: datetime, end: datetime) -> pl.DataFrame:
    """The windows that tell of the time from start to end.

    A decode window is short: it belongs where its middle lies. A stats window of vLLM is long
    and holds everything of its interval: it belongs if it reaches into the time at all.
    """
    slack = timedelta(seconds=_EDGE_S)
    middle = pl.col("begin") + (pl.col("ts") - pl.col("begin")) / 2
    decode = middle.is_between(start - slack, end + slack)
    reach = timedelta(seconds=0.25)
    stats = (pl.col("begin") + reach < end + slack) & (pl.col("ts") - reach > start)
    return rows.filter(pl.when(pl.col("kind") == "decode").then(decode).otherwise(stats))


def check(
    rows: pl.DataFrame,
    start: datetime,
    end: datetime,
    point: Mapping[str, Any],
    args: Mapping[str, Any],
    bench_args: Mapping[str, Any],
) -> TokenCheck | None:
    """Compare one point with its windows; None where a count is missing.

    Args:
        rows: all windows of the run, as `begins` gives them.
        start: of the point, by the server's clock.
        end: likewise.
        point: a row of BENCH_RESULTS.
        args: the server's arguments.
        bench_args: the client's, as far as its output names them.
    """
    held = inside(rows, start, end)
    client = point["output_tokens"]
    if held.is_empty() or not client:
        return None
    sglang = held["kind"][0] == "decode"
    interval = float(args.get("decode_log_interval") or DECODE_LOG_INTERVAL)
    before = rows.filter(pl.col("ts") < held["ts"].min()) if sglang else held.clear()
    completed = float(point["completed"] or 0)
    mean = client / completed if completed else 0.0
    allowance = Allowance(
        share=SHARE * client,
        tail=_tail(held, interval) if sglang else 0.0,
        tail_before=_tail(before, interval) if sglang else 0.0,
        first_tokens=completed if sglang else 0.0,
        warmup=_warmup(str(point["tool"]), mean, bench_args),
        failed=float(point["failed"] or 0) * mean,
        shared=0.0 if sglang else _shared(rows, held, start, end),
    )
    return TokenCheck(w.total(held["tokens"]), float(client), allowance)


def _tail(rows: pl.DataFrame, interval: float) -> float:
    """What the last decode line of each lane leaves unprinted, at most."""
    last = rows.unique("lane", keep="last", maintain_order=True)
    accept = pl.col("accept_len").fill_null(1.0)
    return w.total(last.select(tail=interval * pl.col("running_reqs") * accept)["tail"])


def _warmup(tool: str, mean: float, bench_args: Mapping[str, Any]) -> float:
    """Tokens of the requests that a client makes before it measures."""
    if tool.startswith("sglang."):
        asked = bench_args.get("warmup_requests")
        count = 1.0 if asked is None else float(asked)
        return count * min(mean, _WARMUP_TOKENS)
    if tool == "vllm bench serve":
        # One prompt of full length, unless the check that the server is ready is off.
        first = 0.0 if bench_args.get("ready_check_timeout_sec") == 0 else 1.0
        return (first + float(bench_args.get("num_warmups") or 0)) * mean
    return 0.0


def _shared(rows: pl.DataFrame, held: pl.DataFrame, start: datetime, end: datetime) -> float:
    """Tokens of stats windows that reach out of the point while other load goes on there."""
    slack = timedelta(seconds=_EDGE_S)
    early = held.filter(pl.col("begin") < start - slack)
    late = held.filter(pl.col("ts") > end + slack)
    tokens = 0.0
    if early.height:
        first = early["begin"].min()
        before = rows.filter((pl.col("ts") - first).abs() <= slack)
        tokens += w.total(early["tokens"]) if w.total(before["tokens"]) else 0.0
    if late.height:
        last = late["ts"].max()
        after = rows.filter((pl.col("begin") - last).abs() <= slack)
        tokens += w.total(late["tokens"]) if w.total(after["tokens"]) else 0.0
    return tokens
