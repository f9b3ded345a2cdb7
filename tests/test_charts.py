"""Time charts: gaps stay gaps, the cap is drawn or said, the schema holds, sizes are bounded."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import altair as alt
import polars as pl
import pytest

from dashboard import theme
from dashboard.charts.live import figures
from dashboard.charts.marks import MOST, marks
from dashboard.charts.series import ENDS, segments
from data import legend, pictures
from data.palette import DARK, LIGHT
from parsers import records

START = datetime(2026, 11, 29, 15, 0, 0)


def curves(seconds: list[int], **columns: list[Any]) -> pl.DataFrame:
    count = len(seconds)
    values: dict[str, list[Any]] = {
        "bucket": seconds, "gen_tok_s": [100.0] * count, "gen_tok_s_min": [90.0] * count,
        "gen_tok_s_max": [120.0] * count, "running_reqs": [8] * count,
        "queued_reqs": [0] * count, "kv_usage": [0.5] * count, "accept_len": [None] * count,
    }  # fmt: skip
    values.update(columns)
    times = [START + timedelta(seconds=second) for second in seconds]
    schema = {"accept_len": pl.Float64()}
    moments = dict.fromkeys(("ts", "gauges_at", "kv_at"), times)
    return pl.DataFrame({**moments, **values}, schema_overrides=schema).with_columns(
        pl.col(*moments).cast(pl.Datetime("us"))
    )


def card(started: datetime | None = START) -> dict[str, Any]:
    return {"started_at": started}


def event(second: int, kind: str, severity: str = "info") -> dict[str, Any]:
    ts = START + timedelta(seconds=second)
    return {"ts": ts, "kind": kind, "severity": severity, "title": f"{kind} <b>&"}


def drawn(frame: pl.DataFrame, cap: int | None = None, **more: Any) -> list[Any]:
    found = marks(records.frame(more.get("events", []), records.EVENTS), card())
    span = (START, frame["ts"][-1])
    return figures(frame, found, span, "2", cap, speculates=more.get("speculates", False))


def test_a_gap_breaks_the_line() -> None:
    frame = curves([0, 1, 2, 60, 100, 101])
    assert segments(frame, "gen_tok_s")["segment"].to_list() == [0, 0, 0, 1, 2, 2]


def test_a_gauge_is_drawn_at_its_stamp() -> None:
    stamp = START + timedelta(seconds=1.5)
    frame = curves([0, 1], kv_at=[START, stamp])
    assert segments(frame, "kv_usage", "kv_at")["ts"].to_list() == [START, stamp]


def test_a_missing_value_is_left_out_and_never_zero() -> None:
    frame = curves([0, 1, 2], gen_tok_s=[5.0, None, 7.0])
    rows = segments(frame, "gen_tok_s")
    assert rows["gen_tok_s"].to_list() == [5.0, 7.0]
    assert rows["segment"].to_list() == [0, 1]


def test_the_acceptance_is_for_runs_that_speculate() -> None:
    frame = curves([0, 1])
    assert [figure.key for figure in drawn(frame)] == [
        "gen_tok_s", "running_reqs", "queued_reqs", "kv_usage",
    ]  # fmt: skip
    waiting = drawn(frame, speculates=True)[3]
    assert waiting.spec["title"]["text"] == "Accept length (no samples)"
    assert waiting.alt == "Accept length: no samples."
    alt.Chart.from_dict(waiting.spec, validate=True)


def test_every_chart_holds_to_the_schema() -> None:
    events = [event(1, "ready"), event(2, "fault", "fault"), event(3, "retraction")]
    made = drawn(
        curves(list(range(9)), accept_len=[1.5] * 9), cap=9, events=events, speculates=True
    )
    assert len(made) == 5
    for figure in made:
        alt.Chart.from_dict(figure.spec, validate=True)


def test_charts_share_one_time_axis_of_plain_numbers() -> None:
    ends = [figure.spec["datasets"][ENDS] for figure in drawn(curves([0, 100]))]
    start = int(datetime.fromisoformat("2026-11-29T15:00:00+00:00").timestamp() * 1000)
    for (one,) in ends:
        assert (one["from"], one["to"]) == (start - 1000, start + 101_000)


@pytest.mark.parametrize(
    ("cap", "rules", "title"),
    [
        (None, 0, "Running requests"),
        (9, 1, "Running requests"),
        (2048, 0, "Running requests (cap 2,048, above this scale)"),
    ],
)
def test_the_cap_is_a_rule_or_is_said(cap: int | None, rules: int, title: str) -> None:
    running = drawn(curves([0, 1, 2]), cap=cap)[1].spec
    assert len(running["datasets"]["caps"]) == rules
    assert running["title"]["text"] == title
    assert running["datasets"][ENDS][0]["top"] >= 8.8


def test_new_values_change_nothing_but_data() -> None:
    """So a browser goes on with the chart that it has."""
    once, again = (drawn(curves(list(range(n)), gen_tok_s=[n] * n)) for n in (5, 9))
    for before, after in zip(once, again, strict=True):
        assert before.spec["datasets"] != after.spec["datasets"]
        assert {**before.spec, "datasets": 0} == {**after.spec, "datasets": 0}


def test_what_a_browser_has_drawn_ends_where_the_data_says() -> None:
    figure = drawn(curves([0, 100], gen_tok_s=[10.0, 400.0]))[0]
    picture = pictures.svg(figure.spec)
    assert ">15:00:00<" in picture
    assert ">400<" in picture


def test_alt_texts_carry_the_numbers() -> None:
    frame = curves([0, 1, 2, 60], gen_tok_s=[5.0, 612.0, 100.0, 412.0])
    throughput, running, *_ = drawn(frame, cap=48)
    assert throughput.alt == (
        "Generation throughput from 15:00:00 to 15:01:00: last 412 tok/s, lowest 5, "
        "highest 612; 1 gap."
    )
    assert running.alt.endswith("The cap is 48.")


def test_sizes_are_bounded() -> None:
    events = [event(n, "retraction") for n in range(500)] + [event(3, "fault", "fault")]
    made = drawn(curves(list(range(300))), events=events)
    for figure in made:
        datasets = figure.spec["datasets"]
        assert len(datasets["rows"]) <= 300
        assert len(datasets["marks"]) <= MOST + 1
        assert len(json.dumps(figure.spec)) < 100_000
    kinds = [mark["mark"] for mark in made[0].spec["datasets"]["marks"]]
    assert kinds.count("fault") == 1  # the rare fault outlives the many retractions
    assert kinds[0] == "start"


def test_a_run_keeps_its_colour() -> None:
    assert theme.run_slot("r1") == theme.run_slot("r1")
    assert {theme.run_slot(f"run {n}") for n in range(200)} == set(legend.SLOTS[:-1])


@pytest.mark.parametrize("colours", [(LIGHT, "#FFFFFF"), (DARK, "#12161C")])
def test_colours_stand_out_from_their_page(colours: tuple[list[str], str]) -> None:
    palette, page = colours
    for colour in [*palette, theme.RULE, theme.FAULT]:
        assert contrast(colour, page) >= 3, colour


def contrast(first: str, second: str) -> float:
    """The contrast ratio of WCAG 2."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
