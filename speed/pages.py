"""How long the server takes for the pages on a store of many runs, and what their charts hold.

Every page is run by its real script, as a visitor would have it: the first answer with nothing in
any cache, and Live again and again while lines are stored for the server in focus, and while none
are. The store has 500 runs and 10 million samples unless other numbers are given.

    python speed/pages.py [RUNS [SAMPLES]]
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import duckdb  # noqa: E402
import polars as pl  # noqa: E402
import streamlit as st  # noqa: E402
from streamlit.testing.v1 import AppTest  # noqa: E402
from streamlit.util import calc_hash  # noqa: E402

from dashboard import background, context, picture, run_cache, settings  # noqa: E402
from dashboard.app import FRAME  # noqa: E402
from data import queries  # noqa: E402
from data.store import Store  # noqa: E402
from ingest import status  # noqa: E402
from ingest.lines import Line, cut  # noqa: E402
from ingest.status import SourceStatus  # noqa: E402
from ingest.supervisor import Supervisor  # noqa: E402
from parsers import records  # noqa: E402
from tests import big_store  # noqa: E402
from tests.chart_size import MOST_MARKS, MOST_POINTS, Charts  # noqa: E402
from tests.frames import Frames  # noqa: E402

LOG = ROOT / "data" / "samples" / "sglang-0.5.23-ngram" / "server.log"
RUNS, SAMPLES = 500, 10_000_000
FIRST_BAR_S = 1.0
REFRESH_BARS_MS = (150.0, 300.0)  # median, 95th percentile
UNCHANGED_BAR_MS = 10.0
REPEATS = 3
REFRESHES = 100
# The page's script, between two looks at the clock.
SCRIPT = f"""
import runpy, time
import streamlit as st
from dashboard.pages import live
from speed.pages import timed
live._top = timed(live._top)
begun, used = time.perf_counter(), time.process_time()
runpy.run_path({str(FRAME)!r})
st.session_state["taken"] = time.perf_counter() - begun
st.session_state["used"] = time.process_time() - used
"""


def timed(top: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """The top of Live, which alone runs each second while nothing is stored, with its time."""

    @wraps(top)
    def run(choice: str, window: str) -> None:
        begun = time.perf_counter()
        top(choice, window)
        st.session_state["top"] = time.perf_counter() - begun

    return top if hasattr(top, "__wrapped_by_speed__") else _marked(run)


def _marked(run: Callable[[str, str], None]) -> Callable[[str, str], None]:
    run.__wrapped_by_speed__ = True  # type: ignore[attr-defined]
    return run


class Following(Supervisor):
    """A supervisor whose one source is the newest run's, with its last lines in memory."""

    def __init__(self, store: Store, run: dict[str, Any]) -> None:
        super().__init__(store, [])
        self._run = run
        self._last = cut(LOG.read_bytes(), status.TAIL_LINES, run["file_id"], 200_000)

    def status(self) -> list[SourceStatus]:
        """The source of the newest run, being followed."""
        return [
            SourceStatus(
                self._run["source_id"], None, status.FOLLOWING, run_id=self._run["run_id"],
                last_line_at=datetime.now(UTC),
            )
        ]  # fmt: skip

    def lines(self, source_id: str, n: int) -> list[Line]:
        """The last lines of a bundled log."""
        return self._last[-n:]


def stored(runs: int, samples: int, folder: Path | None = None) -> Path:
    """The store, made once and kept in this folder, else in the temporary one."""
    made_by = [Path(big_store.__file__), ROOT / "data" / "schema.sql", ROOT / "data" / "compact.py"]
    name = hashlib.sha256(b"".join(path.read_bytes() for path in made_by)).hexdigest()[:12]
    kept = folder or Path(tempfile.gettempdir()) / "servescope-speed"
    path = kept / f"{name}-{runs}-{samples}.duckdb"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"Making a store of {runs} runs and {samples:,} samples ...", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=path.parent) as building:
            unfinished = Path(building) / "store.duckdb"
            with Store.open(unfinished, bulk=True) as store:
                big_store.build(store, runs, samples)
                with store.cursor() as con:
                    con.execute("CHECKPOINT")  # what lies in the log beside it would stay behind
            unfinished.rename(path)
    return path


def forget() -> None:
    """As after a start of the server: nothing is in any cache."""
    background.settle()
    st.cache_resource.clear()
    run_cache._kept.clear()
    picture._changes.clear()
    picture._drawn.clear()


def visit(page: str, address: dict[str, Any]) -> AppTest:
    """A visitor opens a page."""
    test = AppTest.from_string(SCRIPT, default_timeout=600)
    test._page_hash = calc_hash(page)  # that of its address, which AppTest has no name for
    for name, value in address.items():
        test.query_params[name] = value
    return looked(test)


def looked(test: AppTest) -> AppTest:
    """Run the page; a fault of it ends the measuring."""
    test.run()
    if test.exception or test.error:
        sys.exit(f"the page failed: {[*test.exception, *test.error]}")
    return test


def pages(runs: pl.DataFrame) -> list[tuple[str, str, dict[str, Any]]]:
    """What is opened: in words, page, parameters of the address."""
    longest = runs.row(0, named=True)
    usual = runs.filter(pl.col("n_decode") > 0, dp=1)["run_id"]
    whole = "the longest run"
    return [
        ("Live", "live", {}),
        (f"Live, all of {whole}", "live", {"run": longest["run_id"], "window": "whole run"}),
        ("Runs", "runs", {}),
        ("Run", "run", {"run": usual[0]}),
        (f"Run, {whole}", "run", {"run": longest["run_id"]}),
        ("Compare, two runs", "compare", {"base": usual[0], "with": [usual[1]]}),
        (f"Compare, one with {whole}", "compare",
         {"base": usual[0], "with": [longest["run_id"]]}),
        ("Bench", "bench", {}),
        ("Incidents", "incidents", {}),
        ("Explore", "explore", {}),
        ("Sources", "sources", {}),
        ("Metrics", "metrics", {}),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Took:
    """What one run of a page took: seconds by the clock, and of the processor."""

    clock: float
    processor: float


def took(test: AppTest) -> Took:
    """What the last run of a page took."""
    return Took(test.session_state["taken"], test.session_state["used"])


def first_answers(runs: pl.DataFrame) -> tuple[list[tuple[str, list[Took]]], Charts]:
    """Each page with nothing in any cache, and the fullest chart of all."""
    taken, charts = [], Charts()
    visit("live", {})  # what is imported by the first page is not counted
    for words, page, address in pages(runs):
        times = []
        for _ in range(REPEATS):
            forget()
            test = visit(page, address)
            times.append(took(test))
        charts = charts.with_page(test)
        taken.append((words, times))
    return taken, charts


def refreshes(store: Store, run: dict[str, Any]) -> tuple[list[Took], list[float]]:
    """Live when a second of lines was stored, and milliseconds of it when nothing was."""
    test = visit("live", {})
    changed, unchanged = [], []
    for nth in range(1, REFRESHES + 1):
        store.append(_second(run, nth), None)
        picture._drawn.clear()  # the charts are drawn anew, however soon
        changed.append(took(looked(test)))
        unchanged.append(1000 * looked(test).session_state["top"])
    return changed, unchanged


def _second(run: dict[str, Any], nth: int) -> Frames:
    """A line of each rank."""
    at = run["last_ts"] + timedelta(seconds=nth)
    rows = [
        {"run_id": run["run_id"], "source_id": run["source_id"], "file_id": run["file_id"],
         "byte_offset": 2**40 + 1000 * nth + rank, "line_no": 2**30 + 8 * nth + rank, "ts": at,
         "ts_inferred": False, "engine": "sglang", "kind": "decode", "dp_rank": rank,
         "running_reqs": 4, "queued_reqs": 0, "kv_usage": 0.4, "gen_tok_s": 400.0 + rank,
         "accept_len": 2.4, "request_steps": 160.0, "interval_s": 1.0, "interval_from": "stamps",
         "window": "steady"}
        for rank in range(big_store.RANKS)
    ]  # fmt: skip
    return Frames(samples=records.frame(rows, records.SAMPLES))


def table(taken: list[tuple[str, list[Took]]]) -> Iterator[str]:
    """The first answers as a Markdown table."""
    yield "| first answer of | median s | all s | processor s | bar s |"
    yield "| --- | ---: | --- | ---: | ---: |"
    for words, times in taken:
        every = ", ".join(f"{one.clock:.2f}" for one in times)
        middle = statistics.median(one.clock for one in times)
        used = statistics.median(one.processor for one in times)
        yield f"| {words} | {middle:.2f} | {every} | {used:.2f} | {FIRST_BAR_S:.0f} |"


def told(words: str, times_ms: list[float], bars: str) -> str:
    """Median and 95th percentile as a row."""
    p95 = statistics.quantiles(times_ms, n=20)[-1]
    return f"| {words} | {statistics.median(times_ms):.0f} | {p95:.0f} | {bars} |"


@dataclass(frozen=True, slots=True)
class Measured:
    """The pages of one store."""

    runs: int
    samples: int
    longest: int  # samples of the longest run
    size_bytes: int
    first: list[tuple[str, list[Took]]]  # by page
    changed: list[Took]  # Live, a second of lines stored
    unchanged_ms: list[float]  # Live, nothing stored
    charts: Charts


def measured(source: Path, runs: int, samples: int) -> Measured:
    """Every page of a copy of this store."""
    with tempfile.TemporaryDirectory(prefix="servescope-speed-", dir=source.parent) as folder:
        path = Path(folder) / "store.duckdb"
        shutil.copy(source, path)
        with Store.open(path) as store:
            with store.cursor() as con:
                known = queries.runs_table(con)
                newest = known.row(0, named=True)
                newest["file_id"] = _file_of(con, newest["run_id"])
            context.enter(context.Context(store, Following(store, newest)))
            taken, charts = first_answers(known)
            changed, unchanged = refreshes(store, newest)
    longest = sum(newest[f"n_{kind}"] for kind in ("decode", "prefill", "stats", "spec"))
    size = source.stat().st_size
    return Measured(runs, samples, longest, size, taken, changed, unchanged, charts)


def _file_of(con: duckdb.DuckDBPyConnection, run_id: str) -> str:
    query = "SELECT max(file_id) FROM sample_groups WHERE run_id = $run_id"
    row = con.execute(query, {"run_id": run_id}).fetchone()
    assert row is not None
    return str(row[0])


def in_words(found: Measured) -> Iterator[str]:
    """Everything, as Markdown."""
    yield (
        f"A store of {found.runs:,} runs and {found.samples:,} samples, {found.longest:,} of them "
        f"in the longest run; {found.size_bytes / 1e6:,.0f} MB. Times of the server."
    )
    yield ""
    yield from table(found.first)
    yield ""
    yield "| Live is refreshed | median ms | 95th ms | bars ms |"
    yield "| --- | ---: | ---: | --- |"
    median, p95 = REFRESH_BARS_MS
    bars = f"{median:.0f} and {p95:.0f}"
    yield told("a second of lines was stored", [1000 * one.clock for one in found.changed], bars)
    yield told("the same, processor", [1000 * one.processor for one in found.changed], bars)
    yield told("nothing was stored", found.unchanged_ms, f"{UNCHANGED_BAR_MS:.0f}")
    yield ""
    yield (
        f"The fullest chart had {found.charts.marks:,} marks (bar: {MOST_MARKS:,}), the longest "
        f"series {found.charts.points} points (bar: {MOST_POINTS})."
    )


def prepare() -> None:
    """Have pages run here as in a server."""
    logging.disable(logging.WARNING)  # Streamlit tells that no server is running
    settings.pin()  # as a server has it: without, every element of a page is counted as well


def main() -> int:
    """Measure and print."""
    prepare()
    counts = [int(count) for count in sys.argv[1:]]
    runs, samples = [*counts, *(RUNS, SAMPLES)[len(counts) :]]
    begun = time.monotonic()
    print("\n".join(in_words(measured(stored(runs, samples), runs, samples))))
    print(f"Pages measured in {time.monotonic() - begun:.0f} s.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
