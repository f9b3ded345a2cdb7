"""docs/export.md and the exports name the same columns, with units; comparisons as files."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import altair as alt
import polars as pl
import pytest

from data import pictures, queries, report, run_curves
from data.compare import Comparison, compare, grouped
from data.store import Store
from ingest import comparing
from ingest.commands import EXPORTS, Commands
from parsers.records import STATISTICS
from tests import simulator, story
from tests.command import fails
from tests.frames import at, decode, facts, samples
from tests.postgres import OpenStore

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "export.md"
UNITS = {
    "_s": "s", "_ms": "ms", "_tok_s": "tokens/s", "_rps": "requests/s", "_gb": "GB",
    "_tokens": "tokens", "_reqs": "requests",
}  # fmt: skip


def documented() -> dict[str, dict[str, str]]:
    """Section -> column -> unit, of the document."""
    found: dict[str, dict[str, str]] = {}
    for section in re.split(r"^## ", DOCUMENT.read_text(encoding="utf-8"), flags=re.M)[1:]:
        name, body = section.split("\n", 1)
        rows = re.findall(r"^\| (`[^|]+`) \|([^|]*)\|", body, flags=re.M)
        found[name] = {
            column.replace("*", statistic): unit.strip()
            for names, unit in rows
            for column in re.findall(r"`([^`]+)`", names)
            for statistic in (STATISTICS if "*" in column else ("",))
        }
    return found


@pytest.fixture
def store(open_store: OpenStore) -> Iterator[Store]:
    """A store with one run of a minute."""
    with open_store() as opened:
        opened.append(facts({"seq": 1, "run_id": "r1", "engine": "sglang", "source_id": "s"}), None)
        opened.append(samples(decode(i) for i in range(1, 60)), None)
        yield opened


def exported(store: Store) -> dict[str, list[str]]:
    """Export -> its columns, of the code."""
    with store.cursor() as con:
        found = {what: queries.exported(con, what, []).columns for what in EXPORTS}
        found["samples --every"] = run_curves.series_of_runs(con, [], 10.0).columns
    return found | {"comparison": list(report.ROWS)}


def test_document_and_exports_name_the_same_columns(store: Store) -> None:
    for what, columns in exported(store).items():
        assert set(documented()[what]) == set(columns), what


def _unit_in(column: str, otherwise: str) -> str:
    """The unit that a column's name ends with, the longest ending first."""
    endings = sorted(UNITS, key=len, reverse=True)
    return next((UNITS[e] for e in endings if f"_{column}".endswith(e)), otherwise)


def test_a_unit_in_a_name_is_the_one_documented() -> None:
    wrong = [
        (what, column, unit)
        for what, columns in documented().items()
        for column, unit in columns.items()
        if unit != _unit_in(column, unit)
    ]
    assert wrong == []


def test_samples_per_interval_keep_the_tokens(store: Store) -> None:
    frame = Commands(store).export("samples", ["r1"], 10.0)
    assert frame["ts"].to_list()[:2] == [at(1), at(11)]
    assert frame["gen_tok_s"].to_list()[:5] == pytest.approx([100.0] * 5)
    assert frame["interval_s"].to_list() == [10.0] * frame.height


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Two of the story's set-ups, one with a label that means harm."""
    (base,), (other,) = (simulator.from_text(story.four()[name]) for name in ("base", "eagle3"))
    return compare(grouped([("base", base), ('=cmd|"/c calc"!A1<script>alert(1)</script>', other)]))


def as_file(comparison: Comparison, form: str) -> bytes:
    return comparing.as_file(comparing.answer(comparison, comparing.asked_as(form)), form)


def test_a_comparison_is_a_table_in_every_form(comparison: Comparison) -> None:
    csv = pl.read_csv(io.BytesIO(as_file(comparison, "csv")))
    parquet = pl.read_parquet(io.BytesIO(as_file(comparison, "parquet")))
    assert csv.columns == parquet.columns == list(report.ROWS)
    assert parquet.schema == pl.Schema(report.ROWS)
    assert json.loads(as_file(comparison, "json"))[0]["source"] == "log_combined"
    assert as_file(comparison, "md").decode().startswith("| baseline | label |")


def test_no_cell_of_a_comparison_starts_a_formula(comparison: Comparison) -> None:
    labels = pl.read_csv(io.BytesIO(as_file(comparison, "csv")))["label"]
    assert labels.str.starts_with("'=cmd").all()
    assert report.render(comparison, "csv") == as_file(comparison, "csv").decode()


class Page(HTMLParser):
    """What an HTML file holds and what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data") and not (value or "").startswith("#"):
                self.loads.append(f"{tag} {name}={value}")


def test_the_report_is_one_file_that_loads_nothing(comparison: Comparison) -> None:
    text = as_file(comparison, "html").decode()
    page = Page()
    page.feed(text)
    assert page.loads == []
    assert "script" not in page.tags
    assert "url(" not in text.replace("url(#", "")
    assert {"svg", "table", "h1", "h2"} <= set(page.tags)
    assert "Content-Security-Policy" in text
    assert "A speculative step costs 1.67 plain steps and yields 1.65 tokens" in text


def test_charts_are_pictures(comparison: Comparison) -> None:
    drawn = as_file(comparison, "svg").decode()
    assert drawn.startswith("<svg")
    assert "tokens per second, per rank" in drawn
    assert as_file(comparison, "png").startswith(b"\x89PNG\r\n\x1a\n")


def test_only_a_comparison_is_drawn(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "s.duckdb")
    assert "only a comparison is drawn" in fails("export", "runs", "--format", "html", *store)
    assert "the baseline first" in fails("export", "comparison", *store)
    Store.open(tmp_path / "s.duckdb").close()
    assert "it is for samples" in fails("export", "events", "--every", "10", *store)


@pytest.mark.parametrize("odd", ["\x1b[31m", "a\u2028b", "a\r\nb", "\ufffe", "</svg>&"])
def test_a_label_that_no_picture_holds_is_drawn(odd: str) -> None:
    """The drawing library ends the process of which it is asked to draw an escape."""
    frame = pl.DataFrame({"label": [odd], "tok_s": [82.5]})
    chart = alt.Chart(frame).mark_bar().encode(alt.X("label:N", sort=[odd]), alt.Y("tok_s:Q"))
    assert pictures.png(pictures.svg(chart.to_dict())).startswith(b"\x89PNG")


def test_a_label_may_begin_with_a_plus(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("")
    found = comparing.wanted(f"+mtp={log}")
    assert (found.label, found.log, found.bench) == ("+mtp", log, ())
