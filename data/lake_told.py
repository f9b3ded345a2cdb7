"""What DuckDB says of a lake, as one line that says what is wrong and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from data.errors import AwayError, BusyError, DeletingError, StoreError

AWAY = "PostgreSQL does not answer"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a lake could not be read or written.

    `said` may name groups of the pattern, and `first`, the first line of what DuckDB said.
    """

    pattern: re.Pattern[str]
    said: str
    todo: str

    @property
    def advice(self) -> str:
        """What to do, as a sentence."""
        return f"{self.todo[0].upper()}{self.todo[1:]}."


def _cause(pattern: str, said: str, todo: str) -> Cause:
    return Cause(re.compile(pattern), said, todo)


_UNKNOWN = _cause("", "{first}", "look into the log of the PostgreSQL server and at the files")
_PLACE = re.compile(r' to Postgres at "[^"]*"')  # all words of libpq, our own too
_GOES_ON = "reading goes on where it stopped"
_BUSY = _cause(
    r"Transaction conflict - (?P<what>.*)",
    "another process has changed the same tables meanwhile ({what})",
    "try again",
)
_DELETING = _cause(
    r"servescope: somebody deletes", "another process deletes what it has rolled up", "try again"
)
_CAUSES = (
    _BUSY,
    _DELETING,
    _cause(
        r"servescope: schema (?P<schema>\d+)",
        "a newer Servescope has upgraded it to schema {schema}",
        f"upgrade this one too, {_GOES_ON}",
    ),
    _cause(
        r"catalog version is (?P<there>[\w.-]+), but .* requires version (?P<ours>[0-9]+\.[0-9]+)",
        "its catalog is of DuckLake {there}, this Servescope knows {ours}",
        "use the release of Servescope that the other machines use",
    ),
    _cause(
        r"(?P<denied>permission denied for \w+ \S+)|attached in read-only mode",
        "PostgreSQL does not give this role the right ({denied})",
        "GRANT it (docs/fleet.md, Credentials); it is tried again",
    ),
    _cause(
        r"(could not (extend|write)|pg_wal|base/).*No space left",
        "the disk of the PostgreSQL server is full",
        f"free some space there, {_GOES_ON}",
    ),
    _cause(
        r"No space left|[Oo]ut of disk|File too large|quota exceeded",
        "the disk of data_path is full",
        f"free some space, {_GOES_ON}",
    ),
    _cause(
        r'"(?P<file>[^"]+)": (?P<why>Read-only file system|Permission denied)',
        "{file} cannot be opened ({why})",
        f"give this user the right to read and write the folder of data_path, {_GOES_ON}",
    ),
    _cause(
        r'"(?P<file>[^"]+)": No such file',
        "a file of it is missing: {file}",
        "mount the folder of data_path, or restore its files from a back-up",
    ),
    _cause(
        r"server closed|[Cc]onnection refused|terminating|could not connect|connection to server|"
        r"no connection|shutting down|starting up|Unable to connect|does not answer|"
        r'query "ROLLBACK": *$',  # in the midst of a commit: then DuckLake says no more
        f"{AWAY}; it is tried again ({{first}})",
        "start it, or see to its network; this page comes back by itself",
    ),
    _cause(
        r"magic bytes|[Cc]orrupt|Invalid Parquet|TProtocolException|too small to be a Parquet",
        "a file of it is damaged ({first})",
        "restore it from a back-up",
    ),
    _cause(
        r"relation .* does not exist|Failed to query most recent snapshot|column .* does not exist",
        "its catalog is damaged, or of another program ({first})",
        "restore its dump into an empty database, or name another one (dbname=…)",
    ),
)


def cause(text: str) -> Cause:
    """The cause that this text of an error means."""
    return next((one for one in _CAUSES if one.pattern.search(text)), _UNKNOWN)


def explain(name: str, text: str) -> StoreError:
    """The error to raise in place of one of DuckDB with this text; `name`: of the store."""
    found, first = cause(text), _PLACE.sub("", text.splitlines()[0])
    match = found.pattern.search(text)
    groups = {key: value or first for key, value in (match.groupdict() if match else {}).items()}
    said = f"{name}: {found.said.format_map({**groups, 'first': first})}"
    if found.said.startswith(AWAY):
        return AwayError(said)
    if found is _DELETING:
        return DeletingError(f"{said}; {found.todo}")
    if found is _BUSY:
        return BusyError(f"{said}; {found.todo}")
    return StoreError(said if found is _UNKNOWN else f"{said}; {found.todo}")
