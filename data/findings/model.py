"""What a finding is, and what its rules are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import polars as pl

from data import windows as w
from data.run_data import RunData

FAULT, WARNING, INFO = "fault", "warning", "info"
SEVERITIES = (FAULT, WARNING, INFO)
_MAX_LINES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence with its evidence, what it means, and what to try."""

    rule: str
    severity: str
    sentence: str
    consequence: str
    to_try: str
    numbers: dict[str, float | int | str]
    cost_tok_s: float | None = None  # tokens per second that it costs, where that can be estimated
    start: datetime | None = None
    end: datetime | None = None
    lines: tuple[int, ...] = ()  # numbers of lines of the log that show it
    quote: str = ""  # the line that says it


@dataclass(frozen=True)
class Case:
    """One run under examination, and a comparable run without speculation if there is one."""

    run: RunData
    base: RunData | None = None

    @cached_property
    def busy(self) -> pl.DataFrame:
        """Its windows under load: neither start-up nor after idleness, with requests running."""
        return w.measured(self.run.windows).filter(
            pl.col("window").is_in(["steady", "mixed"]) & (pl.col("running_reqs") > 0)
        )

    @cached_property
    def prefills(self) -> pl.DataFrame:
        """Its prefill lines after start-up."""
        return self.run.counted.filter(
            (pl.col("kind") == "prefill") & (pl.col("window") != "startup")
        )

    @property
    def cap(self) -> int | None:
        """Running requests at most, per rank: vLLM splits none, SGLang prints it per rank."""
        cap = self.run.card["max_running_requests"]
        return None if cap is None else int(cap)

    def events(self, *kinds: str) -> pl.DataFrame:
        """Its events of these kinds."""
        return self.run.events.filter(pl.col("kind").is_in(kinds))

    @property
    def vllm(self) -> bool:
        """Whether the engine is vLLM."""
        return bool(self.run.card["engine"] == "vllm")

    def name(self, sglang: str, vllm: str) -> str:
        """An argument as this engine calls it."""
        return vllm if self.vllm else sglang

    @property
    def graph_flag(self) -> str:
        """The argument for the largest captured decode batch."""
        if self.vllm:
            return "--compilation-config '{\"cudagraph_capture_sizes\": […]}'"
        newer = "cuda_graph_max_bs_decode" in self.run.args  # 0.5.14 on
        return "--cuda-graph-max-bs-decode" if newer else "--cuda-graph-max-bs"


Rule = Callable[[Case], Iterator[Finding]]


def shown(rows: pl.DataFrame) -> dict[str, Any]:
    """Span and first lines of windows or events, as keyword arguments of Finding."""
    if not rows.height:
        return {}
    return {
        "start": rows["ts"].min(),
        "end": rows["ts"].max(),
        "lines": tuple(rows["line_no"].drop_nulls().sort().head(_MAX_LINES).to_list()),
    }


def share(part: pl.DataFrame, whole: pl.DataFrame) -> float:
    """Which part of the seconds of windows these are."""
    seconds = w.total(whole["interval_s"])
    return w.total(part["interval_s"]) / seconds if seconds else 0.0


def marginal_tok_s(busy: pl.DataFrame) -> float | None:
    """What one more running request adds, between the lowest and highest counts held steadily."""
    steady = busy.filter(pl.col("window") == "steady")
    rates = (
        steady.group_by("running_reqs")
        .agg(n=pl.len(), r=pl.col("tokens").sum() / pl.col("interval_s").sum())
        .filter(pl.col("n") >= 3)
        .sort("running_reqs")
    )
    if rates.height < 2:
        return None
    counts, values = rates["running_reqs"].to_list(), rates["r"].to_list()
    return max(0.0, float((values[-1] - values[0]) / (counts[-1] - counts[0])))
