"""Names of time zones, as users and hosts give them."""

from __future__ import annotations


def known(name: str | None) -> str | None:
    """The name, if it is that of a time zone; else None."""
    from zoneinfo import ZoneInfo  # seldom asked for

    try:
        return ZoneInfo(name).key if name else None
    except (OSError, ValueError, KeyError):
        return None
