"""The folder that the files of a lake lie in, or the bucket."""

from __future__ import annotations

import os
from pathlib import Path

from data.errors import StoreError
from data.lake_place import LakePlace
from data.lake_session import LakeSession


def known_folder(place: LakePlace, session: LakeSession) -> str:
    """Where the catalog says that the files lie."""
    row = session.ask("SELECT value FROM ducklake_metadata WHERE key = 'data_path'")
    known = str(row[0])
    if place.data_path not in (None, known):
        raise StoreError(f"its files lie in {known}, not in data_path={place.data_path}")
    return known


# The oldest file: a shared folder may show the newest of another machine some seconds late.
_OLDEST_FILE = """
SELECT min(s.path || t.path || f.path) FROM ducklake_data_file f
JOIN ducklake_table t USING (table_id) JOIN ducklake_schema s USING (schema_id)
WHERE data_file_id = (
    SELECT min(data_file_id) FROM ducklake_data_file
    WHERE end_snapshot IS NULL AND path_is_relative
) AND t.end_snapshot IS NULL AND t.path_is_relative AND s.path_is_relative
"""


def refuse_other_folder(data_path: str, session: LakeSession) -> None:
    """A folder that is not mounted would be written to all the same, where nobody else reads."""
    if data_path.startswith("s3://"):
        return
    (oldest,) = session.ask(_OLDEST_FILE)
    wanted = Path(data_path, str(oldest or ""))
    if not wanted.exists():
        raise StoreError(
            f"its files are not in {data_path} (no {wanted}); mount the shared folder there, or "
            "restore them from a back-up"
        )


class Folder:
    """Looked at before each commit: where a shared folder is unmounted while a process writes, its
    files would go into the empty one below, and the catalog would name files that nobody finds."""

    def __init__(self, place: LakePlace, session: LakeSession) -> None:
        self._place = place
        self._session = session
        self._path: str | None = None
        self._known: tuple[int, int] | None = None  # the folder in which the files were found

    def refuse_other(self) -> None:
        """StoreError while another folder stands there, or none."""
        self._path = self._path or known_folder(self._place, self._session)
        there = _identity(self._path)
        if there is None or there != self._known:
            try:
                refuse_other_folder(self._path, self._session)
            except StoreError as error:
                raise StoreError(f"{self._place.name}: {error}") from error
            self._known = there


def _identity(path: str) -> tuple[int, int] | None:
    """What tells a mounted folder from the one below it, at the price of one call."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
