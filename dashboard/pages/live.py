"""The Live page: is the server alive, how fast is it now, and what limits it."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dashboard import figure_block, live_state, sentences, words
from dashboard.context import Context, SourceStatus, current
from dashboard.guard import guarded
from dashboard.picture import WINDOWS, Picture, picture

TAIL_LINES: Final = 200


@guarded
def page() -> None:
    """The page; while a log is followed it looks every second whether something was stored."""
    st.fragment(_body, run_every="1s" if current().supervisor.status() else None)()


@guarded
def _body() -> None:
    context = current()
    head = st.container(key="head")
    strip = st.container(key="status", horizontal=True, vertical_alignment="center")
    choices = live_state.choices(context)
    if not choices:
        _nothing_yet(context)
        return
    run_id, window = _choose(context, choices)
    shown = picture(context, run_id, window)
    status = live_state.status_of(context, shown.card)
    age_s = live_state.age_s(status)
    quiet_s = 0.0
    if shown.tiles is not None:
        quiet_s = live_state.quiet_s(run_id, shown.tiles.last_ts, age_s)
    line = sentences.headline(shown.card, shown.tiles, quiet_s)
    head.subheader(words.plain(line), anchor=False, help=sentences.ZONE)
    with strip:
        for badge in (
            sentences.reading(status),
            sentences.server(shown.card, shown.tiles, quiet_s),
        ):
            st.badge(badge.word, icon=badge.icon, color=badge.colour)
        st.text(f"{sentences.age(status, age_s)}; {sentences.readiness(shown.card)}")
    if status is not None and status.error:
        st.error(words.plain(status.error), icon=":material/error:")
    _tiles(shown, idle=shown.tiles is not None and sentences.is_idle(shown.tiles, quiet_s))
    for figure in shown.figures:
        figure_block.show(figure)
    if status is not None:
        _tail(context, status)


def _choose(context: Context, choices: dict[str, str]) -> tuple[str, str]:
    """The run and the time to show. Both stand in the address: runs by id, never by name."""
    options = list(choices)
    if st.session_state.get("choice") not in choices:
        asked = st.query_params.get("run")
        st.session_state["choice"] = asked if asked in choices else options[0]
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    choice = left.selectbox(
        "Server or run", options, format_func=lambda option: choices.get(option, option),
        key="choice", filter_mode="contains",
    )  # fmt: skip
    window = right.segmented_control(
        "Time shown", list(WINDOWS), default="15 min", required=True,
        key="window", bind="query-params",
    )  # fmt: skip
    if choice != options[0]:
        st.query_params["run"] = choice
    elif "run" in st.query_params:
        del st.query_params["run"]
    return live_state.run_of(context, choice), window


def _nothing_yet(context: Context) -> None:
    sources = context.supervisor.status()
    if not sources:
        st.info(
            "No log is followed and nothing is stored. Start with a log, "
            "`servescope up /path/to/server.log`, or see bundled ones with `servescope demo`."
        )
        return
    st.info("No server start has been seen yet. This page fills by itself as lines arrive.")
    for status in sources:
        badge = sentences.reading(status)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.badge(badge.word, icon=badge.icon, color=badge.colour)
            st.text(f"{status.source_id}: {sentences.age(status, live_state.age_s(status))}")
        if status.error:
            st.error(words.plain(status.error), icon=":material/error:")


def _tiles(shown: Picture, *, idle: bool) -> None:
    with st.container(horizontal=True, key="tiles"):
        for tile in sentences.tiles(shown.card, shown.tiles, idle=idle):
            st.metric(
                tile.label, tile.value, help=tile.definition, border=True,
                delta=tile.detail, delta_arrow="off", delta_color="off",
            )  # fmt: skip
    warning = None if shown.tiles is None else sentences.ranks(shown.tiles)
    if warning:
        st.warning(warning, icon=":material/warning:")


def _tail(context: Context, status: SourceStatus) -> None:
    lines = context.supervisor.tail(status.source_id, TAIL_LINES)
    st.markdown("**Last lines of the log**")
    if lines:
        # As text in any case: a log holds what strangers have sent to the server.
        with st.container(height=320, autoscroll=True, key="tail"):
            st.code("\n".join(lines), language=None)
    else:
        st.caption("No line has arrived since Servescope started.")
