"""The views that a question may read, with units and meanings, as the documents have them too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parsers.records import STATISTICS

_TEXT: Final = Path(__file__).with_name("documented.md").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view; unit empty where it has none."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class View:
    """A view: what a row of it is, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]


def _read(text: str) -> dict[str, View]:
    """The views of the document; a `*` in a name stands for each statistic of a latency."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        name, body = section.split("\n", 1)
        columns = [
            Column(column.replace("*", statistic), unit.strip(), meaning.strip())
            for names, unit, meaning in re.findall(
                r"^\| (`[^|]+`) \|([^|\n]*)\|(.*)\|$", body, flags=re.M
            )
            for column in re.findall(r"`([^`]+)`", names)
            for statistic in (STATISTICS if "*" in column else ("",))
        ]
        found[name] = View(name, body.strip().split("\n", 1)[0], tuple(columns))
    return found


VIEWS: Final = _read(_TEXT)
