"""The Bench page: which set-up wins at my concurrency, and can the numbers be trusted."""

from __future__ import annotations

from typing import Any

import polars as pl
import streamlit as st

from dashboard import address, bench_take, bench_view, figure_block, selection, words
from dashboard.charts import bench as charts
from dashboard.context import current
from dashboard.guard import guarded
from data import bench, bench_text, export, queries
from data.names import tame
from data.run_names import run_names


@guarded
def page() -> None:
    """What there is, the charts, the table, and the server's side of the selected point."""
    with current().store.cursor() as con:
        stored = bench.points(con)
        points = bench_view.with_sets(stored, queries.runs_table(con))
        unread = bench.unread_files(con)
    if points.is_empty():
        st.subheader("No benchmark results yet.", anchor=False)
        st.info(
            "Drop the output of a benchmark here, or bring it in with "
            "`servescope import /path/to/results`. Read are sglang.bench_serving, vllm bench, "
            "GuideLLM, AIPerf, inference-perf, InferenceX, and tables and lines made by hand."
        )
        bench_take.drop_zone(expanded=True)
        return
    st.subheader(words.plain(bench_view.headline(points)), anchor=False)
    bench_take.drop_zone(expanded=False)
    for path, headers in unread:
        st.caption(words.plain(f"{path}: columns not recognised: {', '.join(headers)}"))
    shown = points.filter(pl.col("set").is_in(_chosen(points)))
    if shown.is_empty():
        st.caption("Choose a set-up to see its points.")
        return
    _charts(bench_view.with_slots(shown))
    selected = selection.table(
        bench_view.table(shown), shown["bench_id"].to_list(), "point", bench_view.columns(),
        bench_view.headline(shown),
    )  # fmt: skip
    st.download_button(
        "Download as CSV", export.render(stored, "csv"), "servescope-bench.csv", "text/csv",
        icon=":material/download:", on_click="ignore", key="bench_csv",
    )  # fmt: skip
    if not selected:
        st.caption(f"Select a row to see what the server's log says of that time. {selection.KEYS}")
    else:
        _point(shown.row(selected[0], named=True))


def _chosen(points: pl.DataFrame) -> list[str]:
    """The set-ups to show; other ones than the usual stand in the address."""
    names = points["set"].unique(maintain_order=True).to_list()
    if len(names) == 1:
        return names
    usual = bench_view.default_sets(points)
    if "bench_sets" not in st.session_state:
        asked = [name for name in st.query_params.get_all("set") if name in names]
        st.session_state["bench_sets"] = asked or usual
    chosen: list[str] = st.multiselect("Set-ups shown", names, key="bench_sets")
    if not address.keep(set=[] if set(chosen) == set(usual) else chosen):
        st.caption("These names are too long for an address: it restores the usual choice.")
    return chosen


def _charts(shown: pl.DataFrame) -> None:
    drawn = (
        (charts.curve_figure(shown), "No point names its concurrency and its throughput."),
        (charts.pareto_figure(shown), "No point has a TPOT and a throughput."),
        (charts.ranges_figure(shown, "ttft"), "No point has a TTFT."),
        (charts.ranges_figure(shown, "tpot"), "No point has a TPOT."),
    )
    for pair in (drawn[:2], drawn[2:]):
        for column, (figure, missing) in zip(st.columns(2, gap="medium"), pair, strict=True):
            with column:
                st.markdown(f"**{figure.title}**")
                if figure.spec:
                    figure_block.show(figure)
                else:
                    st.caption(missing)


def _point(row: dict[str, Any]) -> None:
    """One point: reasons to doubt it, and the server's side."""
    st.markdown(f"**{words.plain(row['name'] + bench_view.at(row))}**")
    for doubt in bench_text.doubts(row):
        st.warning(words.plain(doubt), icon=":material/warning:")
    st.text(tame(bench_view.join_sentence(row)))
    sides = bench_view.server_side(row)
    if sides is not None:
        st.dataframe(sides, hide_index=True, key="sides", alt=bench_text.point_name(row))
    check = bench_view.token_sentence(row)
    if check is not None:
        st.caption(words.plain(check))
    for said in bench_view.notes(row):
        st.caption(words.plain(said))
    _run_of(row)


def _run_of(row: dict[str, Any]) -> None:
    """Which run served the point, for the user who knows better than its clock."""
    desk = current().bench
    if desk is None:
        return
    with current().store.cursor() as con:
        runs = queries.runs_named(con)
    names = run_names(runs)
    chosen = st.selectbox(
        "Served by", list(names), key=f"served_{row['bench_id']}",
        index=list(names).index(row["run_id"]) if row["run_id"] in names else None,
        format_func=lambda run_id: words.plain(names[run_id]), placeholder="no run",
    )  # fmt: skip
    if chosen is not None and chosen != row["run_id"]:
        with st.spinner("Laying the log beside the points …"):
            joined = desk.join_to(row["bench_id"], chosen)
        if joined:
            st.rerun()
        st.warning("The log of that run has no samples to lay beside this point.")
