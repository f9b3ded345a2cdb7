"""The Live page: is the server alive, how fast is it now, and what limits it."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from dashboard import (
    against,
    crosshair,
    figure_block,
    followed,
    live_log,
    live_state,
    sentences,
    words,
)
from dashboard.charts import series
from dashboard.context import Context, SourceStatus, current
from dashboard.guard import guarded
from dashboard.live_state import View
from dashboard.picture import WINDOWS, picture
from data.names import tame


@guarded
def page() -> None:
    """The page. While a log is followed its top looks every second whether something changed, and
    only then has all the rest drawn anew."""
    context = current()
    top = st.container(key="top")
    choices = live_state.choices(context)
    every = "1s" if followed.may_change(context) else None
    if not choices:
        with top:
            st.fragment(_wait, run_every=every)()
        return
    choice, window = _choose(context, choices)
    view = live_state.paused(choice, window) or _view(context, choice, window)
    live_state.drawn(view)
    with top:
        st.fragment(_top, run_every=every)(choice, window)
    _tiles(context, view)
    moment, turn = live_log.at(), live_log.turn()
    for figure in view.picture.figures:
        marked = replace(figure, spec=series.at_moment(figure.spec, moment, turn))
        figure_block.show(marked, on_point=live_log.on_point)
    crosshair.show(view.picture.figures)
    if view.picture.bench:
        st.caption(words.plain(view.picture.bench))
    log = None if moment else view.log
    status = live_state.status_of(context, view.picture.card)
    live_log.block(context, view.run_id, log or live_log.excerpt(context, view.run_id, status))


@guarded
def _top(choice: str, window: str) -> None:
    """What changes with the clock alone: the headline and the strip."""
    context = current()
    view = live_state.paused(choice, window) or _view(context, choice, window)
    if live_state.differs(view):
        st.rerun()
    st.subheader(words.plain(view.line), anchor=False, help=sentences.ZONE)
    status = live_state.status_of(context, view.picture.card)
    with st.container(key="status", horizontal=True, vertical_alignment="center"):
        _strip(view, status)
    if status is not None and status.error:
        st.error(words.plain(status.error), icon=":material/error:")


@guarded
def _wait() -> None:
    """What to do while there is nothing to show."""
    context = current()
    if live_state.choices(context):
        st.rerun()
    _nothing_yet(context)


def _view(context: Context, choice: str, window: str) -> View:
    """The run as it is now."""
    run_id = live_state.run_of(context, choice)
    shown = picture(context, run_id, window)
    status = live_state.status_of(context, shown.card)
    quiet_s = 0.0
    if shown.tiles is not None:
        quiet_s = live_state.quiet_s(run_id, shown.tiles.last_ts, status)
    idle = shown.tiles is not None and sentences.is_idle(shown.tiles, quiet_s)
    return View(
        (choice, window), run_id, shown, sentences.headline(shown.card, shown.tiles, quiet_s),
        sentences.server(shown.card, shown.tiles, quiet_s), idle,
        None if live_log.at() else live_log.excerpt(context, run_id, status),
    )  # fmt: skip


def _choose(context: Context, choices: dict[str, str]) -> tuple[str, str]:
    """The run and the time to show. Both stand in the address: runs by id, never by name."""
    options = list(choices)
    if st.session_state.get("choice") not in choices:
        asked = st.query_params.get("run")
        st.session_state["choice"] = asked if asked in choices else options[0]
    left, middle, right = st.columns([5, 4, 1.4], vertical_alignment="bottom")
    choice = left.selectbox(
        "Server or run", options, format_func=lambda option: choices.get(option, option),
        key="choice", filter_mode="contains", on_change=live_log.choose, args=(None,),
    )  # fmt: skip
    window = middle.segmented_control(
        "Time shown", list(WINDOWS), default="15 min", required=True,
        key="window", bind="query-params",
    ) or "15 min"  # fmt: skip
    is_paused = live_state.is_paused()
    right.button(
        "Go on" if is_paused else "Pause", key="pause", width="stretch",
        icon=":material/play_arrow:" if is_paused else ":material/pause:",
        on_click=live_state.pause_or_go_on, disabled=not followed.may_change(context),
        help="What is shown stands still; reading the log goes on.",
    )  # fmt: skip
    if choice != options[0]:
        st.query_params["run"] = choice
    elif "run" in st.query_params:
        del st.query_params["run"]
    return choice, window


def _strip(view: View, status: SourceStatus | None) -> None:
    for badge in (sentences.reading(status), view.server):
        st.badge(badge.word, icon=badge.icon, color=badge.colour)
    if live_state.is_paused():
        st.badge(f"view paused at {words.clock(view.at)}", icon=":material/pause:", color="violet")
    tiles = view.picture.tiles
    silent_since = tiles.last_ts if tiles is not None and view.idle else None
    age = sentences.age(status, live_state.age_s(status), silent_since)
    st.text(f"{age}; {sentences.readiness(view.picture.card)}")


def _nothing_yet(context: Context) -> None:
    sources = followed.sources(context)
    if not sources:
        st.subheader("Nothing to show yet.", anchor=False)
        st.info(
            "No log is followed and nothing is stored. Start with a log, "
            "`servescope up /path/to/server.log`, or see bundled ones with `servescope demo`."
        )
        return
    st.subheader("Waiting for the start of a server.", anchor=False)
    st.info("No server start has been seen yet. This page fills by itself as lines arrive.")
    for status in sources:
        badge = sentences.reading(status)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.badge(badge.word, icon=badge.icon, color=badge.colour)
            st.text(f"{tame(status.source_id)}: {sentences.age(status, live_state.age_s(status))}")
        if status.error:
            st.error(words.plain(status.error), icon=":material/error:")


def _tiles(context: Context, view: View) -> None:
    card, now = view.picture.card, view.picture.tiles
    base = against.base_of(context, str(card["run_id"]))
    beside = against.told(base, now, idle=view.idle) if base else (None,) * 5
    with st.container(horizontal=True, key="tiles"):
        for tile, said in zip(sentences.tiles(card, now, idle=view.idle), beside, strict=True):
            with st.container(border=True, key=f"tile_{tile.column}"):
                st.metric(
                    tile.label, tile.value, help=tile.definition, delta=tile.detail,
                    delta_arrow="off", delta_color="off",
                    chart_data=view.picture.sparks.get(tile.column) or None,
                )  # fmt: skip
                if said:
                    st.caption(words.plain(said))
    warning = None if now is None else sentences.ranks(now)
    if warning:
        st.warning(warning, icon=":material/warning:")
