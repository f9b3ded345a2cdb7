"""The command line: wires the rooms together, no logic of its own.

Imports are made where a command needs them: `servescope runs` must not wait for a web server.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

# Before NumPy is loaded: its linear algebra, which nothing here uses, would start a thread a core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from data.errors import CommandError
from ingest.forms import (
    BenchFormat,
    CardFormat,
    CompareFormat,
    DoctorFormat,
    FileFormat,
    FindingsFormat,
    ListFormat,
    ParseFormat,
    TableFormat,
)
from ingest.options import (
    DEFAULT_ADDRESS,
    DEFAULT_PORT,
    DEFAULT_STORE,
    FOLLOWED,
    IMPORTED,
    KEEP_DAYS,
    LabelOption,
    OutputOption,
    PortOption,
    StoreOption,
    VersionOption,
    ZoneOption,
)
from ingest.terminal import latest, progress, told, warn, writable

if TYPE_CHECKING:
    import polars as pl

    from dashboard.access import Access
    from ingest.config import SourceSpec

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def main() -> None:
    """The console script."""
    gc.set_threshold(50_000, 20, 50)  # most of what a start loads stays
    with told():
        app()


@app.callback()
def servescope(version: VersionOption = False) -> None:
    """Live and historical dashboards from the logs of SGLang and vLLM servers."""


@app.command()
def up(
    sources: Annotated[list[str] | None, typer.Argument(help=FOLLOWED)] = None,
    port: PortOption = DEFAULT_PORT,
    label: LabelOption = None,
    zone: ZoneOption = None,
    bench: Annotated[
        list[str] | None,
        typer.Option("--bench", help="Folder to take benchmark results from as they appear."),
    ] = None,
    address: Annotated[
        str, typer.Option("--address", help="IP address to serve the pages at; see --auth.")
    ] = DEFAULT_ADDRESS,
    auth: Annotated[
        Path | None, typer.Option("--auth", help="TOML file: who may open them from elsewhere.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Follow logs and show them live in the browser."""
    from dashboard.access_file import for_address
    from ingest.config import SourceSpec, found_config
    from ingest.starting import look

    access = for_address(address, port, auth)
    specs = [SourceSpec(location, label, zone) for location in sources or []] or found_config()
    elsewhere = [SourceSpec(folder) for folder in bench or [] if "://" in folder]
    look(specs, warn)
    for away in look(elsewhere, warn):
        warn(f"{away}; it is tried again")
    _serve(store, specs, port, bench or [], address, access)


@app.command()
def ingest(
    sources: Annotated[list[str], typer.Argument(help=FOLLOWED)],
    label: LabelOption = None,
    zone: ZoneOption = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Follow logs into a store without showing pages: on each host of a fleet."""
    from ingest.collecting import collect
    from ingest.config import SourceSpec
    from ingest.starting import look

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    specs = [SourceSpec(location, label, zone) for location in sources]
    look(specs, warn)
    with contextlib.suppress(KeyboardInterrupt):
        collect(store, specs)


@app.command()
def demo(
    speed: Annotated[float, typer.Option("--speed", min=0.1, help="1 is real time.")] = 1.0,
    port: PortOption = DEFAULT_PORT,
) -> None:
    """Show bundled logs of real servers as if they ran now, in a store of its own."""
    import tempfile

    from ingest.config import SourceSpec
    from ingest.replay import Replay, bring_past

    with tempfile.TemporaryDirectory(prefix="servescope-demo-") as folder:
        store = Path(folder) / "demo.duckdb"
        bring_past(store)
        replay = Replay(Path(folder), speed)
        specs = [SourceSpec(str(path), path.stem) for path in replay.paths]
        replay.start()
        try:
            _serve(str(store), specs, port)
        finally:
            replay.stop()


@app.command("import")
def import_command(
    paths: Annotated[list[str], typer.Argument(help=IMPORTED)],
    label: LabelOption = None,
    zone: ZoneOption = None,
    bench: Annotated[
        list[str] | None, typer.Option("--bench", help="Benchmark results of these very logs.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Read past logs and benchmark results into the store, each file once."""
    from data.bench_text import import_lines
    from ingest.sources.secret import prompting

    try:
        with _commands(store, brings=True) as commands, progress() as tell, prompting():
            report = commands.import_logs(paths, label, zone, tell, bench or [])
    except KeyboardInterrupt:
        print(
            "servescope: interrupted; what is stored stays, the same command goes on from there",
            file=sys.stderr,
        )
        raise
    for note in report["notes"]:
        print(note, file=sys.stderr)
    for line in import_lines(report):
        print(line)


@app.command()
def trust(
    host: Annotated[str, typer.Argument(help=r"\[user@]host[:port], or a name of ~/.ssh/config.")],
) -> None:
    """Show the key of a host that logs are read from over SSH, and trust it if you say so."""
    from ingest.sources.secret import prompting
    from ingest.sources.trust import trust as trust_host

    with prompting():
        trusted = trust_host(host, lambda text: typer.confirm(text), print)
    if not trusted:
        raise CommandError(f"{host}: not trusted; nothing was changed")


@app.command()
def parse(
    file: Annotated[
        str, typer.Argument(help="A log or a benchmark's file, or - for standard input.")
    ],
    form: Annotated[ParseFormat, typer.Option("--format")] = ParseFormat.JSONL,
    zone: ZoneOption = None,
    output: OutputOption = None,
) -> None:
    """Print the records of a log or of benchmark results, without a store."""
    from ingest.parse import parse_stream, write, write_file

    with writable(output, binary=form is ParseFormat.PARQUET) as out:
        if file == "-":
            write(parse_stream(0, zone), form, out)
        else:
            write_file(Path(file), zone, form, out)


@app.command()
def doctor(
    file: Annotated[str, typer.Argument(help="A log file.")],
    form: Annotated[DoctorFormat, typer.Option("--format")] = DoctorFormat.TEXT,
    zone: ZoneOption = None,
    output: OutputOption = None,
) -> None:
    """Say what a log holds, what it lacks, and which switch that most likely comes from."""
    from ingest.doctor import as_json, as_text, examine
    from ingest.sources.file import place

    report = examine(place(file), zone)
    with writable(output, binary=False) as out:
        out.write((as_json if form is DoctorFormat.JSON else as_text)(report).encode())


@app.command()
def runs(
    form: Annotated[ListFormat, typer.Option("--format")] = ListFormat.TEXT,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """List all runs, newest first."""
    from data.export import render, run_list

    with _commands(store) as commands:
        found = commands.runs()
    with writable(None, binary=False) as out:
        as_text = form is ListFormat.TEXT
        out.write(f"{run_list(found)}\n".encode() if as_text else render(found, form))


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="Id, beginning of an id, label, or file.")],
    args: Annotated[bool, typer.Option("--args", help="The server's arguments too.")] = False,
    form: Annotated[CardFormat, typer.Option("--format")] = CardFormat.TEXT,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Show the card and the summary of one run."""
    from data.card import card_json, card_text

    with _commands(store) as commands:
        card = commands.show(latest(commands, run))
    print(card_json(card) if form is CardFormat.JSON else card_text(card, args=args))


@app.command()
def bench(
    run: Annotated[list[str] | None, typer.Argument(help="Runs; all if none is named.")] = None,
    form: Annotated[BenchFormat, typer.Option("--format")] = BenchFormat.TEXT,
    meaning: Annotated[
        list[str] | None,
        typer.Option("--map", help="HEADER=COLUMN[:UNIT] of a table made by hand, said once."),
    ] = None,
    output: OutputOption = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """List benchmark points, each with what the server's log says of its time."""
    from data.bench_text import column_meaning, import_lines, rendered

    with _commands(store) as commands:
        if meaning:
            for line in import_lines(commands.map_bench(list(map(column_meaning, meaning)))):
                print(line, file=sys.stderr)
        points = commands.bench([latest(commands, name) for name in run or []])
    with writable(output, binary=False) as out:
        out.write(rendered(points, form))


@app.command()
def export(
    what: Annotated[
        str, typer.Argument(help="runs, samples, events, bench_results or comparison.")
    ],
    run: Annotated[list[str] | None, typer.Argument(help="Runs; all if none is named.")] = None,
    form: Annotated[FileFormat, typer.Option("--format")] = FileFormat.CSV,
    every: Annotated[
        float | None, typer.Option("--every", min=1.0, help="Samples per interval of so many s.")
    ] = None,
    output: OutputOption = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write runs, samples, events, benchmark results or a comparison as a file."""
    if what == "comparison":
        _export_comparison(run or [], form, output, store)
        return
    if form in (FileFormat.HTML, FileFormat.SVG, FileFormat.PNG):
        raise CommandError(f"{form}: only a comparison is drawn; choose csv, parquet, json or md")
    with _commands(store) as commands:
        frame = commands.export(what, [latest(commands, name) for name in run or []], every)
    _write(frame, TableFormat(form), output)


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(help="The baseline first: RUN, PATH or LABEL=LOG[+BENCH…]."),
    ],
    form: Annotated[CompareFormat, typer.Option("--format")] = CompareFormat.TEXT,
    output: OutputOption = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Compare runs or logs with the first of them."""
    text = _comparison(runs, form, store)
    with writable(output, binary=False) as out:
        out.write(text.encode())


@app.command()
def findings(
    run: Annotated[str | None, typer.Argument(help="The run; the latest if none is named.")] = None,
    form: Annotated[FindingsFormat, typer.Option("--format")] = FindingsFormat.TEXT,
    output: OutputOption = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Say what is wrong or surprising in a run, with the evidence."""
    with _commands(store) as commands:
        text = commands.findings(run if run is None else latest(commands, run), form)
    with writable(output, binary=False) as out:
        out.write(text.encode())


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT.")],
    form: Annotated[TableFormat, typer.Option("--format")] = TableFormat.TABLE,
    limit: Annotated[int, typer.Option("--limit", help="Rows at most.")] = 10_000,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds at most.")] = 30.0,
    output: OutputOption = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Ask the store a question of your own."""
    with _commands(store) as commands:
        frame = commands.sql(query, limit, timeout)
    _write(frame.head(limit), form, output)
    if frame.height > limit:
        print(f"only the first {limit} rows; --limit gives more", file=sys.stderr)


@app.command()
def compact(
    keep: Annotated[
        float, typer.Option("--keep", help="Days of which every sample is kept.")
    ] = KEEP_DAYS,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Roll up old samples by minute, and give the space back."""
    from data.space import compacted

    with _commands(store) as commands:
        print(compacted(commands.compact(keep)))


@app.command()
def status(
    form: Annotated[CardFormat, typer.Option("--format")] = CardFormat.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Show how the sources of a running `servescope up` are doing."""
    import json
    from datetime import UTC, datetime

    from ingest.control import running
    from ingest.status import status_line

    report = running(store)
    if as_json or form is CardFormat.JSON:
        print(json.dumps(report, default=str))
    elif not report["running"]:
        print("servescope is not running on this store")
    else:
        print(report["url"])
        for source in report["sources"]:
            print(status_line(source, datetime.now(UTC)))


def _serve(
    location: str,
    specs: Sequence[SourceSpec],
    port: int,
    bench: Sequence[str] = (),
    address: str = DEFAULT_ADDRESS,
    access: Access | None = None,
) -> None:
    """Follow the sources and serve the pages until the user stops it."""
    from dashboard import waiting, web
    from dashboard.access import NOBODY_ELSE
    from dashboard.access_file import from_elsewhere
    from dashboard.app import build_app
    from ingest import at_port, control, ending
    from ingest.bench_desk import BenchDesk
    from ingest.bench_watch import BenchWatch
    from ingest.commands import Commands
    from ingest.config import Remembered
    from ingest.supervisor import Supervisor

    # The web server ends by raising the signal anew; the default would end us before cleaning up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    let_in = access or NOBODY_ELSE
    wait = partial(waiting.serve, access=let_in)
    with (
        contextlib.ExitStack() as last,
        contextlib.suppress(KeyboardInterrupt),
        at_port.opened(location, port, address, wait) as (store, sockets, url),
    ):
        supervisor = Supervisor(store, specs, Remembered(store.path))
        watch = BenchWatch(store, bench)
        store.announce(url)
        with control.published(store.path, url) as token, watch:
            routes = [control.route(Commands(store, supervisor), token)]
            pages = build_app(store, supervisor, routes, BenchDesk(store, watch), let_in)
            print(f"Servescope: {url} (store {store.name}; stop with Ctrl-C)", flush=True)
            print(from_elsewhere(let_in, sockets[0].getsockname()[1]), flush=True)
            end = partial(ending.deadline, store)
            web.server(pages, at_signal=lambda: last.enter_context(end())).run(sockets=sockets)


def _comparison(runs: list[str], form: str, store: str) -> str:
    """Runs and files against the first; the store is opened only where it is asked for."""
    from ingest.comparing import answer_of_files, not_a_file

    asked = not_a_file(runs)
    if asked is None:
        return answer_of_files(runs, form)
    with _commands(store, asked=asked) as commands:
        return str(commands.compare(runs, form))


def _export_comparison(runs: list[str], form: FileFormat, output: Path | None, store: str) -> None:
    from ingest.comparing import as_file, asked_as

    if not runs:
        raise CommandError("comparison: name the runs or logs, the baseline first")
    content = as_file(_comparison(runs, asked_as(form), store), form)
    with writable(output, binary=form in (FileFormat.PARQUET, FileFormat.PNG)) as out:
        out.write(content)


@contextlib.contextmanager
def _commands(store: str, *, brings: bool = False, asked: str | None = None) -> Iterator[Any]:
    from ingest.control import connect

    with connect(store, brings=brings, bulk=brings, asked=asked) as commands:
        yield commands


def _write(frame: pl.DataFrame, form: TableFormat, output: Path | None) -> None:
    from data.export import render, table

    with writable(output, binary=form is TableFormat.PARQUET) as out:
        out.write(table(frame).encode() if form is TableFormat.TABLE else render(frame, form))


if __name__ == "__main__":
    main()
