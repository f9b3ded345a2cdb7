"""A table in the browser: its cells are drawn, not elements, and rows are selected by a click."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

_FIRST_BOX = {"x": 17.0, "y": 52.0}
_ROW = 35.0
_AT_ONCE_MS = 3_000


def select_row(table: Locator, row: int, timeout_ms: float) -> None:
    """Click the box of a row, the first is 0, until the table itself has it as selected.

    A click on cells that are not drawn yet is lost, as a user sees at once. What the page makes of
    a selection is for the test to ask: a click that the table took is not repeated.

    Raises:
        AssertionError: the table is not there, or did not take a click in that time.
    """
    told = table.locator(f'tr[aria-rowindex="{row + 2}"]')  # 1 is the head
    expect(told).to_be_attached(timeout=timeout_ms)
    for left in range(int(timeout_ms // _AT_ONCE_MS), -1, -1):
        table.click(position={"x": _FIRST_BOX["x"], "y": _FIRST_BOX["y"] + _ROW * row})
        try:
            expect(told).to_have_attribute("aria-selected", "true", timeout=_AT_ONCE_MS)
        except AssertionError:
            if not left:
                raise
        else:
            return
