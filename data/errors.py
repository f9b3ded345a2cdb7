"""Everything that can go wrong in a way the user can act on.

ServescopeError
├── StoreError      the store cannot be opened, read or written
│   ├── ConflictError   another reader has stored these bytes already
│   ├── BusyError       another process has changed the same tables meanwhile
│   ├── DeletingError   another process deletes from the same tables
│   └── AwayError       its server does not answer
├── SourceError     a source cannot be read
│   ├── AbsentError     nothing is there, or not yet
│   └── HostError       nor can any other on its host
│       ├── UnreachableError    it does not answer, or no longer
│       ├── LoginError          it does not let us in
│       └── HostKeyError        its key is not the one that was trusted
├── AccessError     who may open the pages from other machines is not said, or wrongly
├── ControlError    the running `servescope up` cannot be reached or refuses
└── CommandError    a command was asked for something that does not exist

Each message is one line: what, where, what to do.
"""

from __future__ import annotations


class ServescopeError(Exception):
    """The base of all errors that are told to the user in one line."""


class StoreError(ServescopeError):
    """The store cannot be opened, read or written."""


class ConflictError(StoreError):
    """Another reader has stored more of this file since; what is refused is stored already."""

    def __init__(self, text: str, file_id: str) -> None:
        super().__init__(text)
        self.file_id = file_id


class BusyError(StoreError):
    """Another process has changed the same tables meanwhile: to be tried again at once."""


class DeletingError(StoreError):
    """Another process deletes from the same tables: to be tried again when it has done so."""


class AwayError(StoreError):
    """The server of the store does not answer: to be tried again."""


class SourceError(ServescopeError):
    """A source cannot be read."""


class AbsentError(SourceError):
    """There is no file or folder of this name, or not yet."""

    def __init__(self, name: object, what: str = "file") -> None:
        super().__init__(f"{name}: no such {what}; check the path")
        self.name = name
        self.what = what


class HostError(SourceError):
    """What keeps all sources of a host from being read, not this one alone."""


class UnreachableError(HostError):
    """The host of a source does not answer, or no longer: to be tried again."""


class LoginError(HostError):
    """The host of a source does not let us in."""


class HostKeyError(HostError):
    """The key of a source's host is not known, or not the one that was trusted."""

    def __init__(self, text: str, *, changed: bool) -> None:
        super().__init__(text)
        self.changed = changed


class AccessError(ServescopeError):
    """Who may open the pages from other machines is not said, or not clearly."""


class ControlError(ServescopeError):
    """The running `servescope up` cannot be reached or refuses."""


class CommandError(ServescopeError):
    """A command was asked for something that does not exist or is not allowed."""
