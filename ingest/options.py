"""The options that several commands take, and what they are where none is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ingest.terminal import zone_option

DEFAULT_STORE = "~/.local/share/servescope/store.duckdb"
DEFAULT_PORT = 8501
KEEP_DAYS = 30.0
DEFAULT_ADDRESS = "127.0.0.1"

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="SERVESCOPE_STORE",
        help="The DuckDB file that holds everything, or ducklake:postgres:… of many machines.",
    ),
]
PortOption = Annotated[int, typer.Option("--port", help="Port on 127.0.0.1.")]
LabelOption = Annotated[str | None, typer.Option("--label", help="Name for the runs.")]
ZoneOption = Annotated[
    str | None,
    typer.Option(
        "--zone",
        help="Time zone of the stamps, for example Europe/Berlin.",
        callback=zone_option,
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; standard output if not given.")
]
