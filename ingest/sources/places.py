"""A location as the user writes it to the place that it means."""

from __future__ import annotations

from ingest.sources.address import SSH
from ingest.sources.file import LocalPlace
from ingest.sources.log_file import Place


def place_of(location: str) -> Place:
    """The place of a path, a folder, a glob, or one of these behind `ssh://host/`."""
    if location.startswith(SSH):
        from ingest.sources.ssh_file import SshPlace  # paramiko takes a while to load

        return SshPlace(location)
    return LocalPlace(location)


def source_id_of(location: str) -> str:
    """The location in full: the same source has the same name in every process."""
    place = place_of(location)
    place.close()
    return place.source_id
