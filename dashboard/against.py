"""What the Live page shows against the run that is marked as baseline, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from dashboard import words
from dashboard.context import Context
from data import baseline, queries
from data.run_curves import LiveTiles

_SAME: Final = 0.02  # a difference in rates that is none to speak of
_OLD_S: Final = 300.0  # a baseline that still runs is looked at anew after so long


@dataclass(frozen=True, slots=True)
class Base:
    """The baseline run, as far as the tiles need it."""

    card: Mapping[str, Any]
    rates: Mapping[int, float]  # tok/s of one rank by its running requests, steady windows


def base_of(context: Context, run_id: str) -> Base | None:
    """The baseline of a run; None where none is marked."""
    with context.store.cursor() as con:
        written = queries.notes_written(con)
    return _base(context, str(context.store.path), run_id, written) if written else None


@st.cache_resource(max_entries=32, ttl=_OLD_S, show_spinner=False)
def _base(_context: Context, store: str, run_id: str, written: int) -> Base | None:
    with _context.store.cursor() as con:
        base_id = queries.compared_with(con, run_id)
        card = None if base_id is None else queries.run_card(con, base_id)
        return None if card is None else Base(card, baseline.steady_rates(con, str(base_id)))


def told(base: Base, now: LiveTiles | None, *, idle: bool) -> tuple[str, str, str, str, str]:
    """For each tile of the page, in its order, how it stands against the baseline."""
    card = base.card
    each = " a rank" if (card["dp"] or 1) > 1 else ""
    queued = words.whole(card["max_queued"])
    return (
        _rate(base, now, idle=idle),
        _cap(card, now),
        f"baseline queued up to {queued}{each}" if card["max_queued"] else "baseline never queued",
        _length(card["accept_len"], now),
        f"baseline up to {words.percent(card['max_kv_usage'])}",
    )


def _rate(base: Base, now: LiveTiles | None, *, idle: bool) -> str:
    """Throughput against that of the baseline at the same running count of a rank."""
    if idle or now is None or not now.gen_tok_s or not now.running_reqs:
        return "baseline: nothing to compare"
    busy = max(1, now.ranks_seen - now.ranks_idle)
    running, uneven = divmod(now.running_reqs, busy)
    at = f"at {running} running" + (" a rank" if now.ranks_seen > 1 else "")
    rate = base.rates.get(running)
    if uneven or rate is None:
        return "baseline: never steady at this load"
    share = now.gen_tok_s / (rate * busy) - 1
    if abs(share) < _SAME:
        return f"as the baseline {at}"
    return f"{words.percent(abs(share))} {'above' if share > 0 else 'below'} baseline {at}"


def _cap(card: Mapping[str, Any], now: LiveTiles | None) -> str:
    cap = card["max_running_requests"]
    if cap is None:
        return "baseline's cap unknown"
    total = cap * (card["dp"] or 1)
    same = now is not None and now.running_cap == total
    return "baseline has the same cap" if same else f"baseline's cap {total:,}"


def _length(length: float | None, now: LiveTiles | None) -> str:
    if length is None:
        return "baseline does not speculate"
    if now is None or now.accept_len is None:
        return f"baseline {length:.2f}"
    return f"{now.accept_len - length:+.2f} against baseline's {length:.2f}"
