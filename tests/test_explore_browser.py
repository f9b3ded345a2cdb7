"""Incidents and Explore in a real browser: their main job, and no error in its console."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Response, expect

from tests.command import run
from tests.logs import decode, sglang_boot
from tests.server import browser, served
from tests.tables import select_row
from tests.test_sql_check import ENDLESS

WAIT_MS = 60_000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server over a store with one crash, whose quoted line means harm."""
    folder = tmp_path_factory.mktemp("site")
    log, store = folder / "server.log", folder / "store.duckdb"
    crash = (
        "[2026-05-04 10:00:09] torch.OutOfMemoryError: CUDA out of memory. "
        "<img src=x onerror=alert(1)> [a](javascript:alert(1))"
    )
    log.write_text("\n".join([*sglang_boot("10:00:00"), decode("10:00:05"), crash]) + "\n")
    assert run("import", log, "--store", store).returncode == 0
    with served("up", "--store", str(store)) as address:
        yield address


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def tab(chromium: Browser) -> Iterator[tuple[Page, list[str]]]:
    """One for all tests, with what its console says: a new one compiles all scripts anew."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1500})
    opened = context.new_page()
    told: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            told.append(f"{message.text} {message.location.get('url')}")

    opened.on("console", note)
    opened.on("pageerror", lambda error: told.append(str(error)))
    yield opened, told
    context.close()


@pytest.fixture
def page(tab: tuple[Page, list[str]]) -> Iterator[Page]:
    opened, told = tab
    told.clear()
    yield opened
    assert told == []


def headline(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.get_by_test_id("stHeading").first).to_contain_text(text, timeout=WAIT_MS)


@pytest.mark.parametrize("name", ["runs", "bench", "sources"])
def test_a_page_opened_by_its_address_asks_for_nothing_that_is_not_there(
    url: str, page: Page, name: str
) -> None:
    missing: list[str] = []

    def note(answer: Response) -> None:
        if answer.status >= 400:
            missing.append(answer.url)

    page.on("response", note)
    page.goto(f"{url}/{name}")
    expect(page.get_by_test_id("stHeading").first).to_be_visible(timeout=WAIT_MS)
    assert missing == []


def test_a_crash_is_read_and_its_run_opened(url: str, page: Page) -> None:
    page.goto(f"{url}/incidents?severity=fault")
    headline(page, "1 crash in 1 run: CUDA out of memory")
    words = page.get_by_text(re.compile("1 out of memory"))
    expect(words.first).to_be_attached(timeout=WAIT_MS)
    select_row(page.get_by_test_id("stDataFrame").first, 0, WAIT_MS)
    quoted = page.get_by_test_id("stCode")
    expect(quoted).to_contain_text(
        "<img src=x onerror=alert(1)> [a](javascript:alert(1))", timeout=WAIT_MS
    )
    assert page.locator("img[src=x]").count() == 0
    page.get_by_role("link", name="Open in Live").click(timeout=WAIT_MS)
    chosen = page.get_by_role("combobox", name="Server or run")
    expect(chosen).to_have_value(re.compile("server.log$"), timeout=WAIT_MS)
    assert page.evaluate("location.pathname") == "/"


def test_a_question_is_asked_drawn_and_taken_away(url: str, page: Page) -> None:
    page.goto(f"{url}/explore")
    headline(page, re.compile(r"^1 row of 9 columns"))
    asked = page.get_by_role("textbox", name="One SELECT over the views")
    asked.fill("SELECT range AS n, range * range AS square, '=1+1' AS text FROM range(20)")
    page.get_by_role("button", name="Run", exact=True).click()
    headline(page, re.compile(r"^20 rows of 3 columns"))
    chart = page.get_by_text(re.compile("square by n: 20 values")).first
    expect(chart).to_be_attached(timeout=WAIT_MS)
    assert "q=SELECT" in page.evaluate("location.search")
    page.get_by_role("button", name="Download the answer").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    page.keyboard.press("Escape")
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[:2] == ["n,square,text", "0,0,'=1+1"]
    page.get_by_role("button", name="Overrides").click()
    headline(page, re.compile(r"of 6 columns|^No rows"))


def test_a_question_without_an_end_can_be_cancelled(url: str, page: Page) -> None:
    page.goto(f"{url}/explore?q={quote(ENDLESS)}")
    headline(page, "This question has no answer.")  # a link gets little time
    page.get_by_role("button", name="Run", exact=True).click(timeout=WAIT_MS)
    headline(page, "Asking the store")
    page.get_by_role("button", name="Cancel").click(timeout=WAIT_MS)
    headline(page, "This question has no answer.")
    expect(page.get_by_test_id("stAlert")).to_contain_text("stopped, as you asked")
