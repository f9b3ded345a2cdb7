"""Is speculation worth it: the chart of data.economics_chart with its words."""

from __future__ import annotations

from typing import Final

from dashboard.charts.figure import Figure, spec_of
from data import economics_chart
from data.compare import Comparison
from data.speculation import at_count

_TOLD: Final = 10  # points in the alt text


def economics_figure(comparison: Comparison) -> Figure | None:
    """Accept length against the cost of a step; above the diagonal speculation loses."""
    rows = economics_chart.economics(comparison)
    if rows.is_empty():
        return None
    parts = [
        f"{row['label']} {at_count(row['running_reqs'])}: yields "
        f"{row['accept_len']:.2f} tokens for {row['step_cost']:.2f} plain steps"
        for row in rows.head(_TOLD).iter_rows(named=True)
    ]
    return Figure(
        "compare_economics", "What a speculative step costs and yields",
        spec_of(economics_chart.diagonal(rows, comparison.groups)),
        f"Cost of a speculative step against the tokens it yields. {'; '.join(parts)}.",
        rows,
    )  # fmt: skip
