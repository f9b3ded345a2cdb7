"""docs/metrics.md has every metric of the code and every rule, with unit, formula and source."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import polars as pl

from dashboard import metric_help
from dashboard.charts import live
from data import queries, report, run_curves
from data.compare import RATES
from data.findings.rules import RULES
from data.run_curves import LiveTiles
from data.speculation import Economics
from data.token_check import Allowance
from parsers.records import SAMPLES
from tests.postgres import OpenStore

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
CHARTS = (DOCUMENT.parents[1] / "dashboard" / "charts").glob("*.py")
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in CHARTS)
# Where a record stands, and what is no measurement.
PLACES = {
    "run_id", "byte_offset", "line_no", "dp_rank", "tp_rank", "pp_rank", "ep_rank",
    "engine_index", "ts_inferred", "bucket", "gpus", "tp", "dp", "pp", "ep", "seq", "spec_steps",
    "spec_draft_tokens", "max_running_requests", "max_total_tokens", "context_len", "archived",
    "baseline", "running",
}  # fmt: skip


def rows() -> list[list[str]]:
    """The cells of every row of every table."""
    lines = [line for line in TEXT.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named() -> set[str]:
    """Every name in the first column, and the parts of the allowance in their row."""
    first = {name for row in rows() for name in re.findall(r"`(\w+)`", row[0])}
    (allowed,) = [row for row in rows() if row[0] == "`allowed_tokens`"]
    return first | set(re.findall(r"`(\w+)`", allowed[2]))


def measured(schema: pl.Schema) -> set[str]:
    """Columns that hold numbers."""
    numbers = (pl.List, pl.Boolean)
    return {
        name for name, kind in schema.items() if kind.is_numeric() or isinstance(kind, numbers)
    } - PLACES


def test_every_column_that_measures_is_documented(open_store: OpenStore) -> None:
    with open_store() as store, store.cursor() as con:
        columns = measured(queries.runs_table(con).schema)
        columns |= measured(run_curves.series_of_runs(con, [], 10.0).schema)
    columns |= measured(pl.Schema(SAMPLES)) | measured(pl.Schema(report.ROWS))
    assert len(columns) > 50
    assert columns - {"tags"} - named() == set()


def test_every_number_of_the_analysis_is_documented() -> None:
    words = {"base_graph", "graph", "refused", "running"}
    spec = {field.name for field in fields(Economics)} - words
    tiles = {field.name for field in fields(LiveTiles)} - {"last_ts"}
    known = {name for name in spec | tiles if not name.endswith("_interval")}
    assert (known | set(RATES) | {part.name for part in fields(Allowance)}) - named() == set()


def test_every_rule_is_documented_and_no_other() -> None:
    section = TEXT.partition("## Findings")[2]
    listed = re.findall(r"^\| `(\w+)` \|", section, flags=re.M)
    assert sorted(listed) == sorted(rule.__name__ for rule in RULES)


def test_every_metric_has_unit_formula_line_and_releases() -> None:
    metrics = [row for row in rows() if len(row) == 5]
    assert len(metrics) > 40
    assert [row[0] for row in metrics if not row[2] or (not row[3] and "`" not in row[0])] == []
    without_unit = {"graph_on", "preemptions", "ratio", "ratio_low", "speedup"}
    for row in metrics:
        first = re.findall(r"`(\w+)`", row[0])[0]
        assert row[1] or first in without_unit, first


def test_the_help_of_every_chart_says_how_its_numbers_are_made() -> None:
    drawn = set(re.findall(r'Figure\(\s*"(\w+)"', SOURCE)) | {look.column for look in live.LOOKS}
    drawn |= set(re.findall(r'_figure\(\s*"(\w+)"', SOURCE)) | {"bench_ttft", "bench_tpot"}
    # The answer to a question of the user's own is not ours to explain.
    assert set(metric_help.OF_CHART) == drawn - {"answer"}
    for chart, names in metric_help.OF_CHART.items():
        assert names
        assert set(names) <= set(metric_help.metrics()), chart
        assert len(metric_help.explain(chart)) > 60
