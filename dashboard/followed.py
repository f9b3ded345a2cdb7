"""Which sources are followed into the store: by this process, and on a lake by others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dashboard.context import Context, SourceStatus


@dataclass(frozen=True, slots=True)
class Remote:
    """A `SourceStatus` of what another process follows: as much of it as the store tells."""

    source_id: str
    label: str | None
    run_id: str | None
    by: str | None  # the process; None: it has ended
    last_line_at: datetime | None
    state: str
    percent: float | None = None
    lag_bytes: int = 0
    unfinished_line: bool = False
    behind_since: datetime | None = None
    retry_at: datetime | None = None
    path: str | None = None
    error: str | None = None
    tags: Sequence[str] = ()


def sources(context: Context, newest: Mapping[str, str] | None = None) -> list[SourceStatus]:
    """Those of this process first.

    Args:
        newest: the latest run of each source, for pages that show runs.
    """
    own: list[SourceStatus] = list(context.supervisor.status())
    ids = {source.source_id for source in own}
    return own + [
        Remote(
            one.source_id, one.label, (newest or {}).get(one.source_id), one.by,
            None if one.stored_at is None else _past(one.stored_at.replace(tzinfo=UTC)),
            "following" if one.by else "not followed",
        )
        for one in context.store.elsewhere()
        if one.source_id not in ids
    ]  # fmt: skip


def may_change(context: Context) -> bool:
    """Whether more may come into the store while a page stands."""
    return context.store.is_shared or bool(context.supervisor.status())


def _past(moment: datetime) -> datetime:
    """The clock of another machine may be ahead."""
    return min(moment, datetime.now(UTC))
