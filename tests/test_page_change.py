"""The timer of a page that is being left takes nobody back to it."""

from __future__ import annotations

from streamlit.runtime.scriptrunner_utils.script_requests import (
    RerunData,
    ScriptRequests,
    ScriptRequestType,
)

from dashboard import page_change

CLICK = RerunData(page_script_hash="sources", query_string="")
TIMER = RerunData(
    page_script_hash="live", query_string="run=1", fragment_id="tiles", is_auto_rerun=True
)


def asked(*requests: RerunData) -> RerunData:
    """What is run after these, all asked for before the first was begun."""
    page_change.hold()
    queue = ScriptRequests()
    assert all(queue.request_rerun(request) for request in requests)
    ready = queue.on_scriptrunner_ready()
    assert ready.type == ScriptRequestType.RERUN
    return ready.rerun_data


def test_a_click_outlasts_the_timer_of_the_page_before() -> None:
    found = asked(TIMER, CLICK, TIMER)
    assert (found.page_script_hash, found.query_string) == ("sources", "")
    assert not found.fragment_id_queue


def test_a_timer_of_the_page_itself_is_heard() -> None:
    of_sources = RerunData(page_script_hash="sources", fragment_id="size", is_auto_rerun=True)
    assert asked(TIMER).fragment_id_queue == ["tiles"]
    assert asked(CLICK, of_sources).page_script_hash == "sources"
    assert asked(TIMER, TIMER).fragment_id_queue == ["tiles"]


def test_of_a_first_visit_whose_page_is_not_known_yet_every_timer_is_heard() -> None:
    assert asked(RerunData(), TIMER).page_script_hash == "live"
