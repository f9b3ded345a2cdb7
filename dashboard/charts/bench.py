"""Charts of benchmark points: frames of `dashboard.bench_view` in, Altair charts out."""

from __future__ import annotations

from typing import Final, Literal

import altair as alt
import polars as pl

from dashboard import theme, words
from dashboard.charts.figure import Figure
from data import legend, palette

HEIGHT: Final = 340
_STATISTICS: Final = alt.Legend(
    title=None, orient="top", columns=2,  # four in a row do not fit a narrow screen
    symbolFillColor=theme.RULE, symbolStrokeColor=theme.RULE,
)  # fmt: skip
Chart = alt.LayerChart | alt.FacetChart


def curve(points: pl.DataFrame) -> Chart | None:
    """Output throughput over concurrency (log2), a line a set-up; the server's cap as a rule."""
    rows = points.drop_nulls(["concurrency", "output_tok_s"]).filter(pl.col("concurrency") > 0)
    if rows.is_empty():
        return None
    most = float(rows["concurrency"].max())  # type: ignore[arg-type]
    x = alt.X(
        "concurrency:Q",
        title="concurrent requests",
        scale=alt.Scale(type="log", base=2, nice=False, padding=12),
        axis=alt.Axis(values=_powers(rows), format=",d", grid=False),
    )
    y = alt.Y("output_tok_s:Q", title="output tok/s", scale=alt.Scale(zero=True))
    base = alt.Chart(_values(rows, "concurrency", "output_tok_s", "tok_s_user")).encode(
        x, y, _colour(rows)
    )
    tip = [
        alt.Tooltip("set:N", title="set-up"),
        alt.Tooltip("concurrency:Q", format=",d"),
        alt.Tooltip("output_tok_s:Q", title="output tok/s", format=",.1f"),
        alt.Tooltip("tok_s_user:Q", title="tok/s per user", format=",.1f"),
        alt.Tooltip("name:N", title="file"),
    ]
    layers: list[alt.Chart] = [
        base.mark_line(strokeWidth=1.8).encode(alt.Y("mean(output_tok_s):Q"), detail="set:N"),
        base.mark_point(filled=True, size=70, opacity=1).encode(legend.shape(), tooltip=tip),
    ]
    caps = rows.filter(pl.col("cap").is_not_null() & (pl.col("cap") <= most * 2))
    if caps.height:
        least = float(rows["concurrency"].min())  # type: ignore[arg-type]
        layers = [*_cap_layers(caps, least, most), *layers]
    return alt.layer(*layers).properties(height=HEIGHT + legend.height(_names(rows)))


def _cap_layers(rows: pl.DataFrame, least: float, most: float) -> list[alt.Chart]:
    """A rule where each server stops to admit more, and a shade where every one has stopped.

    A label stands on that side of its rule where the chart (log) has more room.
    """
    caps = rows.select("cap").unique().sort("cap")
    to_the_left = pl.col("cap").cast(pl.Float64).pow(2) > least * most
    layers = [
        alt.Chart(caps).mark_rule(color=theme.RULE, strokeDash=[6, 4]).encode(alt.X("cap:Q")),
        *_cap_labels(caps.filter(to_the_left), "right", -4),
        *_cap_labels(caps.filter(~to_the_left), "left", 4),
    ]
    beyond = caps.tail(1).filter(pl.col("cap") < most).with_columns(end=pl.lit(most))
    if beyond.height:
        shade = alt.Chart(beyond).mark_rect(color=theme.RULE, opacity=0.1)
        layers.insert(0, shade.encode(alt.X("cap:Q"), alt.X2("end:Q")))
    return layers


def _cap_labels(caps: pl.DataFrame, align: Literal["left", "right"], dx: int) -> list[alt.Chart]:
    if caps.is_empty():
        return []
    named = alt.Chart(caps.with_columns(text=pl.format("cap {}", "cap")))
    # Just above the axis: there is no line of the grid, and seldom one of a set-up.
    label = named.mark_text(style=palette.NOTE, align=align, dx=dx, dy=-4, baseline="bottom")
    return [label.encode(alt.X("cap:Q"), y=alt.value("height"), text="text:N")]


def _powers(rows: pl.DataFrame) -> list[float]:
    """The concurrencies that were measured, thinned where there are many."""
    values = sorted(set(rows["concurrency"].to_list()))
    return values if len(values) <= 10 else values[:: len(values) // 8]


def frontier(points: pl.DataFrame) -> pl.DataFrame:
    """Points with `best`: none has more for a user and more for a GPU at once. Column y: tokens
    per second of a GPU, of the whole server where no point says how many it has."""
    per_gpu = points["tok_s_gpu"].count() > 0
    rows = points.with_columns(y=pl.col("tok_s_gpu" if per_gpu else "output_tok_s"))
    rows = rows.drop_nulls(["tok_s_user", "y"]).sort(
        ["tok_s_user", "y"], descending=[True, True], maintain_order=True
    )
    before = pl.col("y").cum_max().shift(1)
    return rows.with_columns(best=(pl.col("y") > before).fill_null(True))


def pareto(points: pl.DataFrame) -> Chart | None:
    """Throughput per GPU over throughput per user; the frontier is a step line."""
    rows = frontier(points)
    if rows.is_empty():
        return None
    per_gpu = points["tok_s_gpu"].count() > 0
    x = alt.X("tok_s_user:Q", title="tok/s per user (1000 / TPOT)", scale=alt.Scale(zero=True))
    title = "output tok/s per GPU" if per_gpu else "output tok/s (GPUs not known)"
    y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=True))
    data = _values(rows, "tok_s_user", "y", "best", "concurrency")
    base = alt.Chart(data).encode(x, y)
    tip = [
        alt.Tooltip("set:N", title="set-up"),
        alt.Tooltip("concurrency:Q", format=",d"),
        alt.Tooltip("tok_s_user:Q", title="tok/s per user", format=",.1f"),
        alt.Tooltip("y:Q", title=title, format=",.1f"),
        alt.Tooltip("name:N", title="file"),
    ]
    line = base.transform_filter("datum.best").mark_line(
        interpolate="step-before", color=theme.RULE, strokeWidth=1.5
    )
    dots = base.mark_point(filled=True, size=70).encode(
        _colour(rows),
        legend.shape(),
        opacity=alt.condition("datum.best", alt.value(1.0), alt.value(0.3)),
        tooltip=tip,
    )
    return alt.layer(line, dots).properties(height=HEIGHT + legend.height(_names(rows)))


def ranges(points: pl.DataFrame, metric: str) -> Chart | None:
    """Median, p90 and p99 of a latency (`ttft`, `tpot`, `e2e`) as dots on a line, a row a point."""
    names = [f"{metric}_ms_{statistic}" for statistic in ("median", "p90", "p95", "p99")]
    rows = points.filter(pl.any_horizontal(pl.col(names).is_not_null()))
    if rows.is_empty():
        return None
    rows = rows.with_columns(row=_row_names(rows), place=pl.int_range(pl.len()))
    data = (
        _values(rows, "row", "place", *names)
        .unpivot(
            names, index=["set", "slot", "name", "row", "place"],
            variable_name="statistic", value_name="ms",
        )
        .drop_nulls("ms")
        .filter(pl.col("ms") > 0)
        .with_columns(pl.col("statistic").str.split("_").list.last().replace("median", "p50"))
    )  # fmt: skip
    if data.is_empty():
        return None
    y = alt.Y(
        "row:N", sort=alt.EncodingSortField("place"), title=None,
        axis=alt.Axis(labelLimit=220, grid=True, ticks=False, domain=False),
    )  # fmt: skip
    title, scale = f"{metric.upper()}, ms (log)", alt.Scale(type="log", nice=True)
    x = alt.X("ms:Q", title=title, scale=scale)
    base = alt.Chart(data).encode(y, _colour(rows, shown=False))
    span = base.mark_rule(strokeWidth=2, opacity=0.6).encode(
        alt.X("min(ms):Q", title=title, scale=scale), alt.X2("max(ms):Q")
    )
    order = ["p50", "p90", "p95", "p99"]
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x,
        alt.Shape(
            "statistic:N",
            scale=alt.Scale(domain=order, range=["circle", "diamond", "triangle-up", "square"]),
            legend=_STATISTICS,
        ),
        tooltip=[
            alt.Tooltip("row:N", title="point"),
            alt.Tooltip("statistic:N"),
            alt.Tooltip("ms:Q", title="ms", format=",.2f"),
            alt.Tooltip("name:N", title="file"),
        ],
    )
    return alt.layer(span, dots).properties(height=alt.Step(22))


def _row_names(rows: pl.DataFrame) -> pl.Series:
    names: list[str] = []
    for row in rows.iter_rows(named=True):
        load = f" · {row['concurrency']:g}" if row["concurrency"] else ""
        rate = f" · {row['request_rate']:g}/s" if not load and row["request_rate"] else ""
        name = f"{row['set']}{load}{rate}"
        names.append(name)
    numbered = [
        name if (nth := names[:at].count(name)) == 0 else f"{name} ({nth + 1})"
        for at, name in enumerate(names)
    ]
    return pl.Series(numbered, dtype=pl.String)


def _values(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    return rows.select("set", "slot", "name", *names)


def _colour(rows: pl.DataFrame, *, shown: bool = True) -> alt.Color:
    """The colour of a set-up, from the palette by slot; the legend says the names."""
    return legend.colour(_names(rows), shown=shown)


def _names(rows: pl.DataFrame) -> dict[str, str]:
    return dict(rows.select("slot", "set").unique("slot").sort("slot").rows())


def curve_figure(points: pl.DataFrame) -> Figure:
    """Throughput over concurrency with its words and rows; without spec where there is none."""
    chart = curve(points)
    rows = points.select("set", "concurrency", "output_tok_s", "tok_s_user", "name")
    return _figure(
        "bench_curve", "Output throughput by concurrency", chart, curve_text(points),
        rows.drop_nulls(["concurrency", "output_tok_s"]),
    )  # fmt: skip


def pareto_figure(points: pl.DataFrame) -> Figure:
    """Throughput per GPU over throughput per user with its words and rows."""
    rows = frontier(points).select("set", "tok_s_user", "tok_s_gpu", "output_tok_s", "best", "name")
    return _figure(
        "bench_frontier", "Throughput for one user and for a GPU", pareto(points),
        pareto_text(points), rows,
    )  # fmt: skip


def ranges_figure(points: pl.DataFrame, metric: str) -> Figure:
    """The spread of a latency with its words and rows."""
    what = {"ttft": "Time to first token", "tpot": "Time per output token"}[metric]
    names = [f"{metric}_ms_{statistic}" for statistic in ("median", "p90", "p95", "p99")]
    rows = points.select("set", "concurrency", "request_rate", *names, "name")
    return _figure(
        f"bench_{metric}", f"{what}: median, p90, p95, p99", ranges(points, metric),
        f"{what} in milliseconds of each point; the table has the numbers.",
        rows.filter(pl.any_horizontal(pl.col(names).is_not_null())),
    )  # fmt: skip


def _figure(key: str, title: str, chart: Chart | None, alt: str, rows: pl.DataFrame) -> Figure:
    return Figure(key, title, chart.to_dict() if chart is not None else {}, alt, rows)


def curve_text(points: pl.DataFrame) -> str:
    """The numbers of the curve in a sentence a set-up, for those who cannot see it."""
    parts = []
    for (name,), rows in points.drop_nulls(["concurrency", "output_tok_s"]).group_by(
        "set", maintain_order=True
    ):
        pairs = rows.sort("concurrency").select("concurrency", "output_tok_s").rows()
        told = ", ".join(f"{words.number(y)} at {words.whole(x)}" for x, y in pairs[:8])
        parts.append(f"{name}: {told}")
    return "Output tokens per second by concurrent requests. " + "; ".join(parts) + "."


def pareto_text(points: pl.DataFrame) -> str:
    """The frontier in words."""
    best = frontier(points).filter("best")
    told = ", ".join(
        f"{words.number(row['y'])} at {words.number(row['tok_s_user'])} per user ({row['set']})"
        for row in best.head(6).iter_rows(named=True)
    )
    return f"Throughput against throughput per user; on the frontier: {told}."
