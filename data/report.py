"""A comparison as sections of sentences and tables, and its forms: text, Markdown, JSON, rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from data.compare import Comparison, Measured, Pair, Point, Summary
from data.configs import UNKNOWN, shown
from data.export import harmless, markdown, table
from data.intervals import Interval
from data.names import escaped, printable
from data.speculation import WORTHWHILE, Economics, at_count

FORMS = ("text", "md", "json", "csv")
_MAX_SETTINGS = 60
ROWS: dict[str, pl.DataType] = {
    "baseline": pl.String(),
    "label": pl.String(),
    "source": pl.String(),  # log, log_combined, benchmark
    "running_reqs": pl.Int64(),
    "concurrency": pl.Float64(),
    "request_rate_rps": pl.Float64(),
    "graph": pl.String(),
    "base_tok_s": pl.Float64(),
    "tok_s": pl.Float64(),
    "ratio": pl.Float64(),
    "difference_tok_s": pl.Float64(),
    "ratio_low": pl.Float64(),
    "ratio_high": pl.Float64(),
    "interval": pl.String(),
    "base_steady_s": pl.Float64(),
    "steady_s": pl.Float64(),
    "base_windows": pl.Int64(),
    "windows": pl.Int64(),
    "accept_len": pl.Float64(),
    "step_cost": pl.Float64(),
    "note": pl.String(),
}


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with sentences and maybe tables."""

    title: str
    level: int
    sentences: list[str] = field(default_factory=list)
    tables: list[pl.DataFrame] = field(default_factory=list)


def render(comparison: Comparison, form: str) -> str:
    """The comparison in one of FORMS."""
    if form == "json":
        return json.dumps(as_dict(comparison), default=str, ensure_ascii=False, indent=2) + "\n"
    if form == "csv":
        return harmless(rows(comparison)).write_csv()
    found = sections(comparison)
    return "\n".join(_text(part) if form == "text" else _markdown(part) for part in found)


def _text(part: Section) -> str:
    rule = ("=" if part.level == 1 else "-") * len(part.title)
    lines = [part.title, rule, *part.sentences, *(table(frame) for frame in part.tables)]
    return printable("\n".join(lines).rstrip("\n"), kept="\n") + "\n"


def _markdown(part: Section) -> str:
    blocks = [f"{'#' * part.level} {part.title}", *map(escaped, part.sentences)]
    blocks += [markdown(_harmless(frame)).rstrip("\n") for frame in part.tables]
    return "\n\n".join(blocks) + "\n"


def _harmless(frame: pl.DataFrame) -> pl.DataFrame:
    """No cell starts a formula; a negative number, which is text here, is none."""
    numbers = (pl.col(pl.String).str.contains(r"^-[0-9][0-9,]*(?:\.[0-9]+)?$")).name.keep()
    kept = frame.select(numbers)
    safe = harmless(frame)
    return safe.with_columns(
        pl.when(kept[name]).then(frame[name]).otherwise(safe[name]).alias(name)
        for name in kept.columns
    )


def sections(comparison: Comparison) -> list[Section]:
    """Everything there is to say, in reading order."""
    first = Section(
        f"Baseline {comparison.summaries[0].label}", 1, list(comparison.notes),
        [_summaries(comparison.summaries)],
    )  # fmt: skip
    notes = [s for s in comparison.summaries if s.accept_note]
    first.sentences.extend(f"{s.label}: {s.accept_note}." for s in notes)
    return [first, *(part for pair in comparison.pairs for part in _pair(pair))]


def _number(value: float | None, digits: int = 1) -> str | None:
    return None if value is None else f"{value:,.{digits}f}"


def _measured(rate: Measured) -> str:
    if rate.value is None:
        return rate.note.partition(":")[0]
    return f"{rate.value:,.1f}" + (f" ({rate.note})" if rate.note else "")


def _summaries(summaries: Sequence[Summary]) -> pl.DataFrame:
    """One column a configuration, one row a number."""
    lines: list[tuple[str, Any]] = [
        ("engine", lambda s: " ".join(filter(None, (s.engine, s.engine_version)))),
        ("model", lambda s: s.model),
        ("starts", lambda s: str(s.starts)),
        ("single stream, tok/s", lambda s: _measured(s.rates["single_stream_tok_s"])),
        ("decode at 1 request, tok/s", lambda s: _measured(s.rates["decode_tok_s_at_1"])),
        ("peak of the log, tok/s", lambda s: _measured(s.rates["peak_log_tok_s"])),
        ("best benchmark point, tok/s", lambda s: _measured(s.rates["best_point_tok_s"])),
        ("accept_len, tokens", lambda s: _number(s.accept_len, 2)),
        ("accept rate as printed", lambda s: _number(s.accept_rate_raw, 2)),
        ("accept rate, strict", lambda s: _number(s.draft_accept_rate, 2)),
        ("max_running_requests", lambda s: shown(s.max_running_requests, UNKNOWN)),
    ]
    columns = {"": [name for name, _ in lines]}
    columns |= {s.label: [text(s) for _, text in lines] for s in summaries}
    made = pl.DataFrame(columns)
    return made.filter(pl.any_horizontal(pl.all().exclude("").is_not_null()))


def _pair(pair: Pair) -> Iterable[Section]:
    yield Section(f"{pair.label} against {pair.base_label}", 1, [pair.verdict])
    if pair.match is not None:
        match = pair.match
        told = [
            f"With common weights {match.tok_s:,.1f} against {match.base_tok_s:,.1f} tok/s a rank: "
            f"ratio {match.ratio:.3f}, difference {match.difference_tok_s:+,.1f} tok/s; "
            f"{match.interval or match.interval_note}.",
            *(note[0].upper() + note[1:] + "." for note in match.notes),
        ]
        yield Section("At equal running counts, from the logs", 2, told, [_cells(pair)])
    else:
        yield Section("At equal running counts, from the logs", 2, [pair.no_match + "."])
    if pair.points:
        yield Section("At equal concurrency, from the benchmarks", 2, [], [_points(pair.points)])
    if pair.economics or pair.no_economics:
        yield _speculation(pair)
    yield _settings(pair)


def _cells(pair: Pair) -> pl.DataFrame:
    assert pair.match is not None
    return pl.DataFrame([
        {
            "running": cell.running,
            "graph": cell.graph + (f" ({cell.capture})" if cell.capture else ""),
            "base tok/s": _number(cell.base_tok_s), "tok/s": _number(cell.tok_s),
            "ratio": _number(cell.ratio, 3), "difference": _number(cell.tok_s - cell.base_tok_s),
            "base windows": cell.base_windows, "windows": cell.windows,
            "base KV tokens/request": _number(cell.base_kv_per_req, 0),
            "KV tokens/request": _number(cell.kv_per_req, 0),
        }
        for cell in pair.match.cells
    ])  # fmt: skip


def _points(points: Sequence[Point]) -> pl.DataFrame:
    return pl.DataFrame([
        {
            "load": _load(point),
            "base tok/s": _number(point.base["output_tok_s"]),
            "tok/s": _number(point.other["output_tok_s"]),
            "ratio": _number(point.ratio, 3), "difference": _number(point.difference_tok_s),
            "base TTFT ms": _number(point.base["ttft_ms_median"]),
            "TTFT ms": _number(point.other["ttft_ms_median"]),
            "base TPOT ms": _number(point.base["tpot_ms_median"], 2),
            "TPOT ms": _number(point.other["tpot_ms_median"], 2),
            "interval": "; ".join(filter(None, (_range(point.interval), point.note))),
        }
        for point in points
    ])  # fmt: skip


def _load(point: Point) -> str:
    parts = []
    if point.concurrency is not None:
        parts.append(f"{point.concurrency:g} at once")
    if point.request_rate is not None:
        parts.append(f"{point.request_rate:g} requests/s")
    return ", ".join(parts)


def _range(interval: Interval | None) -> str:
    return f"{interval.low:.2f} to {interval.high:.2f} {interval.kind}" if interval else ""


def _speculation(pair: Pair) -> Section:
    if pair.no_economics:
        return Section("What speculation costs and yields", 2, [pair.no_economics + "."])
    told = [text for row in pair.economics for text in _economics(row)]
    positions = next((row.yields for row in pair.economics if row.yields), ())
    tables = []
    if positions:
        tables.append(pl.DataFrame([
            {"draft tokens": k, "yields tokens a step": _number(y, 2),
             "pays while a step costs less than": f"{y:.2f} plain steps"}
            for k, y in enumerate(positions, 1)
        ]))  # fmt: skip
    return Section("What speculation costs and yields", 2, told, tables)


def _economics(row: Economics) -> list[str]:
    if row.cost is None or row.refused:
        return [row.sentence]
    at = at_count(row.running)
    sure = f" ({row.cost_interval})" if row.cost_interval else ""
    return [
        row.sentence,
        f"Break-even accept_len {at}: {row.cost:.2f}{sure}; {row.worthwhile_len:.2f} for "
        f"{WORTHWHILE} times the base. One step takes {row.step_ms:.2f} ms.",
    ]


def _settings(pair: Pair) -> Section:
    told = [pair.lowered_cap.sentence + "."] if pair.lowered_cap else []
    if not pair.differences:
        return Section("Settings that differ", 2, [*told, "None that the logs tell."])
    listed = pl.DataFrame([
        {"setting": row.name, pair.base_label: row.text(0), pair.label: row.text(1)}
        for row in pair.differences[:_MAX_SETTINGS]
    ])  # fmt: skip
    if len(pair.differences) > _MAX_SETTINGS:
        told.append(f"{len(pair.differences)} settings differ; these are the first.")
    return Section("Settings that differ", 2, told, [listed])


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON holds it: numbers unrounded, times and runs by id."""
    return {
        "baseline": comparison.summaries[0].label,
        "summaries": [asdict(summary) for summary in comparison.summaries],
        "pairs": [
            {
                "label": pair.label,
                "verdict": pair.verdict,
                "equal_running_counts": asdict(pair.match) if pair.match else None,
                "not_comparable": pair.no_match or None,
                "equal_concurrency": [asdict(point) for point in pair.points],
                "speculation": [
                    asdict(row) | {"sentence": row.sentence} for row in pair.economics
                ],
                "no_speculation_comparison": pair.no_economics or None,
                "lowered_cap": asdict(pair.lowered_cap) | {"sentence": pair.lowered_cap.sentence}
                if pair.lowered_cap else None,
                "settings": [
                    {"name": row.name, "speculation": row.speculation, "values": {
                        label: asdict(setting) for label, setting
                        in zip((pair.base_label, pair.label), row.settings, strict=True)
                    }}
                    for row in pair.differences
                ],
            }
            for pair in comparison.pairs
        ],
        "notes": list(comparison.notes),
    }  # fmt: skip


def rows(comparison: Comparison) -> pl.DataFrame:
    """The comparison as one table: a row per running count, combination and benchmark point."""
    found = [row for pair in comparison.pairs for row in _rows(pair)]
    return pl.DataFrame([{name: row.get(name) for name in ROWS} for row in found], schema=ROWS)


def _rows(pair: Pair) -> Iterable[dict[str, Any]]:
    known = {"baseline": pair.base_label, "label": pair.label}
    if pair.match is not None:
        match = pair.match
        yield known | {
            "source": "log_combined", "base_tok_s": match.base_tok_s, "tok_s": match.tok_s,
            "ratio": match.ratio, "difference_tok_s": match.difference_tok_s,
            "note": match.interval_note or None, **_bounds(match.interval),
        }  # fmt: skip
    economics = {row.running: row for row in pair.economics if not row.refused}
    for cell in pair.match.cells if pair.match else ():
        row = economics.get(cell.running)
        yield known | {
            "source": "log", "running_reqs": cell.running, "graph": cell.graph,
            "base_tok_s": cell.base_tok_s, "tok_s": cell.tok_s, "ratio": cell.ratio,
            "difference_tok_s": cell.tok_s - cell.base_tok_s, "base_steady_s": cell.base_s,
            "steady_s": cell.seconds, "base_windows": cell.base_windows, "windows": cell.windows,
            "accept_len": row.accept_len if row else None, "step_cost": row.cost if row else None,
        }  # fmt: skip
    for point in pair.points:
        yield known | {
            "source": "benchmark", "concurrency": point.concurrency,
            "request_rate_rps": point.request_rate, "base_tok_s": point.base["output_tok_s"],
            "tok_s": point.other["output_tok_s"], "ratio": point.ratio,
            "difference_tok_s": point.difference_tok_s, "note": point.note or None,
            **_bounds(point.interval),
        }  # fmt: skip


def _bounds(interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return {}
    return {"ratio_low": interval.low, "ratio_high": interval.high, "interval": interval.kind}
