"""How each metric is made, as docs/metrics.md says it: for the help of charts and the Metrics page.

One text serves the document, the page and the charts, so that none can say something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from dashboard import words

DOCUMENT: Final = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
# What each chart shows, by the key of its figure.
OF_CHART: Final[dict[str, tuple[str, ...]]] = {
    "gen_tok_s": ("gen_tok_s", "gen_tok_s_min", "interval_s"),
    "running_reqs": ("running_reqs", "running_cap"),
    "queued_reqs": ("queued_reqs",),
    "accept_len": ("accept_len", "draft_accept_rate", "request_steps"),
    "kv_usage": ("kv_usage",),
    "run_startup": ("ready_after_s",),
    "compare_running": ("tok_s", "running_reqs", "running_cap"),
    "compare_series": ("gen_tok_s", "interval_s"),
    "compare_spread": ("tok_s", "ratio", "ratio_low"),
    "compare_economics": ("accept_len", "cost", "speedup", "worthwhile_len"),
    "bench_curve": ("output_tok_s", "concurrency", "running_cap"),
    "bench_frontier": ("tok_s_user", "tok_s_gpu"),
    "bench_ttft": ("ttft_ms",),
    "bench_tpot": ("tpot_ms",),
    "incidents": ("n_faults", "n_retractions"),
}
_MISSING: Final = "The document of the metrics is not part of this installation."


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the document."""

    names: tuple[str, ...]
    unit: str
    made: str
    line: str
    engines: str


def document() -> str:
    """The text of docs/metrics.md."""
    try:
        return DOCUMENT.read_text(encoding="utf-8")
    except OSError:
        return f"# Metrics\n\n{_MISSING}"


@cache
def metrics() -> dict[str, Metric]:
    """Each metric by its names; of two rows for one name the first."""
    found: dict[str, Metric] = {}
    for line in document().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| `") or len(cells) != 5:
            continue
        names = tuple(re.findall(r"`(\w+)`", cells[0]))
        for name in names:
            found.setdefault(name, Metric(names, *cells[1:]))
    return found


def explain(chart: str) -> str:
    """How the numbers of a chart are made, as Markdown; empty where it shows none of ours."""
    known = metrics()
    told = [_told(known[name]) for name in OF_CHART.get(chart, ()) if name in known]
    return "\n\n".join(dict.fromkeys(told))


def _told(metric: Metric) -> str:
    unit = f" ({metric.unit})" if metric.unit else ""
    source = ", ".join(part for part in (metric.line, metric.engines) if part)
    return f"**{words.plain(', '.join(metric.names))}**{unit}: {metric.made}. From: {source}."
