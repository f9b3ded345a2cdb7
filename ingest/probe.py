"""A look at a source before it is followed: can it be reached, and does a server log there?"""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from data.errors import AbsentError, SourceError
from ingest.blocks import Block
from ingest.config import SourceSpec
from ingest.pipeline import Pipeline, SourceInfo
from ingest.sources.command import CommandSource, is_command
from ingest.sources.places import place_of
from ingest.sources.process import LocalOutput, Output, RemoteOutput
from ingest.sources.stdin import cut
from parsers.server_args import redact_text

LOOK_BYTES = 1 << 20
LOOK_S = 5.0  # for the first output of a command
LINES = 8
_SHOWN_CHARS = 300


def check(spec: SourceSpec) -> None:
    """SourceError for a source that cannot be followed: nothing there, or no log."""
    if spec.location == "-":
        return
    if is_command(spec.location):
        CommandSource.parse(spec.location)
        return
    with closing(place_of(spec.location)) as place:
        name = place.newest()
        if name is not None:
            with closing(place.open(name)) as file:
                file.refuse_binary()
        elif place.folder is not None and not place.folder.is_dir():
            raise AbsentError(place.folder, "folder")  # in one a log may still appear


def probe(location: str) -> dict[str, Any]:
    """What is found at a location; SourceError if it cannot be read.

    Returns:
        name (the file that would be followed, None while there is none), size (bytes, None for a
        command), host (of the connection in words, None for this machine), lines (the first ones,
        secrets redacted), engine, runs (how many begin in the first megabyte).
    """
    if location == "-":
        raise SourceError("standard input can only be followed from the command line")
    if is_command(location):
        return _probe_command(CommandSource.parse(location))
    with closing(place_of(location)) as place:
        name = place.newest()
        host = place.greeting()
        if name is None or place.size_of(name) is None:
            return _found(None, None, host, b"")
        with closing(place.open(name)) as file:
            file.refuse_binary()
            data = file.read(0, LOOK_BYTES)
            return _found(name, file.progress(0)[1], host, data)


def _probe_command(source: CommandSource) -> dict[str, Any]:
    arguments = source.arguments(source.position())
    if source.host is None:
        return _found(source.source_id, None, None, _first_output(LocalOutput(arguments), source))
    from ingest.sources.ssh import Connection

    connection = Connection(source.host)
    try:
        data = _first_output(RemoteOutput(connection, arguments), source)
        return _found(source.source_id, None, connection.greeting(), data)
    finally:
        connection.end()


def _first_output(output: Output, source: CommandSource) -> bytes:
    data, deadline, code = b"", time.monotonic() + LOOK_S, None
    while len(data) < LOOK_BYTES and time.monotonic() < deadline:
        more = output.read(0.3)
        if more == b"" or (more is None and data):
            break
        data += more or b""
    code = output.end()
    blocks = list(cut([data], keep_rest=False))
    lines, said = source.position().fresh(b"".join(block.data for block in blocks))
    if code and not lines:
        text = " ".join(said.decode(errors="replace").split())[:_SHOWN_CHARS]
        raise SourceError(f"{source.source_id}: {text or f'ended with code {code}'}")
    return lines


def _found(name: str | None, size: int | None, host: str | None, data: bytes) -> dict[str, Any]:
    pipeline = Pipeline(SourceInfo(name or ""), "probe")
    engines: list[str] = []
    runs: set[str] = set()
    for block in cut([data]) if data else [Block(b"")]:
        batch = pipeline.feed(block.data)
        engines += [e for e in batch.run_facts["engine"].to_list() if e]
        engines += [e for e in batch.samples["engine"].unique().to_list() if e]
        runs |= set(batch.run_facts["run_id"].to_list()) | set(batch.samples["run_id"].to_list())
    text = data.decode(errors="replace").splitlines()[:LINES]
    return {
        "name": name, "size": size, "host": host,
        "lines": [redact_text(line)[:_SHOWN_CHARS] for line in text],
        "engine": engines[0] if engines else None, "runs": len(runs - {None}),
    }  # fmt: skip
