"""The Incidents page: the answer first, one row a cause, and why some lines do not count."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import altair as alt
import polars as pl
import pytest
import streamlit as st

from dashboard import incident_view
from dashboard.charts import incidents as charts
from data import export, incidents
from data.store import Store
from ingest.importer import import_logs
from parsers import records
from tests.frames import Frames, at, events
from tests.logs import decode, sglang_boot
from tests.pages import HOSTILE, SAMPLES, first_line, shown, write_hostile


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.duckdb") as opened:
        yield opened
    st.cache_resource.clear()


CRASH = (
    "[2026-05-04 10:0{}:09] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3 GiB."
)


def crashes(store: Store, tmp_path: Path, n: int) -> None:
    """Import a log in which n servers run out of memory."""
    lines = []
    for minute in range(n):
        lines += [
            *sglang_boot(f"10:0{minute}:00"),
            decode(f"10:0{minute}:05"),
            CRASH.format(minute),
        ]
    log = tmp_path / "server.log"
    log.write_text("\n".join(lines) + "\n")
    import_logs(store, [str(log)])


def test_an_empty_store_says_what_to_do(store: Store) -> None:
    test = shown("incidents", store)
    assert first_line(test) == "No runs yet, so no incidents."
    assert "servescope import" in test.info[0].value


def test_the_demo_has_no_fault_and_says_what_does_not_count(store: Store) -> None:
    import_logs(store, [str(path) for path in sorted(SAMPLES.glob("*/server.log"))])
    test = shown("incidents", store)
    assert first_line(test).startswith("No fault in 5 runs; ")
    harmless = test.dataframe[-1].value
    assert set(harmless["why"]) <= set(incident_view._WHY.values())
    assert len(harmless) > 0
    table = test.dataframe[0].value
    assert set(table["class"]) <= set(incident_view.LANES.values())
    assert table["evidence"].notna().all()


def test_one_crash_is_told_with_its_cause_its_run_and_its_time(
    store: Store, tmp_path: Path
) -> None:
    crashes(store, tmp_path, 1)
    line = first_line(shown("incidents", store))
    assert line.startswith("1 crash in 1 run: CUDA out of memory")
    assert " at 2026-05-04 10:00:09; no warnings." in line


def test_filters_come_from_the_address(store: Store, tmp_path: Path) -> None:
    crashes(store, tmp_path, 2)
    with store.cursor() as con:
        found = incidents.incidents(con)
    assert found["lane"].to_list() == ["out_of_memory"] * 2
    run_id = found["run_id"][0]
    test = shown("incidents", store, {"run": run_id, "severity": "fault"})
    assert first_line(test).startswith("1 crash in 1 run: ")
    assert len(test.dataframe[0].value) == 1
    assert test.query_params["run"] == run_id
    test = shown("incidents", store, {"severity": "warning"})
    assert first_line(test).startswith("2 crashes in 2 runs, the latest ")
    assert "None of these" in test.caption[0].value


def test_hostile_text_is_text(store: Store) -> None:
    write_hostile(store)
    test = shown("incidents", store)
    assert not test.error
    table = test.dataframe[0].value
    assert set(table["evidence"]) == set(HOSTILE)
    for element in (*test.subheader, *test.markdown, *test.caption):
        assert not re.search(r"(?<!\\)[<*\[$]", element.value.replace("**", "")), element.value
    with store.cursor() as con:
        named = incident_view.named(incidents.incidents(con), {})
    csv = pl.read_csv(io.BytesIO(export.render(incident_view.table(named), "csv")))
    assert not csv["evidence"].str.starts_with("=").any()


def test_a_damaged_store_is_one_clear_line(store: Store) -> None:
    with store.cursor() as con:
        con.execute("DROP VIEW incidents")
    assert shown("incidents", store).error[0].value.startswith("The store could not be read:")


def test_lines_that_were_not_read_are_an_incident_of_the_run_before(store: Store) -> None:
    event = {"run_id": "r1", "source_id": "s", "file_id": "f", "kind": "boot", "severity": "info"}
    store.append(events({**event, "byte_offset": 0, "line_no": 1, "ts": at(0), "title": "x"}), None)
    note = {"source_id": "s", "file_id": "f", "byte_offset": 90, "at": at(0)}
    notes = [{**note, "kind": "damaged", "shape": "Decode batch, <n>", "n": 4},
             {**note, "kind": "renamed", "detail": "goes on"}]  # fmt: skip
    store.append(Frames(ingest_log=records.frame(notes, records.INGEST_LOG)), None)
    with store.cursor() as con:
        row = incidents.incidents(con).row(0, named=True)
        assert incidents.incidents(con).height == 1
    assert (row["lane"], row["run_id"], row["count"]) == ("unread", "r1", 4)
    assert row["evidence"] == "Decode batch, <n>"


def many(n: int) -> pl.DataFrame:
    """Incidents, every tenth a fault, of ten seconds each, in the columns of data.incidents."""
    texts = ("detail", "run_id")
    rows = [
        {"lane": ("stall", "gpu")[i % 10 == 0], "severity": ("warning", "fault")[i % 10 == 0],
         "first_ts": at(i), "last_ts": at(i) + timedelta(seconds=10), "count": 1 + i % 7,
         "title": f"t{i}", "source_id": "s", "line_no": i, "byte_offset": i}
        for i in range(n)
    ]  # fmt: skip
    unknown = [pl.lit(None, pl.String).alias(name) for name in texts]
    return incident_view.named(pl.DataFrame(rows).with_columns(*unknown), {})


def test_names_places_and_titles() -> None:
    found = many(3).with_columns(
        run_id=pl.Series(["r1", None, None]),
        title=pl.Series(["Killed", "Out of memory: tried 3 GiB", "x" * 300]),
        detail=pl.Series(["signal 9", "tried 3 GiB", None]),
        source_id=pl.lit("ssh://gpu1/var/log/server.log"), byte_offset=pl.Series([21367, 1, None]),
    )  # fmt: skip
    named = incident_view.named(found, {"r1": "base/server.log"})
    assert named["run"].to_list() == ["base/server.log", None, None]
    assert named["what"].to_list()[:2] == ["Killed: signal 9", "Out of memory: tried 3 GiB"]
    assert named["what"][2] == "x" * 159 + "…"
    assert named["place"][0] == "server.log:0 (byte 21,367)"
    assert named["place"][2] is None


def test_never_more_than_2000_marks_and_faults_stay() -> None:
    figure = charts.lanes(many(5_000))
    assert figure is not None
    assert figure.table.height == charts.MOST
    assert figure.table.filter(severity="fault").height == 500
    assert 2 * charts.MOST < 2_000
    assert "the weightiest 900 of 5,000" in figure.title
    assert "500 GPU error, 400 stall" in figure.alt
    alt.Chart.from_dict(figure.spec)  # a SchemaValidationError where Vega-Lite has none


def test_without_a_time_there_is_nothing_to_draw() -> None:
    assert charts.lanes(many(3).with_columns(first_ts=pl.lit(None, pl.Datetime("us")))) is None
