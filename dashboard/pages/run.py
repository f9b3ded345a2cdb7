"""The page of one run: who it was, how it ran, what happened, how it was set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard import (
    background,
    crosshair,
    figure_block,
    links,
    notes_form,
    run_cache,
    run_view,
    theme,
    words,
)
from dashboard.charts.startup import startup_figure
from dashboard.context import Context, current
from dashboard.guard import guarded
from dashboard.picture import picture
from data import long_run, queries, run_curves, run_data, startup
from data.names import tame
from data.run_data import RunData
from data.run_now import Changes


@guarded
def page() -> None:
    """The run that the address names."""
    context = current()
    asked = st.query_params.get("run", "")
    with context.store.cursor() as con:
        card = queries.run_card(con, asked)
    if card is None:
        st.subheader("No such run." if asked else "No run is chosen.", anchor=False)
        st.info("A run's page is opened from the list of runs, or as `/run?run=` with its id.")
        links.to_runs()
        return
    st.subheader(words.plain(run_view.identity(card)), anchor=False)
    changes = run_cache.changes_of(context, asked)
    run = _run(context, card, changes)
    _head(context, card)
    with st.container(key="tiles"):
        for tile in run_view.facts(card):
            st.metric(
                tile.label, tile.value, help=tile.definition, border=True,
                delta=tile.detail, delta_arrow="off", delta_color="off",
            )  # fmt: skip
    run_view.overrides(run)
    _section("Findings")
    found = st.container()
    _startup(context, card, run)
    _curves(context, asked)
    _section("Incidents")
    with context.store.cursor() as con:
        run_view.incidents(queries.run_incidents(con, asked), run)
    _section("Benchmark results of this run")
    run_view.bench(run)
    _section("Settings")
    run_view.show_settings(run)
    _section("Label, tags and note")
    notes_form.form(card)
    with found:  # last: the search for them would hold up all else
        _findings(context, card, changes)


def _run(context: Context, card: Mapping[str, Any], changes: Changes) -> RunData:
    """The run; of a long one all but its samples, which nothing here but its findings needs."""
    run_id = str(card["run_id"])
    if not run_cache.is_long(card):
        return run_cache.loaded(context, run_id, changes)
    with context.store.cursor() as con:
        return run_data.but_samples(con, run_id)


def _findings(context: Context, card: Mapping[str, Any], changes: Changes) -> None:
    run_id, store = str(card["run_id"]), str(context.store.path)
    of: Changes | None = changes
    if run_cache.is_long(card):
        of = background.done(
            ("findings", store, run_id), changes,
            lambda now: run_cache.found(context, store, run_id, now),
            f"Looking for findings in {run_cache.samples_of(card):,} samples",
        )  # fmt: skip
    if of is not None:
        samples = run_cache.samples_of(card)
        if samples > long_run.MOST:
            st.caption(words.plain(run_view.in_pieces(samples)))
        run_view.findings(run_cache.found(context, store, run_id, of))


def _section(title: str) -> None:
    st.markdown(f"**{title}**")


def _head(context: Context, card: Mapping[str, Any]) -> None:
    run_id = str(card["run_id"])
    with st.container(horizontal=True, vertical_alignment="center", key="run_badges"):
        run_view.badges(card)
        st.text(f"run {run_id}, from {tame(card['source_id'])}")
    if card["note"]:
        st.text("\n".join(map(tame, card["note"].splitlines())))
    with st.container(horizontal=True, vertical_alignment="center", key="run_links"):
        links.to_runs()
        links.to_live(run_id)
        with context.store.cursor() as con:
            base = queries.compared_with(con, run_id)
        if base is not None:
            links.to_compare(base, [run_id], "Compare with the baseline")
        notes_form.buttons(card)


def _startup(context: Context, card: Mapping[str, Any], run: RunData) -> None:
    _section("Start-up")
    stages = startup.waterfall(card, run.events)
    figure = startup_figure(stages, theme.run_slot(str(card["run_id"])))
    if figure is None:
        known = card["ready_after_s"] is not None
        st.text(
            f"Ready after {words.duration(card['ready_after_s'])}; the log tells of no stage."
            if known
            else "The log does not hold both the start and the ready line."
        )
        return
    figure_block.show(figure)
    with context.store.cursor() as con:
        others = startup.earlier(con, card)
    for sentence in startup.slow(stages, others):
        st.warning(words.plain(f"Slow start: {sentence}."), icon=":material/warning:")


def _curves(context: Context, run_id: str) -> None:
    _section("The whole run")
    figures = picture(context, run_id, "whole run").figures
    if not figures:
        st.text("No sample has been read of this run.")
    with context.store.cursor() as con:
        until = run_curves.by_minute_until(con, run_id)
    if until is not None:
        st.caption(words.plain(run_view.by_minute(until)))
    for figure in figures:
        figure_block.show(figure)
    crosshair.show(figures)
