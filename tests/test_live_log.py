"""The log on the Live page: its levels, the way from a moment to its line and back, the pause."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dashboard import against, live_log
from dashboard.charts import bands, series
from data import log_places, notes, queries
from data.errors import SourceError
from data.store import Store
from ingest import lines
from ingest.importer import import_logs
from tests.following import following
from tests.growing import append, decodes, sglang_boot
from tests.logs import decode
from tests.logs import sglang_boot as boot_lines
from tests.pages import SAMPLES, log_block, log_lines, shown
from tests.server import DEADLINE_S
from tests.test_words import tiles
from tests.waiting import until

LOG = SAMPLES / "sglang-0.5.23-retract-sigkill" / "server.log"


def dataset(chart: Any, name: str) -> pl.DataFrame:
    """The rows that a chart sends under this name."""
    (found,) = [data for data in chart.proto.datasets if data.name == name]
    return pl.read_ipc_stream(io.BytesIO(found.data.data))


def imported(store: Store, log: Path) -> str:
    import_logs(store, [str(log)])
    with store.cursor() as con:
        return str(queries.runs_named(con)["run_id"][0])


def last_record(store: Store, run_id: str) -> log_places.LogPlace:
    with store.cursor() as con:
        card = queries.run_card(con, run_id)
        assert card is not None
        place = log_places.at_moment(con, run_id, card["last_ts"])
    assert place is not None
    return place


def test_a_block_is_numbered_from_its_end() -> None:
    assert [line.line_no for line in lines.cut(b"a\nb\n", 9, "f", 12)] == [10, 11]
    assert [line.line_no for line in lines.cut(b"a\nb\nhalf", 9, "f", 12)] == [10, 11, 12]
    assert [line.text for line in lines.cut(b"a\nb\nc\n", 2, None, None)] == ["b", "c"]


def test_the_lines_around_a_record_are_those_of_the_file(empty: Store) -> None:
    run_id = imported(empty, LOG)
    place = last_record(empty, run_id)
    found = lines.around(empty, place.file_id, place.byte_offset, place.line_no)
    written = LOG.read_bytes().decode().split("\n")
    first = found[0].line_no
    assert first is not None
    assert [line.text[:50] for line in found] == [
        text[:50] for text in written[first - 1 : first - 1 + len(found)]
    ]
    (marked,) = [line for line in found if line.line_no == place.line_no]
    assert f"{place.ts:%Y-%m-%d %H:%M:%S}" in marked.text
    with empty.cursor() as con:
        moment = log_places.moment_of(con, run_id, place.file_id, place.line_no + 3)
    assert moment == place.ts


def test_a_file_is_known_again_after_rotation_and_never_mixed_up(
    empty: Store, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(sglang_boot() + decodes(0, 30))
    place = last_record(empty, imported(empty, log))
    asked = (empty, place.file_id, place.byte_offset, place.line_no)
    before = lines.around(*asked)
    log.rename(tmp_path / "server.log.1")
    log.write_bytes(sglang_boot() + decodes(50, 1))
    assert lines.around(*asked) == before
    (tmp_path / "server.log.1").unlink()
    with pytest.raises(SourceError, match="gone or was written anew"):
        lines.around(*asked)
    log.unlink()
    with pytest.raises(SourceError, match="gone or was written anew"):
        lines.around(*asked)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("WARNING 11-29 14:38:40 [api_server.py:12] low memory", "warning"),
        ("(EngineCore pid=77) ERROR 11-29 14:38:40 [core.py:9] engine died", "fault"),
        ("[2026-11-29 15:00:12] WARNING server_args.py:1: cap is lowered", "warning"),
        ("[2026-11-29 15:00:12] server_args=ServerArgs(stop='Traceback ERROR: x')", ""),
        ("INFO 11-29 14:38:40 [serve.py:3] prompt: 'WARNING 11-29 is here'", ""),
        ("Traceback (most recent call last):", ""),
    ],
)
def test_a_printed_level_counts_only_where_levels_are_printed(text: str, level: str) -> None:
    assert live_log._printed(text) == level


def test_a_moment_in_the_address_shows_its_line_marked_on_the_charts(small: Store) -> None:
    with small.cursor() as con:
        (run_id,) = queries.find_runs(con, "sglang-0.5.23-retract-sigkill/server.log")
        events = queries.events(con, run_id).filter(kind="retraction")
    event = events.row(0, named=True)
    moment: datetime = event["ts"]
    address: dict[str, str | list[str]] = {"run": run_id, "at": moment.isoformat()}
    test = shown("live", small, address)
    data = log_block(test)
    assert data is not None
    file_id, _, number = data["marked"].rpartition(":")
    assert file_id == event["file_id"]
    (row,) = [line for line in data["lines"] if line["id"] == f"{file_id}:{event['line_no']}"]
    assert row["level"] == "warning"
    assert abs(int(number) - event["line_no"]) < 5
    for chart in test.get("vega_lite_chart"):
        assert dataset(chart, "at")["ts"].to_list() == [series._ms(moment)]
    test.text_input(key="log_filter").set_value("warning retract").run()
    assert {line["level"] for line in log_lines(test)} == {"warning"}
    test.button(key="log_back").click().run()
    assert "at" not in test.query_params
    assert log_block(test) is None  # a past run has no newest lines
    assert any("Click a point of a chart" in caption.value for caption in test.caption)


def test_a_clicked_point_is_its_moment() -> None:
    moment = datetime(2026, 11, 29, 15, 4, 31, 500_000)
    assert series.moment_of([{"ts": series._ms(moment)}]) == moment
    assert series.moment_of([]) is None
    assert series.moment_of([{"bucket": 3}]) is None


def test_a_paused_page_stands_still_while_reading_goes_on(empty: Store, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(sglang_boot() + decodes(0, 5))
    with following(empty, log) as supervisor:
        until(lambda: supervisor.status()[0].run_id is not None, DEADLINE_S, "the run is stored")
        until(lambda: empty.revision > 0, DEADLINE_S, "the start is stored")
        test = shown("live", empty, supervisor=supervisor)
        test.button(key="pause").click().run()
        before = seen(test)
        lines_before, revision = len(log_lines(test)), empty.revision
        append(log, decodes(5, 10))
        until(lambda: empty.revision > revision, DEADLINE_S, "more is stored")
        test.run()
        assert seen(test) == before
        assert len(log_lines(test)) == lines_before
        test.button(key="pause").click().run()
        assert len(log_lines(test)) > lines_before
        assert not test.exception


def seen(test: Any) -> list[Any]:
    charts = [dataset(chart, "rows").to_dicts() for chart in test.get("vega_lite_chart")]
    return [test.subheader[0].value, [tile.value for tile in test.metric], charts]


def base(**values: Any) -> against.Base:
    card: Mapping[str, Any] = {
        "dp": 1, "max_queued": 12, "accept_len": None, "max_kv_usage": 0.93,
        "max_running_requests": 2048, **values,
    }  # fmt: skip
    return against.Base(card, {8: 400.0})


def test_the_tiles_say_how_they_stand_against_the_baseline() -> None:
    assert against.told(base(), tiles(gen_tok_s=440.0), idle=False) == (
        "10 % above baseline at 8 running", "baseline's cap 2,048", "baseline queued up to 12",
        "baseline does not speculate", "baseline up to 93 %",
    )  # fmt: skip
    worse = tiles(gen_tok_s=300.0, accept_len=1.65)
    known = base(accept_len=1.9, max_running_requests=48, max_queued=0)
    assert against.told(known, worse, idle=False)[:4] == (
        "25 % below baseline at 8 running", "baseline has the same cap", "baseline never queued",
        "-0.25 against baseline's 1.90",
    )  # fmt: skip
    assert against.told(base(), tiles(gen_tok_s=401.0), idle=False)[0] == (
        "as the baseline at 8 running"
    )


def test_nothing_is_said_against_a_baseline_that_never_held_this_load() -> None:
    unlike = "baseline: never steady at this load"
    assert against.told(base(), tiles(running_reqs=9), idle=False)[0] == unlike
    two = tiles(running_reqs=17, ranks_seen=2)
    assert against.told(base(), two, idle=False)[0] == unlike
    both = tiles(running_reqs=16, ranks_seen=2, gen_tok_s=800.0)
    assert against.told(base(), both, idle=False)[0] == "as the baseline at 8 running a rank"
    assert against.told(base(), tiles(), idle=True)[0] == "baseline: nothing to compare"


def test_the_marked_baseline_is_held_against_a_run_of_its_model(
    empty: Store, tmp_path: Path
) -> None:
    for nth, rate in enumerate((100.0, 150.0)):
        log = tmp_path / str(nth) / "server.log"
        log.parent.mkdir()
        clock = [f"10:0{nth}:{second:02}" for second in range(10, 40)]
        rows = [decode(at, 2, rate) for at in clock]
        log.write_text("\n".join([*boot_lines(f"10:0{nth}:00"), *rows]) + "\n")
        import_logs(empty, [str(log)])
    with empty.cursor() as con:
        newest, oldest = queries.runs_named(con)["run_id"]
    said = [c.value for c in shown("live", empty, {"run": newest}).caption]
    assert not any("baseline" in text for text in said)
    notes.use_as_baseline(empty, oldest)
    said = [c.value for c in shown("live", empty, {"run": newest}).caption]
    assert any("baseline has the same cap" in text for text in said)


def test_benchmark_points_stand_behind_the_curves_of_their_minutes(demo: Store) -> None:
    with demo.cursor() as con:
        (run_id,) = queries.find_runs(con, "sglang-0.5.23-base/server.log")
        points = queries.bench_points(con, run_id)
        card = queries.run_card(con, run_id)
    assert card is not None
    found = bands.bands(points, (card["first_ts"], card["last_ts"]))
    assert found.height == points.height == 3
    assert (found["until"] > found["ts"]).all()
    told = bands.sentence(found)
    assert told is not None
    assert told.startswith("Benchmark points in grey, as their client measured them: 1 concurrent")
    early = card["first_ts"] - timedelta(hours=1)
    nothing = bands.bands(points, (early, early + timedelta(minutes=1)))
    assert nothing.schema == pl.Schema(bands.SCHEMA)
    assert bands.sentence(nothing) is None
    test = shown("live", demo, {"run": run_id, "window": "whole run"})
    for chart in test.get("vega_lite_chart"):
        assert dataset(chart, "bands").height == 3
    assert any("Benchmark points in grey" in caption.value for caption in test.caption)
