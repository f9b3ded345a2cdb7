"""The options that several commands take, and what they are where none is given."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from ingest.terminal import zone_option

DEFAULT_STORE = "~/.local/share/servescope/store.duckdb"
DEFAULT_PORT = 8501
KEEP_DAYS = 30.0
DEFAULT_ADDRESS = "127.0.0.1"

# How sources other than paths are written; what each promises is told in docs/sources.md.
_OVER_SSH = r"ssh://\[user@]host/path"  # a bracket would begin markup
FOLLOWED = (
    f"Log files, folders or globs to follow, here or as {_OVER_SSH}; docker://container, "
    "k8s://namespace/pod, journald://unit; - for standard input."
)
IMPORTED = f"Logs and benchmark files, folders or globs, here or as {_OVER_SSH}."

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


def _version(asked: bool) -> None:
    if asked:
        print(f"servescope {metadata.version('servescope')}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; standard output if not given.")
]
