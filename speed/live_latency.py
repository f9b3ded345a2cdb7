"""How long a line on disk takes to become a value on the page.

A real `servescope up` follows a file, of this machine and over SSH from a real OpenSSH sshd on the
loopback; a real browser shows its Live page. Lines are appended one by one, each when the one
before has been seen and after a pause of random length, so that every phase of the page's clock is
met. Measured is the time from the write to the moment at
which the page's own observer sees the value.

    python speed/live_latency.py [LINES]
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Page  # noqa: E402

from tests.server import DEADLINE_S, browser, served_anew  # noqa: E402
from tests.sshd import serving  # noqa: E402

SAMPLE = ROOT / "data" / "samples" / "sglang-0.5.23-base" / "server.log"
BAR_S = {"a file of this machine": 2.0, "a file of another host, over SSH": 3.0}
# Notes the wall clock at each change of the tile that shows the running requests.
OBSERVE = """
() => {
  window.seen = {};
  const look = () => {
    for (const tile of document.querySelectorAll('[data-testid="stMetric"]')) {
      if (!tile.innerText.includes('Running')) continue;
      const shown = tile.querySelector('[data-testid="stMetricValue"]').innerText;
      if (!(shown in window.seen)) window.seen[shown] = Date.now();
    }
  };
  new MutationObserver(look).observe(
    document.body, {subtree: true, childList: true, characterData: true});
  look();
}
"""


def start_of_sample() -> str:
    """The log of a server up to its first decode line."""
    lines = SAMPLE.read_text().splitlines(keepends=True)
    return "".join(lines[: next(at for at, line in enumerate(lines) if "Decode batch" in line)])


def decode(clock: datetime, running: int) -> str:
    """A decode line; the number of running requests is how it is recognised."""
    return (
        f"[{clock:%Y-%m-%d %H:%M:%S}] Decode batch, #running-req: {running}, #token: 4000, "
        "token usage: 0.25, cpu graph: False, gen throughput (token/s): 400.00, #queue-req: 0\n"
    )


def measure(page: Page, log: Path, lines: int) -> list[float]:
    """Seconds from each write to its value on the page."""
    page.evaluate(OBSERVE)
    clock = datetime(2026, 11, 29, 14, 46)
    pause = random.Random(2)
    taken = []
    for running in range(1, lines + 1):
        time.sleep(pause.uniform(0, 1))
        clock += timedelta(seconds=1)
        with log.open("a") as file:
            file.write(decode(clock, running))
        written = time.time()
        shown = f"{running} of 4,096"
        page.wait_for_function(
            "value => value in window.seen", arg=shown, timeout=DEADLINE_S * 1000, polling=50
        )
        taken.append(page.evaluate("value => window.seen[value]", shown) / 1000 - written)
    return taken


def of_a_page(log: Path, source: str, home: Path, lines: int) -> list[float]:
    """The same with everything started for it; `source`: how `up` is told of the log."""
    log.write_text(start_of_sample())
    command = ("up", source, "--store", str(home / f"{log.name}.duckdb"))
    with served_anew(*command, env={"HOME": str(home)}) as url, browser() as chromium:
        page = chromium.new_page()
        page.goto(url)
        page.get_by_test_id("stMetric").first.wait_for(timeout=DEADLINE_S * 1000)
        return measure(page, log, lines)


def main() -> int:
    """Measure and print; 1 when a 95th percentile misses its bar."""
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"{lines} lines appended one by one to")
    print()
    print("| | median s | 95th percentile s | longest s | bar of the 95th s |")
    print("| --- | ---: | ---: | ---: | ---: |")
    met = True
    with tempfile.TemporaryDirectory(prefix="servescope-speed-") as folder:
        home = Path(folder)
        logs = [home / "here.log", home / "there.log"]
        with serving(home / "sshd", home) as host:
            for log, source, (what, bar) in zip(
                logs, (str(logs[0]), host.url(logs[1])), BAR_S.items(), strict=True
            ):
                taken = of_a_page(log, source, home, lines)
                p95 = statistics.quantiles(taken, n=20)[-1]
                met &= p95 <= bar
                middle = statistics.median(taken)
                print(f"| {what} | {middle:.2f} | {p95:.2f} | {max(taken):.2f} | {bar:g} |")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
