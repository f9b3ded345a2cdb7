"""The charts of the Compare page: what they hold, how much of it, and that the schema agrees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl
import pytest

from dashboard.charts.compare import aligned_figure, cap_sentence, running_figure, spread_figure
from dashboard.charts.economics import economics_figure
from dashboard.charts.figure import Figure
from data import aligned, charts, palette, pictures, queries, run_data
from data.compare import Comparison, compare, grouped
from data.economics_chart import economics
from data.run_data import RunData
from data.speedups import NONE_OF_ONE, speedups
from data.spread import spread
from data.store import Store
from ingest.importer import import_logs
from tests import capped
from tests.postgres import OpenStore

LENGTH, COST = 1.65, 1.7


@pytest.fixture(scope="module")
def store(
    open_module_store: OpenStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("capped")
    logs = {"base": capped.base(), "eagle3": capped.speculative(LENGTH, COST)}
    with open_module_store() as opened:
        for name, lines in logs.items():
            (folder / name).mkdir()
            log = folder / name / "server.log"
            log.write_text("\n".join(lines) + "\n")
            import_logs(opened, [str(log)], label=name)
        yield opened


@pytest.fixture(scope="module")
def runs(store: Store) -> list[RunData]:
    with store.cursor() as con:
        found = [run_data.load(con, run_id) for run_id in queries.runs_named(con)["run_id"]]
    return sorted(found, key=lambda run: run.name)


@pytest.fixture(scope="module")
def comparison(runs: list[RunData]) -> Comparison:
    return compare(grouped([(None, run) for run in runs]))


def marks(figure: Figure) -> int:
    """How many marks are drawn at most: every layer draws every row of its data."""

    def count(node: dict[str, Any], rows: int) -> int:
        name = node.get("data", {}).get("name")
        rows = len(figure.spec["datasets"][name]) if name else rows
        return sum(count(layer, rows) for layer in node.get("layer", [])) or rows

    return count(figure.spec, 0)


def datasets(figure: Figure) -> list[pl.DataFrame]:
    return [pl.DataFrame(rows) for rows in figure.spec["datasets"].values()]


def test_the_cloud_ends_at_the_cap_and_the_cap_is_a_rule(comparison: Comparison) -> None:
    figure = running_figure(comparison.groups)
    (caps,) = [
        rows for rows in datasets(figure) if set(rows.columns) == {"label", "cap", "near", "slot"}
    ]
    assert caps.select("label", "cap").rows() == [("eagle3", 48)]
    cloud = next(rows for rows in datasets(figure) if "window" in rows.columns)
    most = dict(cloud.group_by("label").agg(pl.col("running_reqs").max()).iter_rows())
    assert most == {"base": 96, "eagle3": 48}
    assert [cap_sentence(group) for group in comparison.groups] == [
        "base is allowed 2,048 running requests; the most seen is 96.",
        "eagle3 ends at its cap: never more than 48 running requests.",
    ]
    assert "eagle3 ends at its cap" in figure.alt


def test_the_line_is_tokens_over_seconds_at_each_count(comparison: Comparison) -> None:
    rates = charts.rates(comparison.groups)
    for label, counts, gain in (
        ("base", capped.BASE_COUNTS, 1.0),
        ("eagle3", capped.SPEC_COUNTS, LENGTH / COST),
    ):
        rows = rates.filter(pl.col("label") == label)
        assert rows["running_reqs"].to_list() == list(counts)
        for running, tok_s in rows.select("running_reqs", "tok_s").iter_rows():
            assert tok_s == pytest.approx(capped.rate(running) * gain, rel=0.01)


@pytest.mark.parametrize("by", aligned.ORIGINS)
def test_runs_are_laid_over_each_other(store: Store, runs: list[RunData], by: str) -> None:
    frame, silent = aligned.series(store, runs, by)
    assert silent == []
    first = frame.group_by("run_id", maintain_order=True).agg(pl.col("at_s").min())["at_s"]
    # The load begins 10 s after the ready line; a bucket is 2 s long.
    assert first.to_list() == pytest.approx({aligned.READY: [10, 10]}.get(by, [0, 0]), abs=2)
    assert (frame.group_by("run_id").len()["len"] <= 300).all()


def test_a_run_without_the_moment_is_named(store: Store, runs: list[RunData]) -> None:
    unknown = RunData({**runs[0].card, "ready_at": None}, *_rest(runs[0]))
    frame, silent = aligned.series(store, [unknown, runs[1]], aligned.READY)
    assert silent == [unknown]
    assert frame["run_id"].unique().to_list() == [runs[1].card["run_id"]]


def _rest(run: RunData) -> tuple[pl.DataFrame, ...]:
    return run.samples, run.events, run.bench, run.access


def test_the_spread_is_of_counts_that_both_hold(comparison: Comparison) -> None:
    rows = spread(comparison.groups)
    assert rows["running_reqs"].unique().sort().to_list() == list(capped.SPEC_COUNTS)
    assert (rows["p10"] <= rows["p50"]).all()
    assert (rows["p50"] <= rows["p90"]).all()
    one = rows.row(0, named=True)
    assert (one["label"], one["running_reqs"]) == ("base", 1)
    assert one["p50"] == pytest.approx(capped.rate(1), rel=0.02)
    # The windows at the admission are mixed: they enter no distribution.
    assert capped.WINDOWS - 3 < one["windows"] < capped.WINDOWS


def test_economics_say_what_was_put_in(comparison: Comparison) -> None:
    rows = economics(comparison)
    assert rows["running_reqs"].to_list() == list(capped.SPEC_COUNTS)
    assert rows["accept_len"].to_list() == pytest.approx([LENGTH] * rows.height, rel=0.01)
    assert rows["step_cost"].to_list() == pytest.approx([COST] * rows.height, rel=0.02)
    figure = economics_figure(comparison)
    assert figure is not None
    points = next(rows for rows in datasets(figure) if "counts" in rows.columns)
    assert points["counts"].to_list() == ["1, 4, 8, 16, 32, 48", *[""] * 5]
    assert "yields 1.65 tokens for 1.70 plain steps" in figure.alt


def test_charts_keep_the_colour_of_a_run_and_stay_small(
    store: Store, comparison: Comparison, runs: list[RunData]
) -> None:
    frame, _ = aligned.series(store, runs, aligned.READY)
    figures = [
        running_figure(comparison.groups), spread_figure(comparison.groups),
        economics_figure(comparison),
        aligned_figure(frame, comparison.groups, aligned.READY),
    ]  # fmt: skip
    slots = palette.slots([group.runs[0].card["run_id"] for group in comparison.groups])
    expected = dict(zip(["base", "eagle3"], map(str, slots), strict=True))
    for figure in figures:
        assert figure is not None
        alt.LayerChart.from_dict(figure.spec)  # holds it against the schema
        assert pictures.svg(figure.spec).startswith("<svg")
        assert marks(figure) <= charts.MARKS
        drawn = [rows for rows in datasets(figure) if "slot" in rows.columns]
        for rows in drawn:
            assert set(rows.select("label", "slot").iter_rows()) <= set(expected.items())


def test_many_windows_are_thinned(comparison: Comparison, runs: list[RunData]) -> None:
    groups = list(comparison.groups)
    for run in runs:
        long = pl.concat([run.windows] * 60).with_row_index("n")
        counts = 1 + pl.col("n") % 700
        run.__dict__["windows"] = long.drop("n").with_columns(
            long.select(counts.alias("running_reqs"))
        )
        run.__dict__.pop("steady", None)
    figure = running_figure(groups)
    for run in runs:
        run.__dict__.pop("windows")
        run.__dict__.pop("steady", None)
    assert marks(figure) <= charts.MARKS


def test_each_number_says_how_sure_it_is(comparison: Comparison) -> None:
    rows = {row["metric"]: row for row in speedups(comparison).iter_rows(named=True)}
    matched = rows["decode at equal running counts, tok/s a rank"]
    match = comparison.pairs[0].match
    assert match is not None
    assert match.interval is not None
    assert (matched["ratio"], matched["low"]) == (match.ratio, match.interval.low)
    assert matched["sure"] == "within-run"
    peak = rows["peak of the log, tok/s"]
    assert peak["sure"] == NONE_OF_ONE
    assert peak["low"] is None
    assert rows["best benchmark point, tok/s"]["sure"] == "baseline: no benchmark"


def test_slots_are_apart_where_two_runs_share_one() -> None:
    names = [f"run {n}" for n in range(40)]
    same = [name for name in names if palette.slot(name) == palette.slot(names[0])]
    assert len(same) > 2
    places = palette.slots(same[:3])
    assert places[0] == palette.slot(names[0])
    assert len(set(places)) == 3
