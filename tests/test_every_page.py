"""Every page in a browser on every kind of store: no exception, no error in its console.

Pictures of what was seen are left in artifacts/pages: of the bundled runs each page wide and
narrow, light and dark. What a page says on each store is held by test_page_matrix, without a
browser; here are those pages whose charts, tables and scripts differ by store.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import CDPSession, Page, expect

from dashboard import theme
from data import queries
from data.store import Store
from ingest.imports import import_paths
from ingest.supervisor import Supervisor
from tests import app_here, contrast, keyboard
from tests.following import following
from tests.growing import decodes, sglang_boot, writing
from tests.server import browser
from tests.test_live_browser import ARTIFACTS, WAIT_MS, Complaints
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)
PICTURES = ARTIFACTS / "pages"
PAGES = ("Runs", "Compare", "Bench", "Incidents", "Explore", "Sources", "Metrics", "Live")
WIDE, NARROW, HEIGHT = 1280, 390, 1400
SCREENS: tuple[tuple[int, Literal["light", "dark"]], ...] = (
    (NARROW, "light"), (NARROW, "dark"), (WIDE, "dark"),
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """One browser page for all stores: its scripts are read once. Its console must stay empty."""

    page: Page
    url: str
    complaints: Complaints
    look: app_here.Look
    camera: CDPSession

    def opens(self, store: Store, supervisor: Supervisor | None = None) -> None:
        """Begin anew at the first page, over this store."""
        self.look(store, supervisor)
        self.page.goto(self.url)
        settled(self.page)

    def goes_to(self, name: str) -> None:
        """By the link in the head."""
        self.page.get_by_role("link", name=name, exact=True).first.click(timeout=WAIT_MS)
        self.arrives(path_of(name))

    def goes_back_to(self, name: str) -> None:
        """As often as needed: a page that completes its address stands in the history twice."""
        path = path_of(name)
        while (there := self.page.evaluate("location.pathname")) != path:
            assert there.startswith("/"), f"{name} was passed"
            self.page.go_back()
        settled(self.page)

    def arrives(self, path: str) -> None:
        wait_for(self.page, "path => location.pathname === path", path)
        settled(self.page)

    def pictures(self, name: str) -> None:
        """Keep how it looks; it must fit its screen, and every text be readable."""
        until(lambda: contrast.faint(self.page) == [])  # parts that have just come fade in
        width = self.page.viewport_size["width"] if self.page.viewport_size else 0
        # Half the work of the page's own `screenshot`, which packs for the smallest file.
        taken = self.camera.send("Page.captureScreenshot", {"optimizeForSpeed": True})
        (PICTURES / f"{name}-{width}.png").write_bytes(b64decode(taken["data"]))
        assert self.page.evaluate("document.documentElement.scrollWidth") <= width

    def becomes(self, width: int, scheme: Literal["light", "dark"]) -> None:
        """Another screen under an open page, whose colours follow."""
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        ground = theme.page(dark=scheme == "dark")["backgroundColor"]
        wait_for(self.page, _SCREEN, [ground, width])
        settled(self.page)


@pytest.fixture(scope="module")
def kept() -> Iterator[ExitStack]:
    """Stores, closed when no page can ask them any more."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def opened(demo: Store, kept: ExitStack) -> Iterator[Reader]:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with app_here.app(demo) as (url, look), browser() as chromium:
        context = chromium.new_context(viewport={"width": WIDE, "height": HEIGHT})
        page = context.new_page()
        complaints = Complaints()
        complaints.watch(page, url)
        yield Reader(page, url, complaints, look, context.new_cdp_session(page))


@pytest.fixture
def reader(opened: Reader) -> Iterator[Reader]:
    yield opened
    said = list(opened.complaints.found)
    opened.complaints.found.clear()
    assert said == []


# By its role: the headings of the Metrics page are those of a document.
_SETTLED = """
() => document.querySelector('[data-testid=stApp][data-test-script-state=notRunning]')
  && !document.querySelector('[data-testid=stSkeleton]')
  && [...document.querySelectorAll('h1, h2, h3, h4, h5, h6, [role=heading], [data-testid=stAlert]')]
    .some((said) => said.checkVisibility({visibilityProperty: true}))
"""
_SCREEN = """
([ground, width]) => {
  const wanted = document.createElement('i');
  wanted.style.color = ground;
  const app = document.querySelector('[data-testid=stApp]');
  return getComputedStyle(app).backgroundColor === wanted.style.color
    && document.body.clientWidth === width;
}
"""


def settled(page: Page) -> None:
    """The page's script has ended, all parts are drawn, none of them with an exception."""
    wait_for(page, _SETTLED)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def wait_for(page: Page, condition: str, arg: object = None) -> None:
    """Look now and then, not at each frame: all of them would be drawn for it."""
    page.wait_for_function(condition, arg=arg, polling=30, timeout=WAIT_MS)


def path_of(name: str) -> str:
    return "/" if name == "Live" else f"/{name.lower()}"


def newest(store: Store) -> str:
    with store.cursor() as con:
        return str(queries.runs_named(con)["run_id"][0])


def test_the_bundled_runs(demo: Store, reader: Reader) -> None:
    """Forward by the links, without a mouse; back as the browser goes back, on every screen."""
    reader.page.goto(f"{reader.url}/run?run={newest(demo)}")  # no link in the head leads to it
    settled(reader.page)
    reader.pictures("demo-run")
    assert keyboard.faults(reader.page) == []
    for name in PAGES:
        walk(reader, "demo", name)
        assert keyboard.faults(reader.page) == [], name
    screens = [*SCREENS]
    for name in [*reversed(PAGES), "Run"]:
        reader.goes_back_to(name)
        for width, scheme in screens:
            reader.becomes(width, scheme)
            reader.pictures(f"demo-{scheme}-{name.lower()}")
        screens.reverse()  # the next page begins on the screen that this one ended on
    reader.becomes(WIDE, "light")


def walk(reader: Reader, store: str, *names: str) -> None:
    for name in names:
        reader.goes_to(name)
        reader.pictures(f"{store}-{name.lower()}")


def test_a_run_is_opened_without_a_mouse(demo: Store, reader: Reader) -> None:
    reader.look(demo, None)
    reader.page.goto(f"{reader.url}/runs")
    settled(reader.page)
    press = reader.page.keyboard.press
    table = reader.page.get_by_test_id("data-grid-canvas")
    table.focus()
    press("ArrowDown")
    press("Shift+Space")
    link = reader.page.get_by_role("link", name="Open the run's page")
    expect(link).to_be_visible(timeout=WAIT_MS)
    while not link.evaluate("link => link === document.activeElement"):
        press("Tab")
    press("Enter")
    reader.arrives("/run")


def test_many_runs(many_runs: Path, reader: Reader, kept: ExitStack) -> None:
    store = kept.enter_context(Store.open(many_runs))
    reader.opens(store)
    walk(reader, "many", "Runs", "Bench", "Incidents", "Live")
    reader.page.goto(f"{reader.url}/run?run={newest(store)}")
    settled(reader.page)
    reader.pictures("many-run")


def test_an_empty_store(tmp_path: Path, reader: Reader, kept: ExitStack) -> None:
    reader.opens(kept.enter_context(Store.open(tmp_path / "store.duckdb")))
    walk(reader, "empty", "Runs", "Bench", "Explore", "Live")


def test_a_live_store_under_load(tmp_path: Path, reader: Reader, kept: ExitStack) -> None:
    log = tmp_path / "server.log"
    store = kept.enter_context(Store.open(tmp_path / "store.duckdb"))
    with writing(log), following(store, log) as supervisor:
        until(lambda: store.revision > 0)
        reader.opens(store, supervisor)
        walk(reader, "live", "Sources", "Live")


def test_a_damaged_store(tmp_path: Path, reader: Reader, kept: ExitStack) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(sglang_boot() + decodes(0, 50))
    store = kept.enter_context(Store.open(tmp_path / "store.duckdb"))
    import_paths(store, [str(log)])
    with store.cursor() as con:
        con.execute("DROP VIEW runs")
    reader.opens(store)
    said = reader.page.get_by_test_id("stAlert").filter(has_text="could not be read:")
    expect(said.first).to_be_visible(timeout=WAIT_MS)
    walk(reader, "damaged", "Runs", "Explore")
