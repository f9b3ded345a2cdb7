"""A real server, a real browser: what is appended to the log is seen on the page."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect

from tests.server import DEADLINE_S, browser, served
from tests.tables import select_row
from tests.waiting import until

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "samples" / "sglang-0.5.23-ngram" / "server.log"
ARTIFACTS = ROOT / "artifacts"
WAIT_MS = DEADLINE_S * 1000

pytestmark = pytest.mark.timeout(600)


@dataclass
class Site:
    """A followed log, its store, the address of its pages."""

    url: str
    log: Path
    store: Path
    clock: datetime

    def append(self, *lines: str) -> None:
        """Add lines, a second of the log's clock apart; `{at}` is the stamp."""
        with self.log.open("a") as file:
            for line in lines:
                self.clock += timedelta(seconds=1)
                file.write(line.format(at=f"[{self.clock:%Y-%m-%d %H:%M:%S}]") + "\n")


@dataclass
class Complaints:
    """What a page must never do: log an error, throw, ask another server."""

    found: list[str] = field(default_factory=list)

    def watch(self, page: Page, url: str) -> None:
        """Note down everything of the kind from now on."""

        def said(message: ConsoleMessage) -> None:
            if message.type == "error":
                self.found.append(message.text)

        def asked(request: Request) -> None:
            if not request.url.startswith((url, "data:", "blob:")):
                self.found.append(f"asked {request.url}")

        page.on("console", said)
        page.on("request", asked)
        page.on("pageerror", lambda error: self.found.append(str(error)))


def decode(running: int, tok_s: float, queued: int = 0) -> str:
    return (
        "{at} Decode batch, #running-req: " + str(running) + ", #token: 900, token usage: 0.25, "
        "accept len: 2.50, accept rate: 0.50, cpu graph: False, "
        f"gen throughput (token/s): {tok_s}, #queue-req: {queued}"
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    lines = SAMPLE.read_text().splitlines(keepends=True)
    stop = next(at for at, line in enumerate(lines) if "Decode batch" in line)
    log = folder / "server.log"
    log.write_text("".join(lines[:stop]))
    stamp = re.findall(r"^\[(\S+ \S+)\]", log.read_text(), re.MULTILINE)[-1]
    store = folder / "store.duckdb"
    with served("up", str(log), "--store", str(store), cwd=folder) as url:
        yield Site(url, log, store, datetime.fromisoformat(stamp))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def tab(site: Site, chromium: Browser) -> Iterator[tuple[Page, Complaints]]:
    """One for all tests: in a new one the scripts of the pages are compiled anew."""
    # Clocks in the log are shown as they are, wherever the browser is.
    context = chromium.new_context(timezone_id="America/New_York")
    opened, complaints = context.new_page(), Complaints()
    complaints.watch(opened, site.url)
    yield opened, complaints
    context.close()


@pytest.fixture
def page(site: Site, tab: tuple[Page, Complaints]) -> Iterator[Page]:
    """On the Live page. It stays open from test to test, as at a user's, who looks on for hours."""
    opened, complaints = tab
    complaints.found.clear()
    if opened.url.partition("?")[0] != f"{site.url}/":
        opened.goto(site.url)
    yield opened
    assert complaints.found == []


def tile(page: Page, label: str) -> str:
    value = page.get_by_test_id("stMetric").filter(has_text=label).get_by_test_id("stMetricValue")
    return value.inner_text()


def heights(page: Page) -> list[float]:
    """Of the tiles, in pixels."""
    boxes = [tile.bounding_box() for tile in page.locator('[class*="st-key-tile_"]').all()]
    return [box["height"] for box in boxes if box is not None]


def headline(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.get_by_role("heading", name=text)).to_be_visible(timeout=WAIT_MS)


def last_line(page: Page, site: Site, tok_s: str, running: str, queued: str) -> None:
    """The page has this line's values. A slow machine may show them when silence has begun."""
    before = page.get_by_test_id("stMetric")
    expect(before.filter(has_text="Running")).to_contain_text(running, timeout=WAIT_MS)
    expect(before.filter(has_text="Queue")).to_contain_text(queued, timeout=WAIT_MS)
    expect(before.filter(has_text="Generation")).to_contain_text(tok_s, timeout=WAIT_MS)
    stamp = f"{site.clock:%H:%M:%S}"
    headline(page, re.compile(f"^Generating {tok_s} tok.s with {running}|^Silent since .*{stamp}"))


def open_runs(page: Page) -> None:
    """Go to the Runs page, once the run is stored: that page does not move by itself.

    Until it comes the page before it stands, with tables of its own.
    """
    expect(page.get_by_test_id("stMetric")).to_have_count(5, timeout=WAIT_MS)
    page.get_by_role("link", name="Runs").click(timeout=WAIT_MS)
    headline(page, "1 run: 1 running.")


def test_appended_lines_appear_as_new_values(site: Site, page: Page) -> None:
    site.append(decode(7, 321.5), decode(7, 654.25))
    last_line(page, site, "654", "7 of 48", "0")
    assert tile(page, "Accept length") == "2.5"
    site.append(decode(9, 777.0, queued=3))
    last_line(page, site, "777", "9 of 48", "3")
    strip = page.locator(".st-key-status")
    expect(strip).to_contain_text("following")
    expect(strip).to_contain_text("0 bytes behind")
    # Nothing follows: the page says so by itself, as a word and not as a rate.
    silent = f"^Silent since .*{site.clock:%H:%M:%S} with 9 running and 3 queued"
    headline(page, re.compile(silent))
    assert tile(page, "Generation") == "silent"
    site.append(decode(0, 777.0))
    headline(page, re.compile(f"^Idle since .*{site.clock:%H:%M:%S}"))
    expect(page.get_by_test_id("stMetric").filter(has_text="Generation")).to_contain_text("idle")


def test_charts_have_words_and_the_clock_of_the_log(site: Site, page: Page) -> None:
    # 40 steps of 4 requests at 2.5 tokens: 400 tokens, a second's worth at 400 tok/s.
    site.append(*[decode(4, 400.0)] * 4)
    words = re.compile(f"^Generation throughput from .* to {site.clock:%H:%M}:.*: last 400 tok/s")
    charts = page.get_by_test_id("stVegaLiteChart")
    expect(charts).to_have_count(5, timeout=WAIT_MS)
    expect(page.get_by_label("Generation throughput", exact=True)).to_be_attached()
    expect(page.get_by_text(words)).to_be_attached(timeout=WAIT_MS)
    # New lines are drawn into the charts that stand: a tooltip outlives them.
    charts.evaluate_all("charts => charts.forEach(chart => chart.firstChild.stands = true)")
    site.append(decode(7, 400.0))
    words = re.compile("^Running requests from .*: last 7 requests")
    expect(page.get_by_text(words)).to_be_attached(timeout=WAIT_MS)
    stand = charts.evaluate_all("charts => charts.map(chart => chart.firstChild.stands)")
    assert stand == [True] * 5


def test_one_crosshair_goes_through_all_charts(site: Site, page: Page) -> None:
    charts = page.locator("[data-testid=stVegaLiteChart] svg.marks")
    charts.nth(3).wait_for()
    lines = page.locator(".crosshair:visible")
    assert lines.count() == 0
    charts.nth(1).scroll_into_view_if_needed()
    place = charts.nth(1).bounding_box()
    assert place is not None
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2

    def goes_through_all() -> bool:
        page.mouse.move(x - 1, y)
        page.mouse.move(x, y)  # charts that were drawn anew have a line at the next move
        xs = lines.evaluate_all("lines => lines.map(line => line.getBoundingClientRect().x)")
        assert len(set(xs)) <= 1
        return bool(xs) and len(xs) == charts.count() and xs[0] == pytest.approx(x, abs=1)

    until(goes_through_all, DEADLINE_S, "a line goes through all charts")
    page.mouse.move(place["x"] + 10, place["y"] + 10)  # on the axis there is no moment
    expect(lines).to_have_count(0)


def test_the_strip_stays_in_sight(site: Site, page: Page) -> None:
    strip = page.locator(".st-key-status")
    expect(strip).to_contain_text("following", timeout=WAIT_MS)
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(5, timeout=WAIT_MS)
    page.get_by_text("Last lines of the log").scroll_into_view_if_needed()
    expect(strip).to_be_in_viewport()


def test_log_text_is_never_markup(site: Site, page: Page) -> None:
    site.append("{at} <img src=x onerror=alert(1)> **bold** [link](javascript:alert(1))")
    hostile = page.locator(".log .line", has_text="<img src=x onerror=alert(1)> **bold** [link]")
    expect(hostile).to_have_count(1, timeout=WAIT_MS)
    assert page.locator("img[src=x]").count() == 0


def test_from_a_point_to_its_line_and_back(site: Site, page: Page) -> None:
    site.append(*(decode(2, 100.0 + n) for n in range(20)))
    last = page.locator(".log .line", has_text="throughput (token/s): 119.0")
    expect(last).to_have_count(1, timeout=WAIT_MS)
    chart = page.get_by_test_id("stVegaLiteChart").first
    chart.click(position={"x": 900, "y": 90})
    page.wait_for_url(re.compile("at=2026"), timeout=WAIT_MS)
    marked = page.locator(".log .marked")
    expect(marked).to_have_count(1, timeout=WAIT_MS)
    expect(marked).to_be_in_viewport()
    other = page.locator(".log .line", has_text="throughput (token/s): 103.0")
    other.click()
    expect(marked).to_contain_text("103.0", timeout=WAIT_MS)
    stamp = re.search(r"\[(\S+) (\S+)\]", other.inner_text())
    assert stamp is not None
    assert f"at={stamp[1]}T{stamp[2].replace(':', '%3A')}" in page.url
    page.get_by_role("button", name="Back to the newest lines").click()
    expect(marked).to_have_count(0, timeout=WAIT_MS)
    expect(last).to_be_in_viewport(timeout=WAIT_MS)
    chart.click(position={"x": 900, "y": 90})  # the same point again
    expect(marked).to_have_count(1, timeout=WAIT_MS)
    page.get_by_role("button", name="Back to the newest lines").click()
    expect(marked).to_have_count(0, timeout=WAIT_MS)


def at_end(log: Locator) -> bool:
    return bool(log.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight < 24"))


def test_the_log_stays_at_its_end_until_it_is_scrolled(site: Site, page: Page) -> None:
    site.append(*(f"{{at}} {'a long line of words ' * 12} {n}" for n in range(30)))
    log = page.locator(".log")
    last = log.locator(".line", has_text="words 29")
    expect(last).to_have_count(1, timeout=WAIT_MS)
    for width in (700, 1280):  # they wrap anew
        page.set_viewport_size({"width": width, "height": 720})
        until(lambda: at_end(log), DEADLINE_S)
    site.append("{at} one more")
    expect(log.locator(".line", has_text="one more")).to_have_count(1, timeout=WAIT_MS)
    until(lambda: at_end(log), DEADLINE_S)
    log.evaluate("log => { log.scrollTop -= 200; }")
    site.append("{at} and another")
    expect(log.locator(".line", has_text="and another")).to_have_count(1, timeout=WAIT_MS)
    page.set_viewport_size({"width": 1270, "height": 720})
    assert not at_end(log)
    log.evaluate("log => { log.scrollTop = log.scrollHeight; }")
    until(lambda: at_end(log), DEADLINE_S)
    site.append("{at} the last one")
    expect(log.locator(".line", has_text="the last one")).to_have_count(1, timeout=WAIT_MS)
    until(lambda: at_end(log), DEADLINE_S)
    page.set_viewport_size({"width": 1280, "height": 720})


def test_a_paused_page_stands_still(site: Site, page: Page) -> None:
    site.append(decode(2, 210.0))
    expect(page.locator(".log .line", has_text="210.0")).to_have_count(1, timeout=WAIT_MS)
    page.get_by_role("button", name="Pause").click()
    strip = page.locator(".st-key-status")
    expect(strip).to_contain_text("view paused at", timeout=WAIT_MS)
    for rate in range(211, 241):  # reading goes on; a busy machine shows it when it is past
        site.append(decode(2, float(rate)))
        with suppress(AssertionError):
            expect(strip).to_contain_text("last line came now", timeout=3_000)
            break
    else:
        pytest.fail(strip.inner_text())
    assert page.locator(".log .line", has_text="211.0").count() == 0
    before = heights(page)
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".log .line", has_text="211.0")).to_have_count(1, timeout=WAIT_MS)
    assert heights(page) == before


def test_a_choice_is_kept_in_the_address(site: Site, page: Page) -> None:
    page.get_by_text("whole run").click(timeout=WAIT_MS)
    page.wait_for_url(re.compile("window=whole"), timeout=WAIT_MS)
    page.goto(page.url)  # a session of its own, as in another tab: nothing but the address is left
    chosen = page.get_by_test_id("stButtonGroup").get_by_role("radio", name="whole run")
    expect(chosen).to_be_checked(timeout=WAIT_MS)


def test_runs_downloads_what_export_writes(site: Site, page: Page) -> None:
    open_runs(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as CSV").click()
    command = ["export", "runs", "--format", "csv", "--store", str(site.store)]
    exported = subprocess.run(
        [sys.executable, "-m", "servescope", *command], check=True, capture_output=True
    )
    content = download.value.path().read_bytes()
    assert content == exported.stdout
    assert content.count(b"\n") == 2


def test_a_chart_can_be_read_as_a_table(site: Site, page: Page) -> None:
    page.get_by_text("Show as table").first.click(timeout=WAIT_MS)
    expect(page.get_by_test_id("stDataFrame")).to_be_visible(timeout=WAIT_MS)


def test_a_selected_run_opens_in_live(site: Site, page: Page) -> None:
    open_runs(page)
    select_row(page.get_by_test_id("stDataFrame"), 0, WAIT_MS)
    page.get_by_role("link", name="Open in Live").click(timeout=WAIT_MS)
    page.wait_for_url(re.compile("run=[0-9a-f]+"), timeout=WAIT_MS)
    chosen = page.get_by_role("combobox", name="Server or run")
    expect(chosen).to_have_value(re.compile(r"/server.log$"), timeout=WAIT_MS)
