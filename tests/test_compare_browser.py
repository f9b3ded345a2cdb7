"""The way through Compare in a real browser: select runs, read the verdict, take charts along."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from data import queries
from data.store import Store
from ingest.importer import import_logs
from tests import capped, hostile
from tests.server import browser, served
from tests.tables import select_row
from tests.test_live_browser import ARTIFACTS, WAIT_MS, Complaints

pytestmark = pytest.mark.timeout(600)
VERDICT = re.compile("^eagle3 decodes at 0.97 times base at equal running counts")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of the pages, and the runs by label, oldest first."""
    folder = tmp_path_factory.mktemp("compare")
    logs = {
        "base": capped.base(),
        "eagle3": capped.speculative(),
        hostile.NAMES["html"]: capped.speculative(2.6),
    }
    with Store.open(folder / "store.duckdb") as store:
        for nth, (label, lines) in enumerate(logs.items()):
            log = folder / str(nth) / "server.log"
            log.parent.mkdir()
            # A day apart: the run that started first is the baseline, the newest stands on top.
            log.write_text("\n".join(lines).replace("2026-05-04", f"2026-05-0{nth + 4}") + "\n")
            import_logs(store, [str(log)], label=label)
        with store.cursor() as con:
            named = queries.runs_named(con).reverse()
        runs = dict(named.select("label", "run_id").iter_rows())
    with served("up", "--store", str(folder / "store.duckdb")) as url:
        yield url, runs


@pytest.fixture(scope="module")
def tab(site: tuple[str, dict[str, str]]) -> Iterator[tuple[Page, Complaints]]:
    """One for all tests: in a new one the scripts of the pages are compiled anew."""
    size: ViewportSize = {"width": 1280, "height": 1600}
    with browser() as chromium:
        context = chromium.new_context(timezone_id="America/New_York", viewport=size)
        context.set_default_timeout(WAIT_MS)
        opened, complaints = context.new_page(), Complaints()
        complaints.watch(opened, site[0])
        opened.on("dialog", lambda dialog: complaints.found.append(dialog.message))
        yield opened, complaints


@pytest.fixture
def page(tab: tuple[Page, Complaints]) -> Iterator[Page]:
    opened, complaints = tab
    complaints.found.clear()
    yield opened
    assert complaints.found == []


def heading(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.get_by_role("heading").filter(has_text=text)).to_be_visible(timeout=WAIT_MS)


def drawn(page: Page, charts: int) -> None:
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(charts, timeout=WAIT_MS)


def test_the_way_from_the_list_to_the_verdict(site: tuple[str, dict[str, str]], page: Page) -> None:
    url, runs = site
    page.goto(f"{url}/runs")
    heading(page, "3 runs: 3 lost.")
    page.get_by_role("searchbox", name="Search").fill("server -spec:nothing")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=server"))
    table = page.get_by_test_id("stDataFrame")
    rows = list(reversed(runs))
    for name, offered in (("base", "Open the run's page"), ("eagle3", "Compare these")):
        select_row(table, rows.index(name), WAIT_MS)
        expect(page.get_by_role("link", name=offered)).to_be_visible(timeout=WAIT_MS)
    page.get_by_role("link", name="Compare these").click()
    heading(page, VERDICT)
    assert re.findall("[0-9a-f]{12}", page.url) == [runs["base"], runs["eagle3"]]
    cap = page.get_by_role("paragraph").filter(
        has_text="eagle3 ends at its cap: never more than 48"
    )
    expect(cap).to_be_visible(timeout=WAIT_MS)
    drawn(page, 4)
    page.get_by_role("radio", name="first request").click()
    page.wait_for_url(re.compile("since=first"), timeout=WAIT_MS)
    _take_along(page)
    address = page.url
    page.goto(address)
    heading(page, VERDICT)
    expect(page.get_by_role("radio", name="first request")).to_be_checked(timeout=WAIT_MS)


def _take_along(page: Page) -> None:
    page.get_by_role("button", name="Save").first.click()
    begins = {"PNG": b"\x89PNG", "SVG": b"<svg", "CSV": b"label,running_reqs,tok_s"}
    for form, start in begins.items():
        with page.expect_download() as download:
            page.get_by_role("button", name=form, exact=True).click()
        assert download.value.suggested_filename == f"servescope-compare-running.{form.lower()}"
        assert Path(download.value.path()).read_bytes().startswith(start)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Download the comparison").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML report").click()
    assert b"eagle3 against base" in Path(download.value.path()).read_bytes()


def test_a_harmful_name_is_text_and_pages_fit_their_screens(
    site: tuple[str, dict[str, str]], page: Page
) -> None:
    url, runs = site
    name = hostile.NAMES["html"]
    ARTIFACTS.mkdir(exist_ok=True)
    screens = [("light", 1280), ("dark", 390)]
    for at, text, charts in (
        (f"compare?base={runs['base']}&with={runs[name]}&with={runs['eagle3']}", f"{name} is", 4),
        (f"run?run={runs[name]}", f"{name}: SGLang with moe-547b", 5),
    ):
        page.goto(f"{url}/{at}")
        for scheme, width in screens:
            page.set_viewport_size({"width": width, "height": 4200})
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            heading(page, text)
            drawn(page, charts)
            across = page.evaluate("document.documentElement.scrollWidth")
            assert across <= width, "the page must not scroll sideways"
            page.screenshot(path=ARTIFACTS / f"{at.partition('?')[0]}-{scheme}-{width}.png")
        screens.reverse()  # the next page begins on the screen that this one ended on
    assert page.locator("img[src=x]").count() == 0
