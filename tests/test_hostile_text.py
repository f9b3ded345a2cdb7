"""Names, labels, log lines and results that mean harm are text on every page and in every file."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

from dashboard import bench_view, context, incident_view
from data import bench, export, incidents, queries
from data.store import Store
from ingest.bench_desk import BenchDesk
from tests import hostile
from tests.logs import decode, sglang_boot
from tests.pages import HOSTILE, shown, write_hostile

_ESCAPED = re.compile(r"\\[^\w\s]")
_MARKUP = re.compile(r"<\w|\]\(|:\w+\[|`|\$\w")
_TURNING = re.compile("[\x1b\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"^\s*[=+\-@]")


def table_of(name: str, tok_s: float) -> bytes:
    """A table made by hand, with harmful texts in a cell and as a title that nobody knows."""
    cell = name.replace("\u2028", " ").replace("|", "/")
    return f"conc\ttok/s\t{cell}\n1\t{tok_s}\t{cell}\n8\t{4 * tok_s}\t{cell}\n".encode()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("hostile")
    with Store.open(folder / "store.duckdb") as opened:
        hostile.fill(opened, folder / "logs")
        write_hostile(opened)
        desk = BenchDesk(opened)
        for nth, name in enumerate(HOSTILE):
            assert desk.save([(f"{name}.tsv", table_of(name, 80.5 + nth))], name) == 2
        yield opened


def markup_of(test: AppTest) -> list[str]:
    """What of the page's words is markup or turns the direction of others."""
    kinds = (test.subheader, test.markdown, test.caption, test.warning, test.error, test.info)
    formatted = [str(element.value) for kind in (*kinds, test.success) for element in kind]
    found = [text for text in formatted if _MARKUP.search(_ESCAPED.sub("", text))]
    said = [*formatted, *(str(element.value) for element in test.text)]
    return found + [text for text in said if _TURNING.search(text)]


@pytest.mark.parametrize(
    "name", ["live", "runs", "run", "compare", "bench", "incidents", "explore"]
)
def test_every_page(store: Store, name: str) -> None:
    with store.cursor() as con:
        table = queries.runs_table(con)
        runs = table.filter(pl.col("n_decode") > 0)["run_id"].to_list()
        points = bench_view.with_sets(bench.points(con), queries.runs_table(con))
        found = incidents.incidents(con)["incident_id"].to_list()
    address: dict[str, str | list[str]] = {
        "run": runs[0], "selected": runs, "base": runs[0], "with": runs[1:],
        "q": "SELECT r.label, e.title, e.evidence FROM events e JOIN runs r USING (run_id)",
    }  # fmt: skip
    each: dict[str, list[dict[str, str | list[str]]]] = {
        "bench": [{"point": point} for point in points["bench_id"].to_list()[::2]],
        "incidents": [{"incident": one} for one in found],
        "run": [{"run": run_id} for run_id in table["run_id"]],
        "live": [{"run": run_id} for run_id in table["run_id"]],
    }
    for more in each.get(name, [{}]):
        asked = {**address, **more} if name != "incidents" else more
        test = shown(name, store, asked)
        assert markup_of(test) == []


def test_files_have_no_formula(store: Store) -> None:
    with store.cursor() as con:
        frames = [
            queries.exported(con, "runs", []), bench.points(con),
            incident_view.table(incident_view.named(incidents.incidents(con), {})),
        ]  # fmt: skip
    for frame in frames:
        read = pl.read_csv(io.BytesIO(export.render(frame, "csv")), infer_schema=False)
        cells = read.select(
            name for name, kind in frame.schema.items() if kind in (pl.String, pl.List(pl.String))
        )
        assert cells.height > 0
        for column in cells:
            assert [cell for cell in column.drop_nulls() if _FORMULA.match(cell)] == []


def test_a_dropped_file(store: Store) -> None:
    test = shown("bench", store)
    context.enter(replace(context.current(), bench=BenchDesk(store)))
    test.run()
    dropped = [
        (f"{name}.tsv", table_of(name, 30.5 + nth), "text/plain")
        for nth, name in enumerate(HOSTILE)
    ]
    test.file_uploader[0].set_value(dropped).run()
    assert not test.exception
    assert sum("table made by hand" in said.value for said in test.markdown) == len(HOSTILE)
    assert markup_of(test) == []


def test_a_source_that_is_tested(store: Store, tmp_path: Path) -> None:
    log = tmp_path / f"{HOSTILE[3]} **x**.log"
    log.write_text("\n".join([*HOSTILE, *sglang_boot("10:00:00"), decode("10:00:05")]) + "\n")
    test = shown("sources", store)
    test.text_input(key="add_location").set_value(str(log))
    next(button for button in test.button if button.label == "Test").click().run()
    assert not test.exception
    assert HOSTILE[0] in test.code[0].value
    # The page's own table of addresses is Markdown with code in it.
    assert [text for text in markup_of(test) if "| address |" not in text] == []
