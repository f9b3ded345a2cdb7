"""A chart as every page shows it: the picture, its rows as a table, and files to take along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import streamlit as st

from dashboard import links, metric_help, words
from dashboard.charts.figure import Figure
from data import export, pictures

_TABLE_HEIGHT: Final = 240


def show(figure: Figure, columns: Mapping[str, Any] | None = None) -> None:
    """The chart, and below it "Show as table", "Save" and "Meaning".

    Args:
        columns: titles and units of the table's columns, where their names do not say them.
    """
    st.vega_lite_chart(figure.spec, key=f"chart_{figure.key}", alt=figure.alt, width="stretch")
    with st.container(horizontal=True, key=f"below_{figure.key}"):
        table = st.expander(
            "Show as table", key=f"table_{figure.key}", type="compact", on_change="rerun"
        )
        files = st.popover(
            "Save", key=f"save_{figure.key}", type="tertiary", icon=":material/download:",
            on_change="rerun", help=f"{words.plain(figure.title)} as PNG, SVG or CSV",
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
    if files.open:
        for form, (mime, made) in _forms(figure).items():
            files.download_button(
                form.upper(), made, f"servescope-{figure.key.replace('_', '-')}.{form}", mime,
                on_click="ignore", key=f"{form}_{figure.key}", width="stretch",
            )  # fmt: skip


def _forms(figure: Figure) -> dict[str, tuple[str, Callable[[], bytes]]]:
    """What a chart can be saved as; nothing is drawn before somebody asks for it."""
    return {
        "png": ("image/png", lambda: pictures.png(pictures.svg(figure.spec))),
        "svg": ("image/svg+xml", lambda: pictures.svg(figure.spec).encode()),
        "csv": ("text/csv", lambda: export.render(figure.table, "csv")),
    }
