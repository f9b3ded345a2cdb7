"""Import speed against other ways to read the same log, in one run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

from speed import logs
from speed.steps import ROOT, Step, table, take_turns

HERE = Path(__file__).resolve().parent
LINES, BAR = 1_200_000, 4.0  # times the plain loop
MANY_LINES, MANY_BAR = 7_160_000, 8.0  # about 1 GB
MEMORY_BAR_MB = 600
BOUNDS = """What bounds an import (sampled on 30 November 2026 over a gigabyte of the same log, 2
cores, of which 1.7 were busy): of the processor's time DuckDB took 26 % (statistics and
compression of every value that is appended, spread over a hundred functions), the interpreter 17
% (small calls, as many for a block of any size, which is why blocks are of 22 MB), polars 14 %,
the kernel 12 % (reading, and first touches of memory), libc 11 % (copies and comparisons of
bytes), the compiled loops over the bytes 10 %, NumPy 9 %. One thread reads and works out what is
inserted, two scan, one inserts: the interpreter's lock keeps them from filling both cores.
Storing the same rows without any compression took 20 % less time than with it, and nearly five
times the space. Start-up takes 0.7 s, nearly all of it the loading of polars, NumPy, DuckDB and
Typer; it is a quarter of an import of 167 MB and a tenth of one of a gigabyte."""
# What genlog.py writes into LINES lines.
RECORDS = {"decode": 419_355, "prefill": 240_835}


def ours(log: Path, store: Path, name: str = "**`servescope import`**") -> Step:
    """An import into a new store."""
    command = [sys.executable, "-m", "servescope", "import", str(log), "--store", str(store)]
    return Step(name, command)


def loop(log: Path) -> Step:
    """What all else is measured against."""
    return Step("plain Python `re` loop", [sys.executable, str(HERE / "re_loop.py"), str(log)])


def of_one_log() -> tuple[list[str], float]:
    """The usual log against everything there is; how many times the loop our import is."""
    log = logs.sglang(LINES)
    with tempfile.TemporaryDirectory(prefix="servescope-speed-") as folder:
        store = Path(folder) / "store.duckdb"
        python = sys.executable
        contestants = [
            loop(log),
            ours(log, store),
            Step("typed loop without strptime", [python, str(HERE / "typed_loop.py"), str(log)]),
            Step("DuckDB `regexp_extract`", [python, str(HERE / "duckdb_regex.py"), str(log)]),
            *_tools(log),
        ]
        take_turns(contestants, 3, lambda: _empty(folder), lambda step: _check(step, store))
    ratio = contestants[0].median / contestants[1].median
    size_mb = log.stat().st_size / 1e6
    return [
        f"A generated SGLang log of {LINES:,} lines ({size_mb:.0f} MB): {RECORDS['decode']:,} "
        f"decode and {RECORDS['prefill']:,} prefill records. The steps took turns, 3 times each. "
        "The loops only build records in memory; the import also stores and commits them; ripgrep "
        "only counts lines.",
        "",
        *table(contestants, LINES, size_mb),
        "",
        f"The bar is {BAR:.0f} times the loop; reached: **{ratio:.1f} times**.",
    ], ratio


def of_a_large_one() -> tuple[list[str], float]:
    """A log of a gigabyte against the loop."""
    log = logs.sglang(MANY_LINES)
    with tempfile.TemporaryDirectory(prefix="servescope-speed-") as folder:
        contestants = [loop(log), ours(log, Path(folder) / "store.duckdb")]
        take_turns(contestants, 2, lambda: _empty(folder), lambda step: None)
    ratio = contestants[0].median / contestants[1].median
    size_mb = log.stat().st_size / 1e6
    return [
        f"The same with {MANY_LINES:,} lines ({size_mb:.0f} MB), twice each:",
        "",
        *table(contestants, MANY_LINES, size_mb),
        "",
        f"The bar is {MANY_BAR:.0f} times the loop; reached: **{ratio:.1f} times**.",
        "",
        of_two_gigabytes(),
    ], ratio


def of_two_gigabytes() -> str:
    """What memory an import of twice the large log takes."""
    log = logs.twice(logs.sglang(MANY_LINES))
    with tempfile.TemporaryDirectory(prefix="servescope-speed-") as folder:
        step = ours(log, Path(folder) / "store.duckdb")
        step.run()
    return (
        f"Twice as much in one file ({log.stat().st_size / 1e6:.0f} MB), once: {step.median:.1f} s "
        f"in {step.peak_mb:.0f} MB of memory (bar: {MEMORY_BAR_MB} MB)."
    )


def of_others() -> Iterator[str]:
    """Other kinds of logs: what an import of each takes, and the store it makes."""
    plain = logs.sglang(LINES)
    kinds = {
        "SGLang with speculation": plain,
        "the same, packed by gzip": logs.packed(plain),
        "SGLang, 90 % access lines": logs.access(LINES),
        "vLLM with speculation, 96 % access lines": logs.vllm(LINES),
    }
    yield f"Other logs of {LINES:,} lines, each imported once into a new store:"
    yield ""
    yield "| log | s | million lines/s | MB of text/s | peak MB | store MB | store of the text |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    text_mb = {name: log.stat().st_size / 1e6 for name, log in kinds.items()}
    text_mb["the same, packed by gzip"] = text_mb["SGLang with speculation"]
    with tempfile.TemporaryDirectory(prefix="servescope-speed-") as folder:
        store = Path(folder) / "store.duckdb"
        for name, log in kinds.items():
            _empty(folder)
            step = ours(log, store, name)
            step.run()
            stored_mb = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
            yield (
                f"| {name} | {step.median:.2f} | {LINES / step.median / 1e6:.2f} "
                f"| {text_mb[name] / step.median:.0f} | {step.peak_mb:.0f} | {stored_mb:.1f} "
                f"| {100 * stored_mb / text_mb[name]:.0f} % |"
            )


def _tools(log: Path) -> Iterator[Step]:
    if ripgrep := shutil.which("rg"):
        yield Step("`rg -c 'Decode batch'`", [ripgrep, "-c", "Decode batch", str(log)])
    if lnav := shutil.which("lnav"):
        count = ";SELECT count(*) FROM all_logs"
        yield Step("lnav, headless, a count", [lnav, "-n", "-c", count, str(log)])


def _empty(folder: str) -> None:
    for old in Path(folder).iterdir():
        old.unlink()


def _check(step: Step, store: Path) -> None:
    """That an import stored every record."""
    if "import" not in step.command:
        return
    with duckdb.connect(str(store), read_only=True) as con:
        stored = dict(con.sql("select kind, count(*) from samples group by kind").fetchall())
    if stored != RECORDS:
        sys.exit(f"The store holds {stored}; the log has {RECORDS}")


def ssh_catch_up() -> Iterator[str]:
    """The usual log over SSH on the loopback: its way included, read and stored."""
    log = logs.sglang(LINES)
    done = subprocess.run(
        [sys.executable, str(HERE / "ssh_catch_up.py"), str(log), "3"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    yield done.stdout.strip()
