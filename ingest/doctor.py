"""What a log holds and what it lacks, told before anything of it is imported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ingest.blocks import BlockReader
from ingest.pipeline import Batch, Pipeline, SourceInfo
from ingest.sources.file import LocalFile
from parsers.lines import is_open

_SHAPES_SHOWN = 10


@dataclass(slots=True)
class RunSeen:
    """One run of the log; counts are of lines."""

    run_id: str
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    started_at: str | None = None
    end_state: str | None = None
    has_args: bool = False
    ranks_promised: int | None = None
    ranks_seen: int = 0  # DP ranks or engines that print samples
    samples: int = 0
    access: int = 0
    stats_interval_s: float | None = None  # vLLM: between stats lines
    decode_log_interval: int | None = None  # SGLang: decode steps between decode lines


@dataclass(slots=True)
class Report:
    """What `servescope doctor` says of a file."""

    file: str
    size_bytes: int
    encoding: str
    lines: int = 0
    wrapped: int = 0  # lines that carry the stamp of a container, collector or journal
    zone_offset_s: float | None = None  # printed clock ahead of UTC, by those stamps
    too_long: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)  # lines that begin like samples: shapes
    damaged: dict[str, int] = field(default_factory=dict)
    runs: list[RunSeen] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Seen:
    """Sums over the blocks of a file."""

    kinds: Counter[str] = field(default_factory=Counter)
    shapes: dict[str, Counter[str]] = field(default_factory=dict)  # unknown, damaged
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    ranks: set[tuple[str, int | None, int | None]] = field(default_factory=set)
    per_run: dict[str, Counter[str]] = field(default_factory=dict)
    intervals: list[pl.DataFrame] = field(default_factory=list)
    stats_off: set[str] = field(default_factory=set)
    access_of: str | None = None  # the engine that the form of the access lines shows

    def take(self, batch: Batch) -> None:
        """Add what one block holds."""
        samples = batch.samples
        for kind, n in samples.group_by(pl.col("kind").cast(pl.String)).len().iter_rows():
            self.kinds[kind] += n
        for name, frame in (("samples", samples), ("access", batch.access_counts)):
            size = pl.len() if name == "samples" else pl.col("n").sum()
            for run_id, n in frame.group_by("run_id").agg(size.alias("size")).iter_rows():
                self.per_run.setdefault(run_id, Counter())[name] += n
        self.kinds["access"] += int(batch.access_counts["n"].sum())
        self.kinds["requests"] += batch.requests.height
        own = batch.events.filter(~pl.col("kind").is_in(["client_error", "server_error"]))
        self.kinds["events"] += int(own["count"].sum())
        self.stats_off |= set(batch.events.filter(kind="stats_off")["run_id"])
        self.ranks |= set(samples.select("run_id", "dp_rank", "engine_index").unique().rows())
        self.intervals.append(
            samples.filter(kind="stats", interval_from="stamps").select("run_id", "interval_s")
        )
        for row in batch.run_facts.iter_rows(named=True):
            self.facts[row["run_id"]] = row
        for kind, shape, n in batch.ingest_log.select("kind", "shape", "n").iter_rows():
            self.shapes.setdefault(kind, Counter())[shape or ""] += n or 1

    def runs(self) -> Iterator[RunSeen]:
        """The runs in the order of the file."""
        every = pl.concat(self.intervals) if self.intervals else None
        for run_id, facts in self.facts.items():
            args = json.loads(facts["args"] or "{}")
            counts = self.per_run.get(run_id, Counter())
            own = every.filter(run_id=run_id)["interval_s"] if every is not None else pl.Series()
            middle = own.median()
            interval = args.get("decode_log_interval")
            started = facts["started_at"]
            yield RunSeen(
                run_id,
                facts["engine"] or self.access_of,
                facts["engine_version"],
                facts["model"],
                started.isoformat() if started else None,
                facts["end_state"],
                facts["args"] is not None,
                facts["dp"],
                len({r for r in self.ranks if r[0] == run_id}),
                counts["samples"],
                counts["access"],
                round(float(middle), 1) if isinstance(middle, int | float) else None,
                interval if isinstance(interval, int) else None,
            )


def examine(path: Path, zone: str | None = None) -> Report:
    """Read a whole log, store nothing."""
    with closing(LocalFile(path)) as file:
        file.refuse_binary()
        source = SourceInfo(str(path), zone=zone, clock_hint=file.changed_at())
        pipeline = Pipeline(source, "doctor")
        reader = BlockReader(file, 0)
        report, seen = Report(str(path), file.size(), "utf-8"), _Seen()
        while (block := reader.next(final=True)) is not None:
            if block.skipped:
                report.too_long += 1
                report.lines += 1
                pipeline.skip(block.skipped)
                continue
            pipeline.begin(block.data, pipeline.offset)
            scanned = pipeline.scan(block.data, pipeline.offset)
            # A last line without a newline is a line too.
            report.lines += scanned.lines + is_open(block.data, pipeline.encoding)
            if "wrap" in scanned.text.rest.columns:
                report.wrapped += scanned.text.rest.filter(pl.col("wrap").is_not_null())[
                    "no"
                ].n_unique()
            seen.access_of = seen.access_of or scanned.access.engine
            seen.take(pipeline.absorb(scanned))
        seen.take(pipeline.finish())
    report.encoding = pipeline.encoding or "utf-8"
    report.zone_offset_s = pipeline.zone_offset_s
    seen.kinds["other"] = max(0, report.lines - seen.kinds.total())
    report.kinds = {name: n for name, n in seen.kinds.most_common() if n}
    report.unknown = dict(seen.shapes.get("unknown", Counter()).most_common(_SHAPES_SHOWN))
    report.damaged = dict(seen.shapes.get("damaged", Counter()).most_common(_SHAPES_SHOWN))
    report.runs = list(seen.runs())
    report.advice = [*_advice(report, seen, zone)]
    return report


def _advice(report: Report, seen: _Seen, zone: str | None) -> Iterator[str]:
    """What is missing, and the switch that most likely causes it."""
    if not report.runs:
        yield "No line of an SGLang or vLLM server is in this file."
        return
    for number, run in enumerate(report.runs, 1):
        for line in _of_run(run, run.run_id in seen.stats_off):
            yield f"Run {number}: {line}" if len(report.runs) > 1 else line
    if report.unknown:
        yield (
            f"{sum(report.unknown.values())} lines begin like samples of no release that is known: "
            "they are counted, not read."
        )
    if report.damaged:
        yield (
            f"Lines that are torn: {sum(report.damaged.values())}. What is certain of them is "
            "kept. Two processes that write to one file without line buffering tear lines."
        )
    if report.too_long:
        yield f"Lines longer than 1 MiB, which are skipped: {report.too_long}."
    if zone is None and report.zone_offset_s is None:
        yield "The stamps name no time zone and are taken as UTC; --zone says which one it is."


def _of_run(run: RunSeen, stats_off: bool) -> Iterator[str]:
    if not run.samples:
        yield _no_samples(run, stats_off)
    elif stats_off:
        yield "Several API servers switched the stats lines off; what there is comes from before."
    if not run.has_args:
        yield (
            "The server's arguments are not in the log: it begins later than the server, or an "
            "older part was rotated away. Model, ranks and caps stay unknown."
        )
    promised = run.ranks_promised or 1
    if run.samples and run.ranks_seen < promised:
        yield (
            f"{run.ranks_seen} of {promised} DP ranks print samples: sums over ranks are partial. "
            "The others write to another node's or process's log."
        )


def _no_samples(run: RunSeen, stats_off: bool) -> str:
    what = "Only access lines" if run.access else "No periodic lines"
    if stats_off:
        return (
            f"{what}: several API servers switched the stats lines off; start one "
            "(--api-server-count 1) to have them."
        )
    switches = {
        "sglang": "--log-level is above info (batch lines are printed at info)",
        "vllm": "--disable-log-stats is set, or VLLM_LOGGING_LEVEL is above INFO",
    }
    either = "; ".join(switches.values())
    return f"{what}: most likely {switches.get(run.engine or '', either)}."


def as_text(report: Report) -> str:
    """The report as lines to read."""
    return "\n".join(_text_lines(report)) + "\n"


def _text_lines(report: Report) -> Iterator[str]:
    yield f"{report.file}: {report.size_bytes} bytes, {report.lines} lines, {report.encoding}"
    if report.wrapped:
        yield f"wrapped lines with a stamp: {report.wrapped}"
    if report.zone_offset_s is not None:
        yield f"the printed clock is {report.zone_offset_s / 3600:+.2f} h ahead of UTC"
    for number, run in enumerate(report.runs, 1):
        version = f" {run.engine_version}" if run.engine_version else ""
        yield (
            f"run {number}: {run.engine or 'unknown engine'}{version}, {run.model or 'no model'}, "
            f"from {run.started_at or 'unknown'}, {run.end_state}: {run.samples} samples "
            f"(ranks: {run.ranks_seen}), {run.access} access lines"
        )
        if run.stats_interval_s is not None:
            yield f"  stats every {run.stats_interval_s:g} s"
        if run.decode_log_interval is not None:
            yield f"  a decode line every {run.decode_log_interval} steps"
    named = ", ".join(f"{name} {n}" for name, n in report.kinds.items())
    yield f"lines by kind: {named or 'none'}"
    for name, shapes in (("unknown", report.unknown), ("damaged", report.damaged)):
        for shape, n in shapes.items():
            yield f"{name}, {n} times: {shape[:160]}"
    for line in report.advice:
        yield f"- {line}"


def as_json(report: Report) -> str:
    """The report as one JSON object."""
    return json.dumps(asdict(report), ensure_ascii=False, indent=2) + "\n"
