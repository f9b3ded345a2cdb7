"""A comparison as one HTML file: tables and charts inside, nothing loaded from anywhere."""

from __future__ import annotations

from html import escape
from typing import Final

import polars as pl

from data import charts, economics_chart, pictures
from data.compare import Comparison
from data.report import Section, sections
from data.spread import spread

_STYLE = """
body { font: 15px/1.5 "DejaVu Sans", Arial, sans-serif; color: #1b1f24; background: #fff;
  max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-top: 2.5rem; border-bottom: 1px solid #d5dae0; }
h2 { font-size: 1.1rem; margin-top: 1.8rem; }
table { border-collapse: collapse; margin: 0.8rem 0; font-size: 0.9rem; }
th, td { border: 1px solid #d5dae0; padding: 0.25rem 0.6rem; text-align: left;
  font-variant-numeric: tabular-nums; }
th { background: #f3f5f7; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #57606a; font-size: 0.85rem; }
"""
# What a browser may do with the page: its own styles, nothing else, from nowhere.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_RUNNING: Final = (
    "Lines: tokens over seconds of steady windows at each running count. Points: every window, "
    "those with prefill inside fainter; they enter no ratio."
)
_SPREAD: Final = (
    "What one request gets at equal running counts: the median of steady windows, the middle half "
    "as a box, p10 to p90 as a line."
)
_ECONOMICS: Final = (
    "Speculation: above the dashed line a step costs more plain steps than it yields tokens. The "
    "numbers are running requests."
)


def page(comparison: Comparison) -> str:
    """The whole file."""
    title = "Comparison: " + ", ".join(summary.label for summary in comparison.summaries)
    first, *others = sections(comparison)
    body = "\n".join(map(_section, others))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{_section(first)}\n{_figures(comparison)}\n{body}\n</body>\n</html>\n"
    )


def _figures(comparison: Comparison) -> str:
    groups = comparison.groups
    varied, cost = spread(groups), economics_chart.economics(comparison)
    drawn = (
        (charts.running_chart(groups), _RUNNING),
        (charts.bench_chart(groups), "Benchmarks: output tokens per second."),
        (charts.spread_chart(varied, groups) if varied.height else None, _SPREAD),
        (economics_chart.diagonal(cost, groups) if cost.height else None, _ECONOMICS),
    )
    return "\n".join(
        _figure(pictures.svg(chart.to_dict()), told) for chart, told in drawn if chart is not None
    )


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _section(part: Section) -> str:
    blocks = [f"<h{part.level}>{escape(part.title)}</h{part.level}>"]
    blocks += [f"<p>{escape(text)}</p>" for text in part.sentences]
    blocks += [_table(frame) for frame in part.tables]
    return "\n".join(blocks)


def _table(frame: pl.DataFrame) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in frame.columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>"
        for row in frame.iter_rows()
    )
    return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"


def _cell(value: object) -> str:
    return "–" if value is None else escape(str(value))
