"""Which sources to follow: those of `servescope.toml`, and those added on the Sources page.

The first is the user's own and only read. The second lies beside the store and is ours.
"""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.errors import SourceError
from ingest import zones
from ingest.sources.file import place
from ingest.sources.names import shown
from ingest.sources.places import full, source_id_of

CONFIG_NAME = "servescope.toml"
_KEYS = ("location", "label", "zone", "tags", "paused", "bytes")


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source as the user names it."""

    location: str  # path, folder, glob or address
    label: str | None = None
    zone: str | None = None
    tags: tuple[str, ...] = ()
    paused: bool = False

    @property
    def source_id(self) -> str:
        """The absolute location: the same source has the same name in every process."""
        return source_id_of(self.location)


def load(path: Path) -> list[SourceSpec]:
    """The sources of a configuration file, paths relative to it; SourceError says what is wrong."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: is no TOML ({error})") from error
    tables = values.pop("source", [])
    if values or not isinstance(tables, list):
        wrong = next(iter(values), "source")
        raise SourceError(f"{path}: {wrong!r} is not understood; sources stand under [[source]]")
    return [_spec(path, number, table) for number, table in enumerate(tables, 1)]


def found_config() -> list[SourceSpec]:
    """The sources of `servescope.toml` in the working folder; none if there is no such file."""
    path = Path(CONFIG_NAME)
    return load(path) if path.is_file() else []


def _spec(path: Path, number: int, table: Any) -> SourceSpec:
    where = f"{path}: source {number}"
    if not isinstance(table, dict) or not isinstance(table.get("location"), str):
        raise SourceError(f"{where} has no location")
    for key, value in table.items():
        if key not in _KEYS or not _good(key, value):
            raise SourceError(f"{where}: {key} = {value!r} is not understood")
    zone = table.get("zone")
    if zone and zones.known(zone) is None:
        raise SourceError(f"{where}: {zone!r} is no time zone; an example is Europe/Berlin")
    location = table["location"]
    try:
        location = os.fsdecode(bytes.fromhex(table.get("bytes", ""))) or location
    except ValueError as error:
        raise SourceError(f"{where}: bytes are no hexadecimal digits") from error
    if "://" not in location and location != "-":
        location = str(path.absolute().parent / Path(location).expanduser())
    return SourceSpec(
        location, table.get("label"), zone, tuple(table.get("tags", ())), table.get("paused", False)
    )


def _good(key: str, value: Any) -> bool:
    if key == "tags":
        return isinstance(value, list) and all(isinstance(tag, str) for tag in value)
    return isinstance(value, bool if key == "paused" else str)


class Remembered:
    """The sources added or paused on the page, in a file beside the store."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + ".sources.toml")

    def specs(self) -> list[SourceSpec]:
        """All of them."""
        return load(self.path) if self.path.is_file() else []

    def keep(self, spec: SourceSpec) -> None:
        """Add a source, or replace what is known of it."""
        others = [known for known in self.specs() if known.source_id != spec.source_id]
        self._write([*others, spec])

    def forget(self, source_id: str) -> None:
        """Drop a source."""
        self._write([known for known in self.specs() if known.source_id != source_id])

    def _write(self, specs: list[SourceSpec]) -> None:
        text = "# Written by Servescope: the sources of its Sources page.\n"
        for spec in specs:
            values = {
                "location": full(spec.location), "bytes": _odd_bytes(spec.location),
                "label": spec.label, "zone": spec.zone, "tags": list(spec.tags) or None,
                "paused": spec.paused or None,
            }  # fmt: skip
            # A JSON string, list or truth is TOML too.
            lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if value]
            text += "\n[[source]]\n" + "\n".join(lines) + "\n"
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path)
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be written ({error.strerror})") from error


def _odd_bytes(location: str) -> str | None:
    """The bytes of a location in hexadecimal, where no TOML can hold them as they are."""
    if shown(location) == location:
        return None
    whole = location if "://" in location else str(place(location))
    return os.fsencode(whole).hex()
