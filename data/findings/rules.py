"""All rules over one run, the costliest finding first."""

from __future__ import annotations

from data.findings import acceptance, bench, capacity, health, serving
from data.findings.model import SEVERITIES, Case, Finding, Rule
from data.run_data import RunData

RULES: tuple[Rule, ...] = (
    *health.RULES, *capacity.RULES, *acceptance.RULES, *serving.RULES, *bench.RULES,
)  # fmt: skip


def findings(run: RunData, base: RunData | None = None) -> list[Finding]:
    """What all rules find in a run: faults first, then by cost in tok/s, then by severity.

    Args:
        base: a comparable run without speculation, where there is one.
    """
    case = Case(run, base)
    found = [finding for rule in RULES for finding in rule(case)]
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> tuple[bool, float, int]:
    severity = SEVERITIES.index(finding.severity)
    return severity > 0, -(finding.cost_tok_s or 0.0), severity
