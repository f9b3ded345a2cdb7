"""A click on another page counts, whatever the timers of the page that is being left ask for.

A browser's timer asks for its part of a page together with the page it stands on. Streamlit 1.67
folds what was asked for and not begun yet into one, and takes the page of the latest: where a timer
asks between a click and its answer, which is often on a busy machine, the click is lost.
"""

from __future__ import annotations

from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests

_fold = ScriptRequests._request_rerun_locked


def _of_this_page(self: ScriptRequests, new_data: RerunData) -> bool:
    page = self._rerun_data.page_script_hash
    if new_data.is_auto_rerun and page and new_data.page_script_hash != page:
        return True  # of a page that is being left: nobody sees what it would draw
    return _fold(self, new_data)


def hold() -> None:
    """From now on, for all sessions of this process."""
    ScriptRequests._request_rerun_locked = _of_this_page  # type: ignore[method-assign]
