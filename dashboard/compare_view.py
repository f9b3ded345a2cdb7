"""The blocks of the Compare page: verdicts, numbers, settings, charts, files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import polars as pl
import streamlit as st

from dashboard import figure_block, files, words
from dashboard.charts import compare as charts
from dashboard.charts.figure import Figure
from dashboard.files import File
from data import configs, html, report
from data.compare import Comparison, Group, Pair
from data.run_data import RunData
from data.setting_groups import GROUPS, group_of
from data.speedups import speedups

_ECONOMICS: Final = (
    "Accept length against what a step costs, in steps without speculation, at one exact number "
    "of running requests, which stands beside its point. A point above the line loses."
)


def verdicts(comparison: Comparison) -> list[str]:
    """A sentence for each set-up against the baseline, the fastest first."""

    def ratio(pair: Pair) -> float:
        best = max((p.ratio for p in pair.points if p.ratio is not None), default=0.0)
        return pair.match.ratio if pair.match else best

    return [pair.verdict for pair in sorted(comparison.pairs, key=ratio, reverse=True)]


def causes(comparison: Comparison) -> list[str]:
    """What explains a difference: a cap that speculation lowered, with the line that says so."""
    return [
        f"{pair.label}: {pair.lowered_cap.sentence}."
        for pair in comparison.pairs
        if pair.lowered_cap is not None
    ]


def numbers(comparison: Comparison) -> None:
    """What each set-up is and does, and every number against the baseline."""
    first, *_ = report.sections(comparison)
    for sentence in first.sentences:
        st.caption(words.plain(sentence))
    facts = first.tables[0]
    names = ["Set-up", f"{facts.columns[1]} (baseline)", *facts.columns[2:]]
    labels = dict(zip(_columns(facts.width), names, strict=True))
    st.dataframe(
        facts.rename(dict(zip(facts.columns, labels, strict=True))), hide_index=True,
        placeholder=words.MISSING, column_config=labels, key="compare_facts", height="content",
        alt=f"{facts.height} facts of {words.counted(facts.width - 1, 'set-up')}",
    )  # fmt: skip
    base = comparison.summaries[0].label
    for nth, ((label,), rows) in enumerate(
        speedups(comparison).group_by("label", maintain_order=True)
    ):
        # Named above its table: in each row the name would push the numbers off a narrow screen.
        st.text(f"{label} against {base}")
        st.dataframe(
            rows.with_columns(pl.col("metric").str.replace(_UNIT, "")),
            hide_index=True, placeholder=words.MISSING, key=f"compare_speedups_{nth}",
            column_config=_speedup_columns(base), column_order=_SPEEDUP_ORDER,
            alt=f"{words.counted(rows.height, 'number')} of {label} against {base}",
        )  # fmt: skip


_UNIT: Final = r",( output)? tok/s"  # said once, by the title of the column
_SPEEDUP_ORDER: Final = ("metric", "ratio", "base", "value", "low", "high", "sure")


def _columns(count: int) -> list[str]:
    """Names of columns that no label can be equal to."""
    return [f"c{n}" for n in range(count)]


def _speedup_columns(base: str) -> dict[str, Any]:
    text, figure = st.column_config.TextColumn, st.column_config.NumberColumn
    times = "%.2f ×"
    return {
        "metric": text("Number, tok/s", width=235),
        "base": figure("Baseline", format="%.1f", help=f"Tokens per second of {base}."),
        "value": figure("This set-up", format="%.1f", help="Tokens per second."),
        "ratio": figure("× baseline", help="Above 1 it is faster.", format=times),
        "low": figure(
            "At least", help="Lower end of the 95 % interval of the ratio.", format=times
        ),
        "high": figure(
            "At most", help="Upper end of the 95 % interval of the ratio.", format=times
        ),
        "sure": text(
            "How sure",
            width=520,
            help="within-run: from the windows of one start a side, so another start may differ "
            "by more. over starts: from several starts of each configuration; over "
            "benchmark points: from several results at that load.",
        ),
    }


def settings(groups: Sequence[Group], *, everything: bool) -> pl.DataFrame:
    """Settings side by side: c0 group, c1 name, then a column a set-up."""
    runs = [group.runs[0] for group in groups]
    rows = configs.listed(runs) if everything else configs.differing(runs)
    order = {name: at for at, name in enumerate(GROUPS)}
    found = [
        (group_of(row.name), row.name, *(row.text(nth) for nth in range(len(runs)))) for row in rows
    ]
    schema = dict.fromkeys(_columns(len(runs) + 2), pl.String())
    made = pl.DataFrame(found, schema=schema, orient="row")
    return made.sort(pl.col("c0").replace_strict(order, default=len(order)), maintain_order=True)


def show_settings(groups: Sequence[Group]) -> None:
    """What is configured differently, and what the servers changed by themselves."""
    everything = st.toggle("Show all settings", key="all", bind="query-params")
    rows = settings(groups, everything=everything)
    if rows.is_empty():
        st.text("The logs tell of no setting that differs.")
    else:
        labels = ["About", "Setting", *(group.label for group in groups)]
        st.dataframe(
            rows, hide_index=True, key="compare_settings", placeholder=words.MISSING,
            column_config=dict(zip(rows.columns, labels, strict=True)),
            alt=words.counted(rows.height, "setting"),
        )  # fmt: skip
        st.caption(
            "A cell says what the server ran with; in brackets what was given, or what its "
            "arguments said, where that is something else."
        )
    changed = overrides([group.runs[0] for group in groups], [group.label for group in groups])
    if changed.height:
        st.markdown(":material/warning: **Changed by the server itself**")
        st.dataframe(
            changed, hide_index=True, key="compare_overrides", placeholder=words.MISSING,
            column_config=OVERRIDES, alt=words.counted(changed.height, "override"),
        )  # fmt: skip


OVERRIDES: Final = {
    "run": "Set-up",
    "title": "What",
    "given": "Given",
    "effective": "In effect",
    "line_no": "Line",
    "evidence": "The line that says so",
}


def overrides(runs: Sequence[RunData], labels: Sequence[str]) -> pl.DataFrame:
    """What servers changed of their settings, with the quoted line: columns of OVERRIDES."""
    rows = []
    for label, run in zip(labels, runs, strict=True):
        for event in run.events.filter(pl.col("kind") == "override").iter_rows(named=True):
            data = json.loads(event["data"] or "{}")
            values = [configs.shown(data[n]) if n in data else None for n in ("given", "effective")]
            rows.append((label, event["title"], *values, event["line_no"], event["evidence"]))
    kinds = [pl.String()] * 4 + [pl.Int64(), pl.String()]
    return pl.DataFrame(rows, schema=dict(zip(OVERRIDES, kinds, strict=True)), orient="row")


def running(figure: Figure, groups: Sequence[Group]) -> None:
    """Throughput against running requests, and how near each came to its cap."""
    st.markdown(f"**{figure.title}**")
    figure_block.show(figure)
    said = [charts.cap_sentence(group) for group in groups]
    said += [
        f"{group.label} has no steady window, so no line."
        for group in groups
        if not any(run.steady.height for run in group.runs)
    ]
    st.caption(
        words.plain(
            "Lines: tokens over seconds of steady windows. Points: every window, those with "
            "prefill inside fainter. " + " ".join(said)
        )
    )


def spread(figure: Figure | None) -> None:
    """How windows vary at equal running counts."""
    st.markdown("**Decode speed of one request at equal running counts**")
    if figure is None:
        st.caption("No running count was held steady by the baseline and another set-up.")
        return
    figure_block.show(figure)
    st.caption("Point: median of the steady windows. Box: middle half. Line: p10 to p90.")


def what_speculation_costs(figure: Figure | None, comparison: Comparison) -> None:
    """The economics chart with one sentence under it; nothing where nobody speculates."""
    asked = [pair for pair in comparison.pairs if pair.economics or pair.no_economics]
    if not asked:
        return
    st.markdown("**What a speculative step costs and yields**", help=_ECONOMICS)
    if figure is not None:
        figure_block.show(figure)
    for pair in asked:
        sentence = pair.economics[0].sentence if pair.economics else f"{pair.no_economics}."
        st.text(f"{pair.label}: {sentence}")


def downloads(comparison: Comparison) -> None:
    """The comparison as CSV, Markdown and the HTML report."""
    files.menu(
        "Download the comparison", "comparison", lambda: _files(comparison),
        help="Numbers as CSV, tables as Markdown, or one HTML file with the charts inside",
    )  # fmt: skip


def _files(comparison: Comparison) -> list[File]:
    name = "servescope-comparison"
    told = {form: report.render(comparison, form).encode() for form in ("csv", "md")}
    return [
        File("CSV", f"{name}.csv", "text/csv", told["csv"]),
        File("Markdown", f"{name}.md", "text/markdown", told["md"]),
        File("HTML report", f"{name}.html", "text/html", html.page(comparison).encode()),
    ]
