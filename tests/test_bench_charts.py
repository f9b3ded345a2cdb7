"""Charts of benchmark points: what is drawn, and that the frontier is one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl
import pytest

from dashboard import bench_view
from dashboard.charts import bench as charts
from data import legend, queries
from parsers import records
from tests.postgres import OpenStore

AT = datetime(2026, 6, 11, 10, 0)


def points(*rows: dict[str, Any], runs: pl.DataFrame | None = None) -> pl.DataFrame:
    """Points as the page has them: the columns of data.bench.points."""
    more = {
        "run_label": pl.String, "join_method": pl.String, "window_started_at": pl.Datetime("us"),
        "window_ended_at": pl.Datetime("us"), "clock_offset_s": pl.Float64,
        "server_gen_tok_s": pl.Float64, "server_running_reqs": pl.Float64,
        "server_queued_reqs": pl.Float64, "server_accept_len": pl.Float64,
        "server_kv_usage": pl.Float64, "server_prefix_hit_rate": pl.Float64,
        "log_tokens": pl.Float64, "token_difference": pl.Float64, "allowed_tokens": pl.Float64,
        "join_detail": pl.String,
    }  # fmt: skip
    schema: dict[str, Any] = {**records.BENCH_RESULTS, **more}
    full = [
        {"bench_id": str(at), "bench_file": "/r/base/out.json", "tool": "vllm bench serve", **row}
        for at, row in enumerate(rows)
    ]
    frame = pl.DataFrame([{n: row.get(n) for n in schema} for row in full], schema=schema)
    return bench_view.with_slots(bench_view.with_sets(frame, no_runs() if runs is None else runs))


def no_runs() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "run_id": pl.String, "label": pl.String, "source_id": pl.String,
            "started_at": pl.Datetime("us"), "gpus": pl.Int32, "max_running_requests": pl.Int32,
            "dp": pl.Int32,
        }
    )  # fmt: skip


def point(load: float, rate: float, tpot: float | None = None, **more: Any) -> dict[str, Any]:
    return {"concurrency": load, "output_tok_s": rate, "tpot_ms_median": tpot, **more}


def values(spec: dict[str, Any]) -> list[list[dict[str, Any]]]:
    return list(spec["datasets"].values())


def test_the_frames_of_runs_have_what_the_page_needs(open_store: OpenStore) -> None:
    with open_store() as store, store.cursor() as con:
        assert set(no_runs().columns) <= set(queries.runs_table(con).columns)


def test_the_curve_has_a_line_a_set_and_its_cap() -> None:
    runs = pl.DataFrame(
        [("r1", None, "/logs/eagle/server.log", None, 8, 24, 2)],
        schema=no_runs().schema,
        orient="row",
    )
    shown = points(
        point(1, 62.9, run_id="r1"), point(64, 849.0, run_id="r1"), point(64, 2370.0, label="base"),
        runs=runs,
    )  # fmt: skip
    assert shown["set"].to_list() == ["base", "eagle/server.log", "eagle/server.log"]
    assert shown["tok_s_gpu"].to_list() == [None, 62.9 / 8, 849.0 / 8]
    assert shown["slot"].n_unique() == 2
    chart = charts.curve(shown)
    assert chart is not None
    spec = chart.to_dict()
    assert [row["text"] for rows in values(spec) for row in rows if "text" in row] == ["cap 48"]
    assert [layer["mark"]["type"] for layer in spec["layer"][:3]] == ["rect", "rule", "text"]
    assert {"cap": 48, "end": 64.0} in [row for rows in values(spec) for row in rows]
    x = spec["layer"][-1]["encoding"]["x"]
    assert (x["scale"]["type"], x["scale"]["base"]) == ("log", 2)
    said = charts.curve_text(shown)
    assert "base: 2,370 at 64; eagle/server.log: 62.9 at 1, 849 at 64." in said


def test_runs_of_one_label_are_one_line() -> None:
    """A set-up that was started anew between two loads; without a label each start is its own."""
    mine = [(f"r{n}", "mine", "a.log", AT.replace(hour=n), 1, 4, 1) for n in (1, 2)]
    own = [(f"o{n}", None, "b.log", AT.replace(hour=n), 1, 4, 1) for n in (1, 2)]
    shown = points(
        *(point(n, 60.0, run_id=f"r{n}", run_label="mine") for n in (1, 2)),
        *(point(n, 60.0, run_id=f"o{n}") for n in (1, 2)),
        runs=pl.DataFrame(mine + own, schema=no_runs().schema, orient="row"),
    )
    starts = [f"b.log · 2026-06-11 0{n}:00:00" for n in (1, 2)]
    assert shown["set"].to_list() == [*starts, "mine", "mine"]


def test_the_label_of_a_cap_stands_where_there_is_room() -> None:
    runs = pl.DataFrame(
        [("low", None, "a.log", None, 1, 4, 1), ("high", None, "b.log", None, 1, 48, 1)],
        schema=no_runs().schema, orient="row",
    )  # fmt: skip
    chart = charts.curve(
        points(point(1, 60.0, run_id="low"), point(64, 900.0, run_id="high"), runs=runs)
    )
    assert chart is not None
    spec = chart.to_dict()
    placed = {
        row["text"]: layer["mark"]["align"]
        for layer in spec["layer"]
        if layer["mark"]["type"] == "text"
        for row in spec["datasets"][layer["data"]["name"]]
    }
    assert placed == {"cap 4": "left", "cap 48": "right"}


def test_no_point_with_a_load_draws_no_curve() -> None:
    shown = points({"output_tok_s": 5.0}, {"concurrency": 4.0})
    assert charts.curve(shown) is None
    assert charts.pareto(shown) is None
    assert charts.ranges(shown, "ttft") is None


def test_the_frontier_holds_what_nothing_beats() -> None:
    shown = points(
        point(1, 80.0, 10.0), point(8, 400.0, 20.0), point(16, 390.0, 25.0), point(64, 900.0, 50.0),
        point(2, 70.0, 12.5),
    )  # fmt: skip
    best = charts.frontier(shown).filter("best")
    assert best.select("tok_s_user", "y").rows() == [(100.0, 80.0), (50.0, 400.0), (20.0, 900.0)]
    chart = charts.pareto(shown)
    assert chart is not None
    spec = chart.to_dict()
    assert spec["layer"][0]["mark"]["interpolate"] == "step-before"
    assert spec["layer"][1]["encoding"]["y"]["title"] == "output tok/s (GPUs not known)"


def test_gpus_of_a_point_give_throughput_per_gpu() -> None:
    chart = charts.pareto(points(point(8, 400.0, 20.0, gpus=8)))
    assert chart is not None
    spec = chart.to_dict()
    assert [row["y"] for rows in values(spec) for row in rows] == [50.0]
    assert spec["layer"][1]["encoding"]["y"]["title"] == "output tok/s per GPU"


def test_latencies_are_dots_on_a_line() -> None:
    shown = points(
        {"concurrency": 4.0, "ttft_ms_median": 100.0, "ttft_ms_p99": 900.0},
        {"concurrency": 4.0, "ttft_ms_median": 120.0},
        {"concurrency": 8.0},
    )
    chart = charts.ranges(shown, "ttft")
    assert chart is not None
    rows = [row for held in values(chart.to_dict()) for row in held]
    assert sorted((row["row"], row["statistic"], row["ms"]) for row in rows) == [
        ("base (vllm bench serve) · 4", "p50", 100.0),
        ("base (vllm bench serve) · 4", "p99", 900.0),
        ("base (vllm bench serve) · 4 (2)", "p50", 120.0),
    ]


def test_every_set_has_a_slot_of_its_own_while_there_are_any() -> None:
    shown = points(*(point(1, 1.0, label=f"set {n}") for n in range(len(legend.SLOTS))))
    assert shown["slot"].n_unique() == len(legend.SLOTS)


def test_sets_drawn_together_differ_however_many_are_stored() -> None:
    stored = points(*(point(1, 1.0, label=f"set {n}") for n in range(3 * len(legend.SLOTS))))
    names = stored["set"].unique(maintain_order=True)
    for first in range(0, len(names), 4):
        drawn = stored.filter(pl.col("set").is_in(names[first : first + 4].implode()))
        assert bench_view.with_slots(drawn)["slot"].n_unique() == 4


def test_the_set_up_of_the_headline_is_drawn() -> None:
    many = [point(n, 100.0, label=f"set {at}") for at in range(bench_view.SHOWN) for n in (1, 2)]
    stored = points(*many, point(8, 775.0, label="fastest"))
    assert bench_view.headline(stored).endswith("most output 775 tok/s: fastest at 8 concurrent.")
    assert bench_view.default_sets(stored) == ["fastest", "set 0", "set 1", "set 2"]
    silent = stored.with_columns(output_tok_s=pl.lit(None, pl.Float64))
    assert bench_view.default_sets(silent) == [f"set {n}" for n in range(bench_view.SHOWN)]


def test_names_that_look_like_code_stay_text() -> None:
    chart = charts.curve(points(point(1, 1.0, label='a\' "b" \\ ${c}')))
    assert chart is not None
    legend = chart.to_dict()["layer"][0]["encoding"]["color"]["legend"]
    assert legend["labelExpr"].endswith("""? "a' \\"b\\" \\\\ ${c}" : datum.label""")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run_id": None}, "No run was found that served this point."),
        ({"window_started_at": None, "join_method": "explicit"}, "Given as of run base; its time"),
        ({}, "Run base, 10:00:00 to 10:00:00 of the server's clock: joined by its clock, +2 h on"),
    ],
)
def test_the_join_is_told_in_words(changes: dict[str, Any], words: str) -> None:
    row = {
        "run_id": "r1", "run_name": "base", "window_started_at": AT, "window_ended_at": AT,
        "join_method": "clock", "clock_offset_s": 7200.0, **changes,
    }  # fmt: skip
    assert bench_view.join_sentence(row).startswith(words)


def test_the_token_check_is_told_with_its_parts() -> None:
    row = {
        "token_difference": -308.0, "allowed_tokens": 469.0,
        "join_detail": '{"allowed": {"share": 205.0, "tail": 160.0, "failed": 0.0}}',
    }  # fmt: skip
    assert bench_view.token_sentence(row) == (
        "Log minus client: -308 tokens; 469 can be explained by 5 % of the client's (205), the "
        "tail that was not printed (160)."
    )
