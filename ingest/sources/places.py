"""A location as the user writes it to the place that it means."""

from __future__ import annotations

from data.errors import SourceError
from ingest.sources.address import SSH
from ingest.sources.command import CommandSource, is_command
from ingest.sources.file import LocalPlace
from ingest.sources.log_file import Place


def place_of(location: str) -> Place:
    """The place of a path, a folder, a glob, or one of these behind `ssh://host/`."""
    if is_command(location) or location == "-":
        raise SourceError(f"{location}: cannot be read to an end; follow it with servescope up")
    if location.startswith(SSH):
        from ingest.sources.ssh_file import SshPlace  # paramiko takes a while to load

        return SshPlace(location)
    return LocalPlace(location)


def source_id_of(location: str) -> str:
    """The location in full: the same source has the same name in every process."""
    if location == "-":
        return location
    if is_command(location):
        return CommandSource.parse(location).source_id
    place = place_of(location)
    place.close()
    return place.source_id
