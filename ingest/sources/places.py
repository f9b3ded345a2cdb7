"""A location as the user writes it to the place that it means."""

from __future__ import annotations

from data.errors import SourceError
from ingest.sources import host
from ingest.sources.address import SSH
from ingest.sources.command import CommandSource, is_command
from ingest.sources.file import LocalPlace
from ingest.sources.log_file import Place


def place_of(location: str) -> Place:
    """The place of a path, a folder, a glob, or one of these behind `ssh://host/`."""
    if is_command(location) or location == "-":
        raise SourceError(f"{location}: cannot be read to an end; follow it with servescope up")
    if location.startswith(SSH):
        from ingest.sources.ssh_place import SshPlace  # paramiko takes a while to load

        return SshPlace(location)
    return LocalPlace(location)


def source_id_of(location: str) -> str:
    """What the source is called in the store, the same in every process."""
    if location.startswith(SSH):
        return full(location)
    if is_command(location) and CommandSource.parse(location).host is not None:
        return full(location)
    return host.named(full(location))


def full(location: str) -> str:
    """The location in full, as a process in another folder must be given it."""
    if location == "-":
        return location
    if is_command(location):
        return CommandSource.parse(location).source_id
    place = place_of(location)
    place.close()
    return host.path_of(place.source_id)
