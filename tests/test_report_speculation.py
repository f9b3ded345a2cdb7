"""What the report says and draws of speculation: its economics and the spread, in every form."""

from __future__ import annotations

import re

import altair as alt
import polars as pl
import pytest

from data import html, legend, pictures, report
from data.compare import Comparison, compare, grouped
from tests.hostile import NAMES
from tests.test_speculation_economics import base, spec

COSTS = "A speculative step costs 1.67 plain steps and yields 1.65 tokens"


def compared(label: str = "eagle", **values: float) -> Comparison:
    return compare(grouped([("plain", base()), (label, spec(**values))]))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compared()


def test_the_report_tells_cost_break_even_and_step_time(comparison: Comparison) -> None:
    text = report.render(comparison, "md")
    assert f"{COSTS}: no gain at one stream (0.99 times the base)." in text
    # 63.6 / 62.9 x 1.65 = 1.668 plain steps; 1.65 tokens at 62.9 tok/s are 26.23 ms.
    assert r"Break-even accept\_len at one stream: 1.67 (within-run 95 % interval" in text
    assert "One step takes 26.23 ms." in text


def test_the_page_draws_running_counts_spread_and_economics(comparison: Comparison) -> None:
    page = html.page(comparison)
    captions = re.findall(r"</svg><figcaption>(.+?)</figcaption></figure>", page)
    assert [said.split()[0] for said in captions] == ["Lines:", "What", "Speculation:"]
    assert f"<p>{COSTS}" in page
    spread, economics = page.split("<figure>")[2:4]
    # What is drawn are the numbers of the runs: 62.9 and 63.6 tok/s, and the step.
    assert "tok/s of one request' for a linear scale with values from 62.8 to 63.7" in spread
    assert "(accept length): 1.65; cost of a step, in plain steps: 1.6" in economics


def test_without_acceptance_there_is_no_figure_of_economics() -> None:
    page = html.page(compare(grouped([("plain", base()), ("other", base(70.0))])))
    assert "What one request gets" in page
    assert "Speculation:" not in page


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_a_hostile_name_is_text_in_figures_and_words(name: str) -> None:
    page = html.page(compared(name))
    assert not re.search(r"<(script|img|a)\b", page)
    assert "\x1b" not in page


@pytest.mark.parametrize("text", [*NAMES.values(), "\x00", "\ud800", "\ufffe", "a\x1bb\u2029c"])
def test_any_text_in_a_legend_can_be_drawn(text: str) -> None:
    """Of characters that SVG cannot hold the drawing library ends the whole process."""
    frame = pl.DataFrame({"slot": ["0"], "x": [1.0]})
    chart = alt.Chart(frame).mark_point().encode(x="x:Q", color=legend.colour({"0": text}))
    assert pictures.png(pictures.svg(chart.to_dict())).startswith(b"\x89PNG")
