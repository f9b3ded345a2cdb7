"""A chart as every page shows it: the picture, its rows as a table, and files to take along."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import polars as pl
import streamlit as st

from dashboard import files, links, metric_help, theme, words
from dashboard.charts.figure import Figure
from dashboard.files import File
from data import export, pictures
from data.names import tame

_TABLE_HEIGHT: Final = 240
# Half of a label at the right end of an axis stands beyond the chart.
_BESIDE: Final = {"right": 16}


def show(
    figure: Figure,
    columns: Mapping[str, Any] | None = None,
    on_point: Callable[[Sequence[Mapping[str, Any]]], None] | None = None,
) -> None:
    """The chart, and below it "Show as table", "Save" and "Meaning", and its words for those who
    cannot see it.

    Args:
        columns: titles and units of the table's columns, where their names do not say them.
        on_point: called with the point that was clicked, where the figure has points to choose.
    """
    key = f"chart_{figure.key}"
    # Other words would have the browser build the chart anew: those that change stand below it.
    shown: dict[str, Any] = {"key": key, "alt": figure.title, "width": "stretch"}
    if figure.click is not None and on_point is not None:
        choose, name = on_point, figure.click
        shown |= {
            "on_select": lambda: choose(st.session_state[key]["selection"].get(name, [])),
            "selection_mode": name,
        }
    st.vega_lite_chart(_framed(figure.spec), **shown)
    with st.container(horizontal=True, key=f"below_{figure.key}"):
        with st.container(key=f"unseen_{figure.key}"):
            st.text(tame(figure.alt))
        table = st.expander(
            "Show as table", key=f"table_{figure.key}", type="compact", on_change="rerun"
        )
        files.menu(
            "Save", figure.key, lambda: _files(figure), type="tertiary",
            help=f"{words.plain(figure.title)} as PNG, SVG or CSV",
        )  # fmt: skip
        explained = metric_help.explain(figure.key)
        meaning = st.popover(
            "Meaning", key=f"meaning_{figure.key}", type="tertiary", icon=":material/help:",
            on_change="rerun", help=f"How the numbers of {words.plain(figure.title)} are made",
        ) if explained else None  # fmt: skip
    if meaning is not None and meaning.open:
        with meaning:
            st.markdown(explained)
            links.to_metrics()
    if table.open:
        table.dataframe(
            figure.table, hide_index=True, height=_TABLE_HEIGHT, alt=figure.alt,
            placeholder=words.MISSING, column_config=columns, key=f"rows_{figure.key}",
        )  # fmt: skip


def _framed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The chart with its rows as frames, which Streamlit hands to the browser as they are: lists
    of rows go through pandas, which takes three times as long."""
    framed = {
        name: pl.DataFrame(rows, infer_schema_length=None)
        for name, rows in spec.get("datasets", {}).items()
    }
    colours = theme.chart_config(dark=st.context.theme.type == "dark")
    config, padding = {**spec.get("config", {}), **colours}, {**_BESIDE, **spec.get("padding", {})}
    whole = {**spec, "config": config, "padding": padding}
    return {**whole, "datasets": framed} if framed else whole


def _files(figure: Figure) -> list[File]:
    """The chart as pictures, and its rows."""
    name = f"servescope-{figure.key.replace('_', '-')}"
    picture = pictures.svg(figure.spec)
    return [
        File("PNG", f"{name}.png", "image/png", pictures.png(picture)),
        File("SVG", f"{name}.svg", "image/svg+xml", picture.encode()),
        File("CSV", f"{name}.csv", "text/csv", export.render(figure.table, "csv")),
    ]
