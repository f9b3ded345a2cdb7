"""Makes the pictures of docs/tour.md and the README from the demo. `make tour`

The demo runs as its user would start it; a browser opens each page and takes its picture.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page

from tests.command import run
from tests.server import browser, served

PICTURES: Final = Path(__file__).resolve().parents[1] / "docs" / "img"
SETTLED_MS: Final = 5000  # a chart is drawn after its page
LIVE_MS: Final = 40_000  # so that the live page has a minute to show


def main() -> int:
    """Take all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served("demo", env={"TMPDIR": folder}) as url,
        browser() as driver,
    ):
        (store,) = Path(folder).glob("*/demo.duckdb")
        page = opened(driver, "light")
        page.goto(url)
        page.wait_for_timeout(LIVE_MS)
        take(page, url, "live")
        take(opened(driver, "dark"), url, "live-dark")  # before the demo begins anew
        for name, address in addresses(runs_of(store)).items():
            take(page, f"{url}/{address}", name)
    return 0


def runs_of(store: Path) -> dict[str, str]:
    """The past runs of the demo: ids by the folder of their log."""
    told = run("sql", "SELECT run_id, source_id FROM runs", "--store", store, "--format", "json")
    return {Path(row["source_id"]).parent.name: row["run_id"] for row in json.loads(told.stdout)}


def addresses(runs: dict[str, str]) -> dict[str, str]:
    """What to show, by the name of its picture."""
    ngram, base = runs["sglang-0.5.23-ngram"], runs["sglang-0.5.23-base"]
    return {
        "runs": "runs",
        "run": f"run?run={ngram}",
        "compare": f"compare?base={base}&with={ngram}",
        "bench": "bench",
        "incidents": "incidents",
        "explore": "explore",
        "sources": "sources",
    }


def opened(driver: Browser, scheme: Literal["light", "dark"]) -> Page:
    """A page in light or dark; an error of its script ends the tour."""
    page = driver.new_page(
        viewport={"width": 1280, "height": 1000}, color_scheme=scheme, device_scale_factor=1.25
    )
    page.on("pageerror", lambda error: sys.exit(f"the page failed: {error}"))
    return page


def take(page: Page, address: str, name: str) -> None:
    """Open a page and keep its picture."""
    page.goto(address)
    page.wait_for_selector("h1, h2, h3")
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=PICTURES / f"{name}.png")
    print(f"docs/img/{name}.png")


if __name__ == "__main__":
    sys.exit(main())
