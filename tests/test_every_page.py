"""Every page in a browser on every kind of store: no exception, no error in its console.

Pictures of what was seen are left in artifacts/pages, wide and narrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from data import queries
from data.store import Store
from ingest.imports import import_paths
from tests.growing import decodes, sglang_boot, writing
from tests.pages import SAMPLES
from tests.server import browser, served
from tests.test_live_browser import ARTIFACTS, WAIT_MS, Complaints

pytestmark = pytest.mark.timeout(600)
PICTURES = ARTIFACTS / "pages"
PAGES = ("Runs", "Compare", "Bench", "Incidents", "Explore", "Sources", "Metrics", "Live")
WIDE, NARROW, HEIGHT = 1280, 390, 1400


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with browser() as opened:
        yield opened


@contextmanager
def opened(chromium: Browser, url: str) -> Iterator[Page]:
    """A page whose console must stay empty."""
    context = chromium.new_context(viewport={"width": WIDE, "height": HEIGHT})
    page = context.new_page()
    complaints = Complaints()
    complaints.watch(page, url)
    page.goto(url)
    yield page
    context.close()
    assert complaints.found == []


def settled(page: Page) -> None:
    """The page's script has ended, all parts are drawn, none of them with an exception."""
    state = page.locator('[data-testid="stApp"][data-test-script-state="notRunning"]')
    expect(state).to_be_attached(timeout=WAIT_MS)
    # By its role: the headings of the Metrics page are those of a document.
    said = page.get_by_role("heading").or_(page.get_by_test_id("stAlert"))
    expect(said.first).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0, timeout=WAIT_MS)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def pictured(page: Page, name: str, *, narrow: bool) -> None:
    """Keep how it looks; narrow, it must fit its screen."""
    page.screenshot(path=PICTURES / f"{name}-{WIDE}.png")
    if not narrow:
        return
    page.set_viewport_size({"width": NARROW, "height": HEIGHT})
    page.wait_for_function("width => document.body.clientWidth === width", arg=NARROW)
    page.screenshot(path=PICTURES / f"{name}-{NARROW}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    page.set_viewport_size({"width": WIDE, "height": HEIGHT})


def walk(page: Page, store: str, *, narrow: bool = False) -> None:
    """Through all pages by their links."""
    for name in PAGES:
        page.get_by_role("link", name=name, exact=True).first.click(timeout=WAIT_MS)
        path = "/" if name == "Live" else f"/{name.lower()}"
        page.wait_for_function("path => location.pathname === path", arg=path, timeout=WAIT_MS)
        settled(page)
        pictured(page, f"{store}-{name.lower()}", narrow=narrow)


def look_at_run(page: Page, url: str, run_id: str, store: str, *, narrow: bool = False) -> None:
    """The page that no link in the head leads to."""
    page.goto(f"{url}/run?run={run_id}")
    settled(page)
    pictured(page, f"{store}-run", narrow=narrow)


def newest(path: Path) -> str:
    with Store.open(path) as store, store.cursor() as con:
        return str(queries.runs_named(con)["run_id"][0])


def test_the_bundled_runs(tmp_path: Path, chromium: Browser) -> None:
    path = tmp_path / "store.duckdb"
    with Store.open(path) as store:
        import_paths(store, [str(SAMPLES)])
    run_id = newest(path)
    with served("up", "--store", str(path)) as url, opened(chromium, url) as page:
        walk(page, "demo", narrow=True)
        look_at_run(page, url, run_id, "demo", narrow=True)


def test_many_runs(many_runs: Path, chromium: Browser) -> None:
    run_id = newest(many_runs)
    with served("up", "--store", str(many_runs)) as url, opened(chromium, url) as page:
        walk(page, "many")
        look_at_run(page, url, run_id, "many")


def test_an_empty_store(tmp_path: Path, chromium: Browser) -> None:
    path = str(tmp_path / "store.duckdb")
    with served("up", "--store", path) as url, opened(chromium, url) as page:
        walk(page, "empty")
        look_at_run(page, url, "none", "empty")


def test_a_live_store_under_load(tmp_path: Path, chromium: Browser) -> None:
    log, path = tmp_path / "server.log", tmp_path / "store.duckdb"
    with (
        writing(log),
        served("up", str(log), "--store", str(path)) as url,
        opened(chromium, url) as page,
    ):
        walk(page, "live")


def test_a_damaged_store(tmp_path: Path, chromium: Browser) -> None:
    log, path = tmp_path / "server.log", tmp_path / "store.duckdb"
    log.write_bytes(sglang_boot() + decodes(0, 50))
    with Store.open(path) as store:
        import_paths(store, [str(log)])
        with store.cursor() as con:
            con.execute("DROP VIEW runs")
    with served("up", "--store", str(path)) as url, opened(chromium, url) as page:
        said = page.get_by_test_id("stAlert").filter(has_text="The store could not be read:")
        expect(said.first).to_be_visible(timeout=WAIT_MS)
        walk(page, "damaged")
