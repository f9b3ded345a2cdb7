"""The forms that commands answer in, as their options name them."""

from __future__ import annotations

from enum import StrEnum


class TableFormat(StrEnum):
    """How rows are shown or written."""

    TABLE = "table"
    CSV = "csv"
    PARQUET = "parquet"
    JSON = "json"
    MD = "md"


class FileFormat(StrEnum):
    """What `export` writes; the last three of a comparison only."""

    CSV = "csv"
    PARQUET = "parquet"
    JSON = "json"
    MD = "md"
    HTML = "html"
    SVG = "svg"
    PNG = "png"


class BenchFormat(StrEnum):
    """How benchmark points are shown."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    MD = "md"


class CompareFormat(StrEnum):
    """How `compare` answers."""

    TEXT = "text"
    MD = "md"
    JSON = "json"
    CSV = "csv"


class FindingsFormat(StrEnum):
    """How `findings` answers."""

    TEXT = "text"
    JSON = "json"
    MD = "md"


class ParseFormat(StrEnum):
    """What `parse` writes; csv and parquet hold the samples."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class DoctorFormat(StrEnum):
    """How `doctor` answers."""

    TEXT = "text"
    JSON = "json"


class ListFormat(StrEnum):
    """How the list of runs is shown; all but the first hold every column."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    MD = "md"


class CardFormat(StrEnum):
    """How one run, or what `up` does, is shown."""

    TEXT = "text"
    JSON = "json"
