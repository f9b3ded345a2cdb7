"""Rows of what single lines say: requests, and lines that could not be read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl

from data.moment import utc_now
from ingest.runs import Run
from parsers import records
from parsers import requests as request_lines
from parsers.block_text import Text
from parsers.keyvalue import shape
from parsers.lines import any_of, holding
from parsers.requests import Request
from parsers.samples import Damaged
from parsers.server_args import redact_text

_ANY_GATE = any_of(tuple(request_lines.GATES))
_ACCESS_BYTES = 300  # a longer line may be a request whose text holds an access line
_SHAPE_CHARS = 300


def find_requests(text: Text) -> tuple[list[Request], Text]:
    """Per-request lines of a block, and the block with them as no access lines: whatever their
    texts hold."""
    rest = text.rest
    others = ~rest["sample"]
    if rest["access"].any():
        others &= ~rest["access"] | (rest["line"].str.len_bytes() > _ACCESS_BYTES)
    if not others.any():
        return [], text
    asked = holding(rest, others, _ANY_GATE)
    found = request_lines.read(asked) if asked.height else []
    if found:
        read = pl.col("no").is_in({request.no for request in found})
        text = replace(text, rest=rest.with_columns(access=pl.col("access") & ~read))
    return found, text


def requests(
    place: Mapping[str, str],
    asked: Sequence[Request],
    times: Sequence[datetime | None],
    starts: Sequence[tuple[int, Run]],
) -> pl.DataFrame:
    """Per-request lines with their times, in the runs that begin at `starts`."""
    rows = []
    for request, ts in zip(asked, times, strict=True):
        run = [run for start, run in starts if start <= request.off][-1]
        run.engine = run.engine or request.engine
        run.saw(request.off, ts)
        rows.append(
            {
                "run_id": run.run_id,
                **place,
                "byte_offset": request.off,
                "line_no": request.no,
                "ts": ts,
                "event": request.event,
                "extra": json.dumps(request.extra) if request.extra else None,
                **request.fields,
            }
        )
    return records.frame(rows, records.REQUESTS)


def damaged(place: Mapping[str, str], lines: Sequence[Damaged]) -> pl.DataFrame:
    """Lines that could not be read: one row a shape, where it came first, and how often."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    now = utc_now()
    for line in sorted(lines, key=lambda line: line.off):
        form = shape(redact_text(line.text[:_SHAPE_CHARS]))
        row = {**place, "byte_offset": line.off, "at": now, "n": 0}
        rows.setdefault((line.kind, form), row | {"kind": line.kind, "shape": form})["n"] += 1
    return records.frame(rows.values(), records.INGEST_LOG)
