"""What lines with a certain text mean, and the usual kinds of such rules.

All of these take the literal, the title and the pattern in this order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from parsers.server_args import redact_text

Read = Callable[[str, str], dict[str, Any]]  # of a message, and the salt of its secrets' hashes
_NUMERIC = re.compile(r"-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?$")


@dataclass(frozen=True, slots=True)
class Rule:
    """What lines with a certain text mean.

    `pattern` is searched in the message (after stamp and wrappers); its groups may be named
    duration_s, memory_gb or after columns of the run card, all others become the event's data.
    `title` is formatted with the groups. `read` adds facts that need more than groups, from the
    message and the salt of its secrets' hashes; its "data" is the event's. `sets` names the
    argument that an override's line changes; the group "effective" says to what, else `to`.
    `effect`: a fault that another one brought about, however early its line comes.
    """

    literal: str
    kind: str
    title: str
    pattern: str | None = None
    severity: str = "info"
    boots: bool = False
    ends: str | None = None
    read: Read | None = None
    sets: str | None = None
    to: Any = None
    keep_text: bool = True  # False where the whole line is stored another way (an args dump)
    effect: bool = False


def note(
    kind: str, literal: str, title: str, pattern: str | None = None, severity: str = "info"
) -> Rule:
    """A line that says something by itself."""
    return Rule(literal, kind, title, pattern, severity=severity)


def boot(literal: str, title: str, pattern: str | None = None) -> Rule:
    """A line that may open a run."""
    return Rule(literal, "boot", title, pattern, boots=True)


def dump(kind: str, literal: str, title: str, pattern: str, read: Read) -> Rule:
    """The same with the server's arguments: kept in the run's card, not as text."""
    return Rule(literal, kind, title, pattern, boots=True, read=read, keep_text=False)


def milestone(literal: str, title: str, pattern: str, read: Read | None = None) -> Rule:
    """A step of the start."""
    return Rule(literal, "milestone", title, pattern, read=read)


def override(literal: str, title: str, pattern: str, name: str, to: Any = None) -> Rule:
    """A setting that the server changed by itself."""
    return Rule(literal, "override", title, pattern, severity="warning", sets=name, to=to)


def fault(literal: str, title: str, pattern: str | None = None) -> Rule:
    """A line that ends the run."""
    return Rule(literal, "fault", title, pattern, severity="fault", ends="crashed")


def effect(literal: str, title: str, pattern: str | None = None) -> Rule:
    """The same where another fault brought it about."""
    return replace(fault(literal, title, pattern), effect=True)


def stop(literal: str, title: str, pattern: str) -> Rule:
    """A line of an orderly end."""
    return Rule(literal, "stop", title, pattern, ends="stopped")


def as_value(text: str | None) -> Any:
    """A printed value: a number where it is one, also with a comma every three digits."""
    if text is None or not _NUMERIC.match(text):
        return {"True": True, "False": False}.get(text or "", text and redact_text(text))
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)
