"""Benchmark results in words and tables for the screen and for files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import polars as pl

from data.errors import CommandError
from data.export import render, table

NOTHING = "no benchmark results yet; `servescope import FILE` brings some"


def rendered(points: pl.DataFrame, form: str) -> bytes:
    """The points for the screen (`text`), for pasting (`md`), or whole (`csv`, `json`)."""
    if form in ("csv", "json"):
        return render(points, form)
    if points.is_empty():
        return f"{NOTHING}\n".encode()
    shown = overview(points)
    if form == "md":
        return render(shown, "md")
    lines = [f"{name}: {said}" for name, said in all_doubts(points)]
    return (table(shown) + "".join(f"{line}\n" for line in ["", *lines] if lines)).encode()


def overview(points: pl.DataFrame) -> pl.DataFrame:
    """The columns that a person compares, one row a point; those without a value are left out."""
    rounded = {
        "rate": ("request_rate", 2), "output_tok_s": ("output_tok_s", 1),
        "peak_tok_s": ("peak_output_tok_s", 1),
        "ttft_ms_p50": ("ttft_ms_median", 1), "ttft_ms_p99": ("ttft_ms_p99", 1),
        "tpot_ms_p50": ("tpot_ms_median", 2), "accept_len": ("accept_len", 2),
        "server_running": ("server_running_reqs", 1), "server_queued": ("server_queued_reqs", 1),
        "server_accept_len": ("server_accept_len", 2),
        "log_minus_client": ("token_difference", 0), "allowed": ("allowed_tokens", 0),
    }  # fmt: skip
    shown = points.select(
        point=pl.Series(point_names(points), dtype=pl.String),
        tool="tool",
        conc=pl.col("concurrency").cast(pl.Int64),
        requests="completed",
        failed="failed",
        **{name: pl.col(column).round(digits) for name, (column, digits) in rounded.items()},
        run=pl.coalesce("run_label", pl.col("run_id").str.head(12)),
        joined="join_method",
        odd=odd_count(),
    )
    return shown.select(
        name for name in shown.columns if name in ("point", "odd") or shown[name].count()
    )


def point_names(points: pl.DataFrame) -> list[str]:
    """What the points are called where they stand together: each file with as many of its folders
    as tell it from the others.
    """
    paths = {PurePath(path) for path in points["bench_file"].drop_nulls()}
    ends = Counter(path.parts[-n:] for path in paths for n in range(1, len(path.parts) + 1))

    def depth(path: PurePath) -> int:
        return next((n for n in range(1, len(path.parts)) if ends[path.parts[-n:]] == 1), 0)

    rows = points.iter_rows(named=True)
    return [point_name(row, depth(PurePath(row["bench_file"] or ""))) for row in rows]


def point_name(row: Mapping[str, Any], depth: int = 1) -> str:
    """What a point is called: its label, so many parts of its file's path (0: all of them) and, of
    several, its place.
    """
    path = PurePath(row["bench_file"] or "")
    file = "/".join(path.parts[-depth:]) if depth else str(row["bench_file"] or "")
    parts = [part for part in (row["label"], file) if part]
    many = f" #{row['position']}" if (row["position"] or 1) > 1 else ""
    return " · ".join(parts) + many


def all_doubts(points: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Every reason to doubt a point, with the name of the point."""
    for name, row in zip(point_names(points), points.iter_rows(named=True), strict=True):
        for said in doubts(row):
            yield name, said


def doubts(row: Mapping[str, Any]) -> list[str]:
    """The reasons to doubt a point, a difference in tokens included."""
    return [*oddities_of(row["extra"]), *_token_lines(row)]


def _token_lines(row: Mapping[str, Any]) -> list[str]:
    """A sentence where log and client disagree beyond what can be explained."""
    difference, allowed = row["token_difference"], row["allowed_tokens"]
    if difference is None or allowed is None or abs(difference) <= allowed:
        return []
    more = "more" if difference > 0 else "fewer"
    return [
        f"The log has {abs(difference):,.0f} tokens {more} than the client "
        f"({row['log_tokens']:,.0f} against {row['output_tokens']:,}; {allowed:,.0f} can be "
        "explained): other load, another run, or requests that the client does not count."
    ]


def oddities_of(extra: str | None) -> list[str]:
    """The reasons to doubt a point that its `extra` holds."""
    return list(json.loads(extra or "{}").get("oddities", []))


def odd_count() -> pl.Expr:
    """How many these are."""
    return pl.col("extra").map_elements(lambda text: len(oddities_of(text)), pl.Int64)


def column_meaning(text: str) -> tuple[str, str, str | None]:
    """Header, column and unit of `HEADER=COLUMN[:UNIT]`; CommandError if it is none."""
    header, equals, rest = text.rpartition("=")
    column, _, unit = rest.partition(":")
    if not equals or not header.strip() or not column.strip():
        raise CommandError(
            f"--map {text!r}: write HEADER=COLUMN, for example 'tok/s A=output_tok_s'"
        )
    return header.strip(), column.strip(), unit.strip() or None


def import_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """What `import` did, for the screen: each benchmark file with its oddities, then the sums."""
    if not report:
        return
    for read in report["bench"]:
        yield f"{read['path']}: {read['format']}, {_counted(read['points'], 'point')}{_new(read)}"
        if read["new"]:
            yield from (f"  {line}" for line in read["oddities"])
        if read["unread"]:
            names = ", ".join(repr(name) for name in read["unread"])
            yield (
                f"  columns not recognised: {names}; say once what one means, for example "
                f"`servescope bench --map {read['unread'][0]!r}=output_tok_s`"
            )
    if report["files"] or not report["bench"]:
        yield (
            f"{report['lines']} lines of {report['files']} files: {report['samples']} samples, "
            f"{len(report['run_ids'])} runs"
        )
    if report["bench"]:
        points = {bench_id for read in report["bench"] for bench_id in read["bench_ids"]}
        yield (
            f"{_counted(len(points), 'benchmark point')} in "
            f"{_counted(len(report['bench']), 'file')}; {report['joined']} joined to their runs"
        )


def _new(read: Mapping[str, Any]) -> str:
    """How many points were not stored before, where not all of them are new."""
    if read["new"] == read["points"]:
        return ""
    known = f" ({read['known_from']})" if read["known_from"] else ""
    return f", {read['new']} new" if read["new"] else f", already stored{known}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
