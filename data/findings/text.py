"""Findings written down: text, Markdown, JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from data.findings.model import Finding
from data.names import escaped, printable
from data.run_data import RunData

FORMS = ("text", "json", "md")


def render(found: Sequence[tuple[RunData, Sequence[Finding]]], form: str) -> str:
    """The findings of runs in one of FORMS."""
    if form == "json":
        rows = [
            {name: run.card[name] for name in ("run_id", "label", "source_id")} | asdict(finding)
            for run, findings in found
            for finding in findings
        ]
        return json.dumps(rows, default=str, ensure_ascii=False, indent=2) + "\n"
    return "\n".join(_run(run, findings, form) for run, findings in found)


def _run(run: RunData, findings: Sequence[Finding], form: str) -> str:
    head = f"{run.name} ({run.card['source_id']})"
    if form == "md":
        lines = [f"## {_escaped(head)}", ""]
        lines += [line for finding in findings for line in _markdown(finding)]
    else:
        lines = [printable(head)]
        lines += [printable(line) for finding in findings for line in _text(finding)]
    return "\n".join(lines if findings else [*lines, "  nothing found"]) + "\n"


def _details(finding: Finding) -> list[str]:
    """What stands below the sentence."""
    details = [finding.consequence, f"Try: {finding.to_try}."]
    if finding.cost_tok_s:
        details.append(f"Costs about {finding.cost_tok_s:,.0f} tok/s.")
    where = []
    if finding.start is not None and finding.end is not None:
        where.append(f"{finding.start:%Y-%m-%d %H:%M:%S} to {finding.end:%Y-%m-%d %H:%M:%S} UTC")
    if finding.lines:
        where.append("line " + ", ".join(map(str, finding.lines)))
    if where:
        details.append("Seen: " + "; ".join(where) + ".")
    if finding.quote:
        details.append(f"> {finding.quote}")
    return details


def _text(finding: Finding) -> list[str]:
    return [
        f"  {finding.severity}: {finding.sentence}",
        *(f"      {detail}" for detail in _details(finding)),
    ]


def _markdown(finding: Finding) -> list[str]:
    return [
        f"- **{finding.severity}**: {_escaped(finding.sentence)}",
        *(f"  {_escaped(detail)}" for detail in _details(finding)),
    ]


def _escaped(text: str) -> str:
    return printable(escaped(text))
