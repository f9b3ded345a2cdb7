"""Records of a log without a store: `servescope parse`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from data import export
from ingest.bench_read import look
from ingest.blocks import Block, BlockReader
from ingest.pipeline import Batch, Pipeline, SourceInfo
from ingest.sources import stdin
from ingest.sources.file import LocalFile
from ingest.sources.log_file import HEAD_BYTES
from ingest.sources.packed import unpacking


def parse_file(path: Path, zone: str | None = None) -> Iterator[Batch]:
    """The records of a file, a block at a time."""
    file = unpacking(LocalFile(path))
    try:
        file.refuse_binary()
        is_empty = not file.reaches(1)
        if is_empty:
            print(f"{path}: no lines yet", file=sys.stderr)
        source = SourceInfo(
            str(path), zone=zone, clock_hint=file.changed_at(), as_printed=zone is None
        )
        reader = BlockReader(file, 0)
        found = iter(lambda: reader.next(final=True), None)
        batches = _batches(source, file.fingerprint(HEAD_BYTES)[:16], found)
        yield from batches if is_empty else _noted(batches, str(path))
    finally:
        file.close()


def write_file(path: Path, zone: str | None, form: str, out: BinaryIO) -> None:
    """Write the records of a file: of a log, of benchmark results, or of a log with results in it.

    As csv and parquet a log gives its samples, a file of results only these.
    """
    from parsers.bench import frames

    held = look(path)
    points = held.found.points if held.found else []
    results = frames.frame(frames.rows(points, str(path)))
    log = held.is_log or held.found is None
    if log:
        write(parse_file(path, zone), form, out)
    if form == "jsonl":
        for row in results.iter_rows(named=True):
            out.write(f"{_object('bench', row)}\n".encode())
    elif not log:
        out.write(export.render(results, form))


def parse_stream(fd: int, zone: str | None = None) -> Iterator[Batch]:
    """The records of a pipe, as its lines come."""
    source = SourceInfo("-", zone=zone, as_printed=zone is None)
    yield from _noted(_batches(source, "stdin", stdin.blocks(fd)), "standard input")


def _noted(batches: Iterable[Batch], name: str) -> Iterator[Batch]:
    """The same; where they hold no record of all, that is said at their end."""
    found = 0
    for batch in batches:
        found += batch.samples.height + batch.events.height + batch.requests.height
        yield batch
    if not found:
        print(f"{name}: no line of an SGLang or vLLM server was found", file=sys.stderr)


def _batches(source: SourceInfo, file_id: str, found: Iterable[Block]) -> Iterator[Batch]:
    pipeline = Pipeline(source, file_id)
    for block in found:
        if block.skipped:
            pipeline.skip(block.skipped)
        else:
            yield pipeline.feed(block.data)
    yield pipeline.finish()


def json_lines(batch: Batch) -> Iterator[str]:
    """Each record as one JSON object in the order of the file; what is missing is left out."""
    rows = [
        (row["byte_offset"], 1, _object(kind, row))
        for kind, frame in (
            ("sample", batch.samples),
            ("event", batch.events),
            ("request", batch.requests),
        )
        for row in frame.iter_rows(named=True)
    ]
    begins: dict[str, int] = {}
    for frame in (batch.samples, batch.events, batch.requests):
        for run_id, offset in frame.group_by("run_id").agg(pl.min("byte_offset")).iter_rows():
            begins[run_id] = min(offset, begins.get(run_id, offset))
    # Of what a block taught about a run the last row holds everything.
    facts = batch.run_facts.unique("run_id", keep="last", maintain_order=True).drop("seq")
    for row in facts.iter_rows(named=True):
        rows.append((begins.get(row["run_id"], -1), 0, _object("run", row)))
    rows.sort(key=lambda entry: entry[:2])
    return (text for _, _, text in rows)


def _object(kind: str, row: dict[str, Any]) -> str:
    known = {name: value for name, value in row.items() if value is not None}
    return json.dumps({"record": kind, **known}, default=_time, ensure_ascii=False)


def _time(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"no JSON for {type(value).__name__}")


def write(batches: Iterable[Batch], form: str, out: BinaryIO) -> None:
    """Write the records as they come: jsonl holds all, csv and parquet the samples."""
    if form == "parquet":
        samples = pl.concat([batch.samples for batch in batches])
        out.write(export.render(samples, "parquet"))
        return
    header = True
    for batch in batches:
        if form == "jsonl":
            out.write("".join(f"{line}\n" for line in json_lines(batch)).encode())
        elif header or batch.samples.height:
            text = export.render(batch.samples, "csv")
            out.write(text if header else text.split(b"\n", 1)[1])
            header = False
        out.flush()
