"""Hold the parser against a folder of example lines with known values.

    python -m tests.check_formats FOLDER [--show KIND]

FOLDER/NAME_examples.jsonl has one object a line: version, kind, line, fields. Each line goes
through the pipeline alone; what its fields say must stand in the record that the line becomes,
and no line may be told as unknown. Every mismatch is one line; the exit code is 1 when there is
any. Lines of benchmarks are no log lines and only must not become samples or faults.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ingest.pipeline import Batch, Pipeline, SourceInfo
from tests.format_names import (
    COLUMNS,
    EVENT_NAMES,
    EXTRA,
    IN_ARGS,
    KINDS,
    NO_RECORD,
    REQUEST_COLUMNS,
    REQUEST_EVENTS,
    RUN_COLUMNS,
    SKIPPED,
    TITLES,
)
from tests.logs import one

Fields = dict[str, Any]
SAMPLE_KINDS = ("decode", "prefill", "stats", "spec")
_MISSING = object()


@dataclass(frozen=True)
class Records:
    """What one line became, the latest row of each table."""

    samples: list[Fields]
    events: list[Fields]
    requests: list[Fields]
    access: list[Fields]
    log: list[Fields]
    run: Fields
    text: str

    @classmethod
    def of(cls, line: str) -> Records:
        """The records of a file that holds only this line."""
        source = SourceInfo("check", clock_hint=datetime(2026, 12, 20))
        pipeline = Pipeline(source, "file")
        batch = one([pipeline.feed(line.encode() + b"\n"), pipeline.finish()])
        run = dict(batch.run_facts.rows(named=True)[-1]) if batch.run_facts.height else {}
        for name in ("args", "effective"):
            run[name] = json.loads(run.get(name) or "{}")
        return cls(
            _rows(batch, "samples"),
            _rows(batch, "events"),
            _rows(batch, "requests"),
            _rows(batch, "access_counts"),
            _rows(batch, "ingest_log"),
            run,
            "".join(getattr(batch, name).write_json() for name in Batch.__dataclass_fields__),
        )


def _rows(batch: Batch, name: str) -> list[Fields]:
    rows = getattr(batch, name).rows(named=True)
    return [
        {k: json.loads(v) if k in ("extra", "data") and v else v for k, v in row.items()}
        for row in rows
    ]


def differences(example: Fields) -> Iterator[str]:
    """How the records of an example's line differ from its fields."""
    kind, fields = example["kind"], example["fields"]
    got = Records.of(example["line"])
    if got.log:
        yield f"told as {got.log[0]['kind']}: {got.log[0]['shape']}"
    if kind == "bench":
        if any(s["kind"] in SAMPLE_KINDS for s in got.samples) or _faults(got):
            yield "a benchmark's line became a sample or a fault"
        return
    if kind == "benign" and _faults(got):
        yield f"benign, but a fault: {got.events[0]['title']}"
    if kind in ("benign", "router") and not (got.samples or got.events or got.requests):
        return  # known, and no record
    if kind == "fault" and not got.events and "request_id" not in fields:
        yield "no event"
    if kind in SAMPLE_KINDS and not got.samples and not NO_RECORD & fields.keys():
        yield f"no sample of kind {kind}"
    if fields.get("prompt_present") and "Hello" in got.text:
        yield "the prompt is stored"
    for name, value in fields.items():
        if "http_status" in fields and name == "ts_local":
            continue  # counted by the minute
        if name in SKIPPED or NO_RECORD & fields.keys():
            continue
        found = list(_found(name, got))
        if not any(_same(one_value, value) for one_value in found):
            yield f"{name}: expected {value!r}, got {found}"


def _faults(got: Records) -> bool:
    return any(event["severity"] == "fault" for event in got.events)


def _found(name: str, got: Records) -> Iterator[Any]:
    """Every value under which the records may hold this field."""
    if name in ("ts_local", "ts_local_time_only", "time_mmdd_hms", "ts_local_or_utc"):
        yield from (_clock(row["ts"]) for row in (*got.samples, *got.events, *got.requests))
        if not (got.samples or got.events or got.requests):
            yield None
        return
    if name in TITLES:
        titles = TITLES[name]
        yield from (titles.get(e["title"]) or KINDS.get(e["kind"]) for e in got.events)
    for sample in got.samples:
        yield from _in_sample(name, sample)
    for event in got.events:
        yield from _in_event(name, event)
    for request in got.requests:
        yield from _in_request(name, request)
    for row in got.access:
        yield row.get({"http_status": "status"}.get(name, name))
    yield from _in_run(name, got.run)


def _clock(ts: datetime | None) -> str | None:
    return ts.isoformat(timespec="milliseconds") if ts else None


def _in_sample(name: str, sample: Fields) -> Iterator[Any]:
    column, factor = COLUMNS.get(name, (name, 1.0))
    if column in sample:
        value = sample[column]
        yield round(value * factor, 6) if isinstance(value, float) and factor != 1 else value
    extra = sample["extra"] or {}
    yield from (extra[label] for label in EXTRA.get(name, (name,)) if label in extra)
    if name.startswith("est_uncapped"):
        at = {"_tokens": 0, "lo_tokens": 1, "hi_tokens": 2}
        numbers = [float(n) for n in re.findall(r"[0-9.]+", str(extra.get("est uncap acc len")))]
        yield numbers[max(i for end, i in at.items() if name.endswith(end))]
    if name.startswith("kv_fetch_"):
        numbers = [float(n) for n in re.findall("[0-9]+", str(extra.get("KV fetch")))]
        order = ("not_started", "in_progress", "done_waiting")
        yield numbers[next(i for i, word in enumerate(order) if word in name)]
    if name == "event" and "running_rids" in extra:
        yield "scheduler_status"
    if name == "kv_transfer":
        yield extra


def _in_event(name: str, event: Fields) -> Iterator[Any]:
    data = event["data"] or {}
    for key in EVENT_NAMES.get(name, (name,)):
        yield from (place[key] for place in (event, data) if place.get(key) is not None)
    if name.endswith("_rank") and "rank" in data:
        ranks = dict(re.findall(r"([A-Z_]+)([0-9]+)", data["rank"]))
        yield int(ranks.get(name[: -len("_rank")].upper(), -1))


def _in_request(name: str, request: Fields) -> Iterator[Any]:
    column, factor = REQUEST_COLUMNS.get(name, (name, 1.0))
    value = request.get(column)
    if value is not None:
        yield value * factor if factor != 1 else value
    if name.endswith("_rank"):
        yield from (int(n) for n in re.findall("[0-9]+", (request["extra"] or {}).get("rank", "")))
    if name == "event":
        yield REQUEST_EVENTS.get((request["event"], request["finish_reason"]), request["event"])
    if name == "request_ids":
        yield [request["request_id"]]
    extra = request["extra"] or {}
    yield from (extra[label] for label in EXTRA.get(name, (name,)) if label in extra)


def _in_run(name: str, run: Fields) -> Iterator[Any]:
    yield run.get(RUN_COLUMNS.get(name, name))
    for place in (run["args"], run["effective"]):
        value: Any = place
        for key in IN_ARGS.get(name, (name,)):
            value = value.get(key, _MISSING) if isinstance(value, dict) else _MISSING
        if value is not _MISSING:
            yield value
    if name == "args":
        yield run["args"]
    if name == "secret_keys":
        yield [key for key, value in run["args"].items() if "redacted" in str(value)]


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            _same(found.get(key), value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(
            _same(a, b) for a, b in zip(found, expected, strict=True)
        )  # fmt: skip
    if isinstance(expected, bool) or expected is None or found is None:
        return found is expected or (expected is True and found == "(dummy)")
    if isinstance(expected, int | float):
        if isinstance(found, bool):
            return False
        number = re.match(r"-?[0-9.]+(?:e-?[0-9]+)?", str(found))
        return number is not None and abs(float(number[0]) - expected) <= 1e-6 * max(1, expected)
    if re.search(r"redacted|\*\*\*", expected, re.IGNORECASE):
        return bool(re.search(r"redacted|\*\*\*", str(found), re.IGNORECASE))
    text, wanted = str(found), expected.replace(" ", "T")
    return text in (expected, wanted) or bool(
        re.match(r"(?:[0-9]{4}-)?[0-9:T-]+", text) and wanted[-8:] in text and wanted in text
    )


def main() -> int:
    """Check a folder; 1 on any mismatch."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="holds NAME_examples.jsonl")
    options = parser.parse_args()
    files = sorted(options.folder.glob("*_examples.jsonl"))
    if not files:
        parser.error(f"{options.folder} holds no NAME_examples.jsonl")
    wrong: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for path in files:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            example = json.loads(line)
            kind = f"{path.name.partition('_')[0]} {example['kind']}"
            seen[kind] += 1
            lines = list(differences(example))
            wrong[kind] += bool(lines)
            for text in lines:
                print(f"{path.name}:{number} ({example['version']}): {text}")
    for kind, n in seen.items():
        print(f"{kind}: {n - wrong[kind]} of {n} right")
    return 1 if wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
