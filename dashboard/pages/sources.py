"""The Sources page: where the lines come from, how reading is doing, and one more of them."""

from __future__ import annotations

import hashlib
from typing import Final
from zoneinfo import available_timezones

import streamlit as st

from dashboard import followed, sentences, source_view, words
from dashboard.context import SourceStatus, current
from dashboard.followed import Remote
from dashboard.guard import guarded
from data import space
from data.errors import ServescopeError
from data.moment import utc_now
from data.names import tame

ADDRESSES: Final = """\
| address | what it is |
| --- | --- |
| `/var/log/server.log` | a file, a folder or a glob of this machine |
| `ssh://gpu1/var/log/server.log` | the same on another host |
| `docker://container`, `docker://gpu1/container` | what a container prints |
| `k8s://namespace/pod/container` | what a pod prints |
| `journald://unit`, `journald://gpu1/unit` | a unit of the journal |
"""


@guarded
def page() -> None:
    """The list, looked at anew every second, and the form for one more."""
    st.fragment(_list, run_every="1s")()
    st.caption(words.plain(_size()))
    if current().store.read_only:
        st.caption("This dashboard may only read the store: logs come into it by collectors.")
        return
    none = not followed.sources(current())
    with st.expander("Add a source", expanded=none, key="add"):
        _form()


def _size() -> str:
    store = current().store
    with store.cursor() as con:
        grown = space.growth(con, store.size_bytes())
    return space.in_words(grown, utc_now())


@guarded
def _list() -> None:
    sources = followed.sources(current())
    st.subheader(words.plain(source_view.headline(sources)), anchor=False)
    if not sources and not current().store.read_only:
        st.info("Add a log below: test it first, and see what is found there.")
    for source in sources:
        _source(source)


def _source(source: SourceStatus) -> None:
    key = hashlib.sha256(source.source_id.encode()).hexdigest()[:12]
    badge = sentences.reading(source)
    with st.container(border=True, key=f"source_{key}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.badge(badge.word, icon=badge.icon, color=badge.colour)
            st.text(tame(source.label or source.source_id))
        if source.label:
            st.caption(words.plain(source.source_id))
        st.caption(words.plain(source_view.facts(source)))
        if source.error:
            st.error(words.plain(source.error), icon=":material/error:")
        if not isinstance(source, Remote):
            with st.container(horizontal=True):
                _buttons(source, key)


def _buttons(source: SourceStatus, key: str) -> None:
    supervisor = current().supervisor
    if source.state == "paused":
        st.button(
            "Resume", icon=":material/play_arrow:", key=f"resume_{key}",
            on_click=supervisor.resume, args=(source.source_id,),
        )  # fmt: skip
    elif source.state not in ("stopped", "ended"):
        st.button(
            "Pause", icon=":material/pause:", key=f"pause_{key}",
            on_click=supervisor.pause, args=(source.source_id,),
            help="Reading goes on at the same byte later.",
        )  # fmt: skip
    with st.popover("Remove", icon=":material/delete:", key=f"remove_{key}"):
        st.text("It is followed no longer. What is stored of it stays.")
        st.button(
            "Remove this source", type="primary", key=f"removed_{key}",
            on_click=supervisor.remove, args=(source.source_id,),
        )  # fmt: skip


def _form() -> None:
    with st.form("add_source", border=False, enter_to_submit=False):
        location = st.text_input("Address", key="add_location", placeholder="ssh://gpu1/path/log")
        left, middle, right = st.columns(3)
        label = left.text_input("Label (optional)", key="add_label")
        zone = middle.selectbox(
            "Time zone of its stamps", sorted(available_timezones()), index=None, key="add_zone",
            placeholder="that of its host, else UTC", filter_mode="contains",
        )  # fmt: skip
        tags = right.text_input("Tags, separated by commas", key="add_tags")
        with st.container(horizontal=True):
            tested = st.form_submit_button("Test", icon=":material/troubleshoot:")
            added = st.form_submit_button("Add", icon=":material/add:", type="primary")
    if tested or added:
        try:
            if not location.strip():
                st.warning("Give an address first.", icon=":material/warning:")
            elif tested:
                _test(location.strip())
            else:
                named = [tag.strip() for tag in tags.split(",") if tag.strip()]
                with st.spinner("Adding …"):
                    current().supervisor.add(location.strip(), label.strip() or None, zone, named)
                st.rerun()
        except ServescopeError as error:
            st.error(words.plain(str(error)), icon=":material/error:")
    st.markdown(ADDRESSES)


def _test(location: str) -> None:
    with st.spinner("Looking …"):
        report = current().supervisor.test(location)
    for sentence in source_view.found(report):
        st.text(tame(sentence))
    if report["lines"]:
        # As text in any case: a log holds what strangers have sent to the server.
        st.code("\n".join(report["lines"]), language=None)
