"""The server ends under an open page: the page says so, and goes on when the server is back."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from dashboard.style import LOST
from data.store import Store
from ingest.importer import import_logs
from tests.logs import decode, sglang_boot
from tests.server import browser, free_port, served
from tests.tables import select_row

WAIT_MS = 90_000
_SAID = """() => getComputedStyle(
  document.querySelector('[data-testid=stApp]'), '::after').content"""


def test_a_page_says_that_its_server_is_gone_and_goes_on_with_the_same_view(tmp_path: Path) -> None:
    log, path, port = tmp_path / "server.log", tmp_path / "store.duckdb", free_port()
    log.write_text("\n".join([*sglang_boot("10:00:00"), decode("10:00:05")]) + "\n")
    with Store.open(path) as store:
        import_logs(store, [str(log)], label="mine")
    up = ("up", "--store", str(path))
    with browser() as chromium:
        page = chromium.new_page()
        with served(*up, port=port) as url:
            page.goto(f"{url}/runs?q=mine")
            select_row(page.get_by_test_id("stDataFrame"), 0, WAIT_MS)
            expect(page.get_by_role("link", name="Open in Live")).to_be_visible(timeout=WAIT_MS)
            page.wait_for_url(re.compile("selected="), timeout=WAIT_MS)
            assert page.evaluate(_SAID) == "none"
        page.wait_for_function(f"({_SAID})() !== 'none'", timeout=WAIT_MS)
        assert page.evaluate(_SAID).strip('"') == LOST
        with served(*up, port=port):
            page.wait_for_function(f"({_SAID})() === 'none'", timeout=WAIT_MS)
            expect(page.get_by_role("link", name="Open in Live")).to_be_visible(timeout=WAIT_MS)
            expect(page.get_by_role("searchbox", name="Search")).to_have_value("mine")
            expect(page.get_by_role("textbox", name="Label")).to_have_value("mine")
            page.reload()  # nothing but the address is left
            expect(page.get_by_role("link", name="Open in Live")).to_be_visible(timeout=WAIT_MS)
            assert "selected=" in page.url
