"""Chooses the reader of a benchmark file by what the file holds, never by its name."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parsers.bench import (
    aiperf,
    guidellm,
    inference_perf,
    oddities,
    prose,
    pytorch,
    serving_json,
    serving_text,
    sglang_batch,
    tables,
    vllm_offline,
)
from parsers.bench.columns import Maps
from parsers.bench.points import Found, Point
from parsers.bench.sniff import is_server_log
from parsers.records import LATENCIES
from parsers.server_args import redact_text

_TITLE = re.compile(r"(?:Serving|Offline Throughput) Benchmark Result")
_HEAD = 1 << 16
_DOCUMENT = re.compile(r"\{|\[\s*[\[{\]]")  # SGLang's lines begin with a bracket and a stamp


HAND_MAX = 1 << 20  # characters that a hand or a private script has written
_MEASURES = re.compile(
    r"(?i)tok|ttft|tpot|\bitl|e2e|accept|latency|throughput|tps\b|req/s|rps\b|qps\b|\|"
)
# What the text of each reader holds in any case.
_OFFLINE = (
    (("Throughput: ", "Avg latency: "), vllm_offline.points),
    (("latency: ",), sglang_batch.points),
)


class NoJson(ValueError):
    """A document is cut off or damaged; the text says where."""


def read(text: str, maps: Maps | None = None) -> Found | None:
    """What a benchmark tool, a script or a hand wrote; None if there is no result in the text.

    Args:
        text: the whole file.
        maps: what the user said of headers that are not known: name of ours and unit.

    Raises:
        NoJson: a document of a benchmark tool is cut off or damaged.
    """
    text = text.removeprefix("\ufeff")
    start = text.lstrip()
    try:
        found = _json(start) if _DOCUMENT.match(start) else _plain(text, maps)
    except csv.Error as error:
        raise NoJson(f"is damaged ({error})") from error
    except OverflowError as error:
        raise NoJson("is damaged (a number in it is beyond what a benchmark measures)") from error
    except RecursionError as error:
        raise NoJson("is nested too deeply") from error
    if found is None:
        return None
    oddities.mark(found.points)
    return replace(found, unread=list(map(redact_text, found.unread)))


def _plain(text: str, maps: Maps | None) -> Found | None:
    if guidellm.is_csv(text):
        return guidellm.read_csv(text)
    if aiperf.is_csv(text):
        return aiperf.read_csv(text)
    points = serving_text.points(text) if _TITLE.search(text) else []
    if points:
        return Found(f"{_tools(points)}, text", points)
    if is_server_log(text):
        return None
    for words, reader in _OFFLINE:
        if any(word in text for word in words) and (points := reader(text)):
            return Found(f"{_tools(points)}, text", points)
    if (sweep := _sweep_csv(text)) is not None:
        return sweep
    if len(text) > HAND_MAX or not (maps or _MEASURES.search(text)):
        return None
    found = tables.read(text, maps)
    lines = prose.read(text) if not found.points else Found("", [])
    if found.points or (found.unread and not lines.points):
        return found
    return lines if lines.points else None


def _sweep_csv(text: str) -> Found | None:
    """`summary.csv` of `vllm bench sweep`: its columns are the keys of the JSON results."""
    header = text.split("\n", 1)[0]
    if "," not in header or "mean_ttft_ms" not in header:
        return None
    rows = csv.DictReader(io.StringIO(text))
    points = [point for row in rows if (point := serving_json.point(_cells(row))) is not None]
    return Found(f"{_tools(points)}, CSV", points) if points else None


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a CSV as the values they stand for; empty ones left out."""
    cells: dict[str, Any] = {}
    for name, text in row.items():
        if name and isinstance(text, str) and text not in ("", "nan"):
            try:
                cells[name] = json.loads(text)
            except ValueError:
                cells[name] = text
    return cells


def _json(text: str) -> Found | None:
    decoder = json.JSONDecoder()
    documents: list[Any] = []
    notes: list[str] = []
    at = 0
    while at < len(text):
        try:
            document, end = decoder.raw_decode(text, at)
        except ValueError as error:
            if not documents and not _names_a_tool(text):
                return None
            if not any(_of(document) for document in documents):
                raise NoJson(_where(text, error)) from error
            notes.append(f"result {len(documents) + 1} is cut off or damaged and was left out")
            break
        except RecursionError as error:
            raise NoJson("is nested too deeply") from error
        if not documents and not _of(document) and _is_line(text, at, end):
            return None  # a log in JSON, record by record
        documents.append(document)
        at = _skip_blanks(text, end)
    found = [one for document in documents if (one := _of(document)) is not None]
    if not found:
        return None
    points = [point for one in found for point in one.points]
    formats = " and ".join(dict.fromkeys(one.format for one in found))
    return Found(
        formats.replace("JSON", "JSON lines") if len(found) > 1 else formats, points, notes=notes
    )


def _is_line(text: str, at: int, end: int) -> bool:
    return "\n" not in text[at:end] and _skip_blanks(text, end) < len(text)


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _names_a_tool(text: str) -> bool:
    """Whether a document that cannot be read begins like a result."""
    head = text[:_HEAD]
    return (
        re.search(
            r'"(?:guidellm_version|aiperf_version|request_throughput|output_throughput'
            r"|mean_ttft_ms|median_ttft|avg_latency|tokens_per_second|successes|load_summary"
            r'|random_range_ratio|max_concurrency|benchmarks|tput_per_gpu|benchmark_values)"',
            head,
        )
        is not None
    )


def _where(text: str, error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        cut = error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg
        place = f"line {error.lineno} column {error.colno}"
        return f"is cut off at {place}" if cut else f"is damaged at {place} ({error.msg})"
    return "is damaged"


def _of(document: Any) -> Found | None:
    """What one JSON document holds."""
    if guidellm.is_report(document):
        return guidellm.read_json(document)
    if aiperf.is_report(document):
        return aiperf.read_json(document)
    if inference_perf.is_report(document):
        return inference_perf.read_json(document)
    if pytorch.is_records(document):
        points = pytorch.points(document)
        return Found(f"{_tools(points)}, PyTorch JSON", points) if points else None
    rows = document if isinstance(document, list) else [document]
    points = [
        point for row in rows if isinstance(row, Mapping) and (point := _row(row)) is not None
    ]
    return Found(f"{_tools(points)}, JSON", points) if points else None


def _row(row: Mapping[str, Any]) -> Point | None:
    for reader in (serving_json.point, vllm_offline.point, sglang_batch.point):
        if (point := reader(row)) is not None and is_measured(point):
            return point
    return None


def is_measured(point: Point) -> bool:
    """Whether a point has a result at all."""
    return any(
        name.endswith(("tok_s", "_rps")) or name.startswith(tuple(f"{m}_ms" for m in LATENCIES))
        for name in point
    )


def _tools(points: list[Point]) -> str:
    return " and ".join(dict.fromkeys(str(point["tool"]) for point in points))
