"""The time as it is stored: UTC, without saying so."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time now."""
    return datetime.now(UTC).replace(tzinfo=None)
