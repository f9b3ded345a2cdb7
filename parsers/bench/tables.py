"""Tables made by hand: Markdown and pipes, TSV, CSV, columns aligned with blanks.

A row is a point. Where the header is `A \\ B` with numbers beside it, the table is a matrix: each
cell is a point, and the title above says what the cells are. Several columns with one meaning
(one a version, say) make a point each, labelled with the header.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from parsers.bench.columns import DIMENSION, LABEL, Column, Maps, is_count, is_number, recognise
from parsers.bench.per_prompt import Row, gather
from parsers.bench.points import Found, Point, keep, new_point, number, put, scalar
from parsers.server_args import redact_text

TOOL = "table"
_LINE_MAX = 4000
_FEW = 8  # columns
_SEPARATOR = re.compile(r"[\s|:+=-]+$")
_MATRIX = re.compile(r"(.+?)\s*(?:\\|/|×)\s*(.+)$")
_INDEX = re.compile(
    r"(?i)#|no\.?|n|i|id|idx|index|(prompt|req|request|run|iter|sample)s?[ _#]*(id|no|idx|num)?"
)
_SECONDS = re.compile(
    r"(?:(?:total |wall |elapsed )?(?:time|latency|elapsed|duration|wall)[ _]*[(\[]?(?:s|sec|secs|"
    r"seconds|ms)[)\]]?|seconds|secs|sec|s)"
)
_TOKENS = re.compile(r"(?:(?:output|out|gen|generated|completion)[ _]*)?(?:tokens|toks)")
_TITLE_PROMPTS = re.compile(r"(?i)\b([0-9][0-9,]*)\s+(?:prompts|requests)\b")


@dataclass(slots=True)
class Table:
    """A header, its rows, and the line above it."""

    header: list[str]
    rows: list[list[str]] = field(default_factory=list)
    title: str = ""


def read(text: str, maps: Maps | None = None) -> Found:
    """The points of every table in a text, and the columns that were not recognised."""
    points: list[Point] = []
    unread: list[str] = []
    for table in find(text):
        found, missing = _points(table, maps)
        points += found
        unread += [name for name in missing if name not in unread]
    return Found("table made by hand", points, unread)


def find(text: str) -> Iterator[Table]:
    """The tables of a text: two lines or more with equally many cells, the first no numbers."""
    table: Table | None = None
    title = ""
    split = None
    for line in [*text.splitlines(), ""]:
        if len(line) > _LINE_MAX:
            line = ""  # nobody writes such a row by hand
        bare = line.strip().lstrip("#").strip() if line.lstrip().startswith("# ") else line.strip()
        if table is not None and split is not None:
            if _SEPARATOR.fullmatch(bare) and bare:
                continue
            cells = split(bare)
            if bare and len(cells) == len(table.header):
                table.rows.append(cells)
                continue
            if table.rows:
                yield table
                title = ""
            table = None
        split, cells = _header(bare)
        if split is not None:
            table = Table(cells, title=title)
        elif bare and not _SEPARATOR.fullmatch(bare):
            title = bare.strip("*#: ")


def _header(line: str) -> tuple[Split | None, list[str]]:
    """How the line is cut and its cells, if it can be the header of a table."""
    for separator, split in _SPLITS:
        if separator.search(line):
            cells = split(line)
            named = [cell for cell in cells if cell and number(cell) is None]
            if len(cells) > 1 and named and (number(cells[0]) is None or not cells[0]):
                known = [cell for cell in cells if recognise(cell) is not None]
                # Prose has commas and double blanks too; a header has names that are known.
                if known or separator.pattern == r"\|":
                    return split, cells
    return None, []


def _pipes(line: str) -> list[str]:
    return [cell.strip().strip("*`") for cell in line.strip().strip("|").split("|")]


def _tabs(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")]


def _commas(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    except csv.Error:
        return []


def _blanks(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


Split = Callable[[str], list[str]]
_SPLITS: tuple[tuple[re.Pattern[str], Split], ...] = (
    (re.compile(r"\|"), _pipes),
    (re.compile(r"\t"), _tabs),
    (re.compile(r","), _commas),
    (re.compile(r"\S\s{2,}\S"), _blanks),
)


def _points(table: Table, maps: Maps | None) -> tuple[list[Point], list[str]]:
    matrix = _MATRIX.fullmatch(table.header[0])
    if matrix and all(number(cell) is not None for cell in table.header[1:]):
        return _matrix(table, matrix[1], matrix[2], maps)
    columns = [recognise(header, maps) for header in table.header]
    if (rows := _prompts(table, columns)) is not None:
        return [gather(TOOL, rows, None, redact_text(table.title))], []
    unread = [
        header
        for header, column in zip(table.header, columns, strict=True)
        if column is None and header
    ]
    if not _has_measures(table, columns):
        return [], []
    points = [point for row in table.rows for point in _row(table, row, columns)]
    return points, unread


def _has_measures(table: Table, columns: Sequence[Column | None]) -> bool:
    """A known column, and numbers in one that says a result or may do so once it is known."""
    known = [column.name for column in columns if column is not None]
    if not known or (set(known) == {LABEL} and len(columns) > _FEW):
        return False  # some export of another program
    return any(
        number(cells[at]) is not None
        for at, column in enumerate(columns)
        if column is None or column.name not in (DIMENSION, LABEL)
        for cells in table.rows
    )


def _prompts(table: Table, columns: Sequence[Column | None]) -> list[Row] | None:
    """The rows as single prompts: numbered, each with its time, no concurrency beside them."""
    if not _INDEX.fullmatch(table.header[0]) or any(
        column is not None and column.name == "concurrency" for column in columns
    ):
        return None
    rows = []
    for cells in table.rows:
        index = number(cells[0])
        row = Row(None if index is None else int(index))
        for header, cell, column in zip(table.header, cells, columns, strict=True):
            value = number(cell)
            if value is not None:
                _put_cell(row, header, value, column)
        if index is not None:
            rows.append(row)
    return rows if rows and all(row.seconds is not None for row in rows) else None


def _put_cell(row: Row, header: str, value: float, column: Column | None) -> None:
    if match := _SECONDS.fullmatch(header.strip().lower()):
        row.seconds = value / 1000 if "ms" in match[0] else value
    elif _TOKENS.fullmatch(header.strip().lower()):
        row.output_tokens = value
    elif column is not None and column.name == "output_tok_s":
        row.rate = value * column.factor
    elif column is not None and column.name == "e2e_ms_mean":
        row.seconds = value * column.factor / 1000
    elif column is not None and "_ms_" in column.name:
        row.columns[column.name] = value * column.factor


@dataclass(frozen=True, slots=True)
class _Cell:
    """One measured number of a row."""

    header: str
    column: Column
    value: float | int


def _row(table: Table, row: Sequence[str], columns: Sequence[Column | None]) -> list[Point]:
    """The points of a row: one; one for each load that headers name; one for each of several
    columns with one meaning."""
    common = new_point(TOOL)
    measured: list[_Cell] = []
    for header, cell, column in zip(table.header, row, columns, strict=True):
        if column is None or column.name == DIMENSION:
            keep(common, {header: scalar(cell)} if cell else {})
        elif column.name == LABEL or not is_number(column.name):
            put(common, column.name, redact_text(cell) or None)
        elif (value := number(cell)) is not None:
            scaled = value * column.factor
            measured.append(
                _Cell(header, column, round(scaled) if is_count(column.name) else scaled)
            )
    _put_title(common, table.title)
    points: list[Point] = []
    for load in dict.fromkeys(cell.column.load for cell in measured):
        cells = [cell for cell in measured if cell.column.load == load]
        points += _of_load(common, cells, load)
    return points


def _of_load(common: Point, cells: Sequence[_Cell], load: float | None) -> list[Point]:
    """The points of the cells of one load."""
    point: Point = {**common, "extra": dict(common["extra"])}
    put(point, "concurrency", load)
    names = [cell.column.name for cell in cells]
    several = {name for name in names if names.count(name) > 1}
    for cell in cells:
        if cell.column.name not in several:
            put(point, cell.column.name, cell.value)
    if several:
        return [
            {**point, "extra": dict(point["extra"]), "label": cell.header,
             cell.column.name: cell.value}
            for cell in cells
            if cell.column.name in several
        ]  # fmt: skip
    return [point] if is_result(point) else []


def is_result(point: Point) -> bool:
    """Whether anything was measured: not only what was asked for."""
    return any(
        name.endswith(("tok_s", "_rps")) or "_ms_" in name or name == "accept_len" for name in point
    )


def _put_title(point: Point, title: str) -> None:
    """What the line above says: how many prompts, and its words."""
    if match := _TITLE_PROMPTS.search(title):
        put(point, "num_prompts", int(match[1].replace(",", "")))
    if title:
        keep(point, {"title": title})


def _matrix(
    table: Table, rows: str, columns: str, maps: Maps | None
) -> tuple[list[Point], list[str]]:
    """A point a cell: the row's name and the column's name say which, the title what."""
    value = recognise(table.title, maps)
    unread = [] if value is not None else [table.title or table.header[0]]
    if value is None or not is_number(value.name):
        return [], unread
    points = []
    for row in table.rows:
        for header, cell in zip(table.header[1:], row[1:], strict=True):
            read = number(cell)
            if read is None:
                continue
            point = new_point(TOOL)
            for name, text in ((rows, row[0]), (columns, header)):
                _put_axis(point, name, text, maps)
            put(point, value.name, read * value.factor)
            keep(point, {"title": table.title})
            points.append(point)
    return points, unread


def _put_axis(point: Point, name: str, text: str, maps: Maps | None) -> None:
    column = recognise(name, maps)
    read = number(text)
    if column is None or not is_number(column.name) or read is None:
        keep(point, {name: scalar(text)})
    else:
        put(point, column.name, read * column.factor)
