"""The Compare page: which set-up is faster, how sure is that, and what is different."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st

from dashboard import address, background, compare_state, compare_view, figure_block, words
from dashboard.compare_state import Asked
from dashboard.context import Context, current
from dashboard.guard import guarded
from data import aligned, baseline, queries
from data.compare import Group
from data.run_names import run_names

MOST: Final = 8  # runs beside the baseline: colours beyond would repeat


@guarded
def page() -> None:
    """The choice, the verdict, and its evidence."""
    context = current()
    head = st.empty()
    head.subheader("Comparing …", anchor=False)
    with context.store.cursor() as con:
        named = run_names(queries.runs_named(con))
        marked = queries.baseline_runs(con)
        pair = None if st.query_params.get("base") else baseline.comparable_pair(con)
    if len(named) < 2:
        head.subheader("Two runs are needed for a comparison.", anchor=False)
        st.info(
            "Bring in logs with `servescope import /path/to/logs`, or follow a server with "
            "`servescope up`. Each start of a server is a run of its own."
        )
        return
    newest = list(named)
    base, other = pair or (newest[1], newest[0])
    if marked:
        base = marked[0]
        other = next(run_id for run_id in (other, *newest) if run_id != base)
    chosen = _choose(named, base, other)
    if len(chosen) < 2:
        head.subheader("Choose what to compare with the baseline.", anchor=False)
        return
    wanted = _ready(context, compare_state.asked(context, chosen, named))
    if wanted is None:
        return
    found = compare_state.compared(context, str(context.store.path), wanted)
    for note in found.notes:
        st.caption(words.plain(note))
    if found.comparison is None:
        head.subheader("There is nothing to compare in these runs.", anchor=False)
        return
    first, *others = compare_view.verdicts(found.comparison)
    head.subheader(words.plain(first), anchor=False)
    for verdict in others:
        st.text(verdict)
    for cause in compare_view.causes(found.comparison):
        st.warning(words.plain(cause), icon=":material/warning:")
    compare_view.numbers(found.comparison)
    _settings(found.groups)
    drawn = compare_state.drawn(context, str(context.store.path), wanted)
    compare_view.running(drawn.running, found.groups)
    _aligned(context, wanted)
    compare_view.spread(drawn.spread)
    compare_view.what_speculation_costs(drawn.economics, found.comparison)
    compare_view.downloads(found.comparison)


def _ready(context: Context, wanted: Asked) -> Asked | None:
    """What can be shown at once; None while long runs are being compared, and a line says so."""
    samples = compare_state.samples_of(wanted)
    if not compare_state.is_long(wanted):
        return wanted
    store, by = str(context.store.path), st.session_state.get("since", aligned.READY)
    run_ids = tuple(run_id for run_id, *_ in wanted)
    return background.done(
        ("compare", store, run_ids), wanted,
        lambda now: compare_state.prepare(context, store, now, by),
        f"Comparing {samples:,} samples",
    )  # fmt: skip


def _choose(named: dict[str, str], usual: str, beside: str) -> list[str]:
    """The runs to compare, the baseline first. Both choices stand in the address, by id.

    `usual` and `beside`: what is compared as long as nobody has chosen.
    """
    state, asked = st.session_state, st.query_params
    if state.get("compare_base") not in named:
        state["compare_base"] = asked["base"] if asked.get("base") in named else usual
    if "compare_with" not in state:
        asked_with = [run_id for run_id in asked.get_all("with") if run_id in named]
        default = next(run_id for run_id in (beside, *named) if run_id != state["compare_base"])
        state["compare_with"] = asked_with[:MOST] or [default]
    state["compare_with"] = [run_id for run_id in state["compare_with"] if run_id in named]
    left, right = st.columns([2, 3], vertical_alignment="bottom")
    base = left.selectbox(
        "Baseline", list(named), format_func=lambda run_id: named.get(run_id, run_id),
        key="compare_base", filter_mode="contains",
    )  # fmt: skip
    others = right.multiselect(
        "Against it", list(named), format_func=lambda run_id: named.get(run_id, run_id),
        key="compare_with", max_selections=MOST, filter_mode="contains",
        placeholder="Choose one or more runs", wrap=True,
    )  # fmt: skip
    others = [run_id for run_id in others if run_id != base]
    address.keep(**{"base": [base], "with": others})
    return [base, *others]


def _settings(groups: Sequence[Group]) -> None:
    st.markdown("**Settings that differ**")
    compare_view.show_settings(groups)


def _aligned(context: Context, wanted: Asked) -> None:
    st.markdown("**Generation throughput over time**")
    by = st.segmented_control(
        "Time since", list(aligned.ORIGINS), default=aligned.READY, required=True, key="since",
        bind="query-params", help="What is laid over each other: the moment a server was ready, "
        "its first request, or the clock of its log.",
    )  # fmt: skip
    figure, silent = compare_state.curves(
        context, str(context.store.path), wanted, by or aligned.READY
    )
    if figure is None:
        st.caption(f"No log tells the moment: {by}.")
        return
    figure_block.show(figure)
    if silent:
        st.caption(words.plain(f"Not drawn, its log does not tell the moment: {', '.join(silent)}"))
