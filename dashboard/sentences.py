"""What the pages say: the answer first, in a sentence, and every state as word, icon, colour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from dashboard import words
from dashboard.context import SourceStatus
from dashboard.followed import Remote
from data.card import source_name as file_name
from data.names import tame
from data.run_curves import LiveTiles

Colour = Literal["green", "blue", "gray", "orange", "red"]


@dataclass(frozen=True, slots=True)
class Badge:
    """A state that is told by its word, and by icon and colour besides."""

    word: str
    icon: str
    colour: Colour


_READING: Final[dict[str, tuple[str, Colour]]] = {
    "following": (":material/play_arrow:", "green"),
    "catching up": (":material/fast_forward:", "blue"),
    "waiting for file": (":material/hourglass_empty:", "orange"),
    "connecting": (":material/link:", "blue"),
    "reconnecting": (":material/sync:", "orange"),
    "auth failed": (":material/key_off:", "red"),
    "host key unknown": (":material/shield:", "red"),
    "host key changed": (":material/gpp_bad:", "red"),
    "paused": (":material/pause:", "gray"),
    "ended": (":material/stop:", "gray"),
    "error": (":material/error:", "red"),
    "stopped": (":material/pause:", "gray"),
    "not followed": (":material/link_off:", "orange"),
}
_ENDED: Final[dict[str, tuple[str, str, Colour]]] = {
    "stopped": ("server stopped", ":material/stop_circle:", "gray"),
    "crashed": ("server crashed", ":material/dangerous:", "red"),
    "lost": ("log ended without a stop", ":material/link_off:", "red"),
}


# Until then silence is only told: a long prompt, or a kernel compiled at its first request, keeps
# a healthy server from printing for tens of seconds.
STUCK_AFTER_S: Final = 60.0
LOST_AFTER_S: Final = 600.0  # of silence while requests were running
ZONE: Final = "The log's clock, zone unknown."


def reading(status: SourceStatus | None) -> Badge:
    """How the reading of a source is doing."""
    if status is None:
        return Badge("past run", ":material/history:", "gray")
    icon, colour = _READING.get(status.state, (":material/help:", "gray"))
    word = status.state
    if status.state == "catching up" and status.percent is not None:
        word = f"catching up {status.percent:.0f} %"
    if status.state == "reconnecting" and status.retry_at is not None:
        left = (status.retry_at - datetime.now(UTC)).total_seconds()
        word = f"reconnecting in {left:.0f} s" if left >= 0.5 else "reconnecting now"
    return Badge(word, icon, colour)


def is_idle(tiles: LiveTiles, quiet_s: float) -> bool:
    """Nothing runs: no line for three windows, or a line that says so (vLLM's zeros)."""
    silent = quiet_s > tiles.idle_after_s or tiles.ranks_idle == tiles.ranks_seen
    return silent or not (tiles.running_reqs or tiles.queued_reqs or tiles.gen_tok_s)


def has_work(tiles: LiveTiles) -> bool:
    """Its last lines told of requests, running or queued."""
    return bool(tiles.running_reqs or tiles.queued_reqs)


def is_silent(tiles: LiveTiles, quiet_s: float) -> bool:
    """No line for three windows though requests are running or queued."""
    return quiet_s > tiles.idle_after_s and has_work(tiles)


def is_stuck(tiles: LiveTiles, quiet_s: float) -> bool:
    """Silent for longer than a server at work ever is: it deserves a warning."""
    return is_silent(tiles, quiet_s) and quiet_s > STUCK_AFTER_S


def _is_starting(card: Mapping[str, Any], tiles: LiveTiles | None, quiet_s: float) -> bool:
    """Booting: the warm-up prints samples too, and a log that begins later has no ready line."""
    if card["ready_at"] is not None:
        return False
    return tiles is None or (card["started_at"] is not None and is_idle(tiles, quiet_s))


def _is_unused(card: Mapping[str, Any], tiles: LiveTiles | None) -> bool:
    """Ready, and nothing but the warm-up has been served."""
    return tiles is None or (card["ready_at"] is not None and tiles.last_ts <= card["ready_at"])


def server(card: Mapping[str, Any], tiles: LiveTiles | None, quiet_s: float) -> Badge:
    """How the server of a run is doing, as far as its log tells."""
    if card["end_state"] in _ENDED:
        return Badge(*_ENDED[card["end_state"]])
    if _is_starting(card, tiles, quiet_s):
        return Badge("starting", ":material/rocket_launch:", "blue")
    if _is_unused(card, tiles):
        return Badge("ready, no request yet", ":material/check_circle:", "green")
    assert tiles is not None
    if is_silent(tiles, quiet_s):
        if quiet_s > LOST_AFTER_S:
            return Badge("lost", ":material/link_off:", "red")
        if is_stuck(tiles, quiet_s):
            return Badge("silent", ":material/warning:", "orange")
        return Badge("silent", ":material/pending:", "gray")
    if is_idle(tiles, quiet_s):
        since = words.moment(tiles.last_ts)
        return Badge(f"idle since {since}", ":material/pause_circle:", "gray")
    if not tiles.gen_tok_s:
        return Badge("working on prompts", ":material/pending:", "green")
    return Badge("generating", ":material/bolt:", "green")


def readiness(card: Mapping[str, Any]) -> str:
    """How long the start took."""
    if card["ready_at"] is None:
        return "ready line not seen"
    if card["ready_after_s"] is None:
        return f"ready at {words.clock(card['ready_at'])}"
    return f"ready after {words.duration(card['ready_after_s'])}"


def headline(card: Mapping[str, Any], tiles: LiveTiles | None, quiet_s: float) -> str:
    """The page's first line: is it alive, and how fast now."""
    if card["end_state"] in _ENDED:
        return _ended(card)
    if _is_starting(card, tiles, quiet_s):
        return f"Starting since {words.moment(card['started_at'])}; not ready yet."
    if _is_unused(card, tiles):
        return f"{readiness(card).capitalize()}; no request yet."
    assert tiles is not None
    if is_silent(tiles, quiet_s):
        return _silent(tiles, quiet_s)
    if is_idle(tiles, quiet_s):
        return f"Idle since {words.moment(tiles.last_ts)}."
    running = f"{of_cap(tiles)} running"
    queued = {None: "", 0: "; nothing queued"}.get(
        tiles.queued_reqs, f"; {words.whole(tiles.queued_reqs)} queued"
    )
    if not tiles.gen_tok_s:
        return f"Working on prompts with {running}{queued}."
    return f"Generating {words.number(tiles.gen_tok_s)} tok/s with {running}{queued}."


def _silent(tiles: LiveTiles, quiet_s: float) -> str:
    """What the last lines told, and what the silence since then can mean."""
    parts = [
        f"{words.whole(count)} {what}"
        for count, what in ((tiles.running_reqs, "running"), (tiles.queued_reqs, "queued"))
        if count
    ]
    said = f"Silent since {words.moment(tiles.last_ts)} with {' and '.join(parts)}"
    if not is_stuck(tiles, quiet_s):
        return f"{said}."
    means = "is lost" if quiet_s > LOST_AFTER_S else "may be stuck or gone"
    return f"{said}; the server {means}."


def of_cap(tiles: LiveTiles) -> str:
    """Running requests against the cap: 8 of 48; 8 where the cap is unknown."""
    running = words.whole(tiles.running_reqs)
    return running if tiles.running_cap is None else f"{running} of {tiles.running_cap:,}"


def _ended(card: Mapping[str, Any]) -> str:
    when = words.moment(card["ended_at"] or card["last_ts"])
    after = "" if card["duration_s"] is None else f" after {words.duration(card['duration_s'])}"
    if card["end_state"] == "stopped":
        return f"Server stopped at {when}{after}."
    if card["end_state"] == "crashed":
        faults = words.counted(card["n_faults"], "fault")
        reason = card.get("fault")
        if reason is None:
            return f"Server crashed at {when}{after}: {faults}, marked on the charts."
        detail = f": {reason['detail']}" if _adds(reason) else ""
        return f"Server crashed at {when}{after}. {reason['title']}{detail} ({faults})."
    if card["ready_at"] is None and card["started_at"] is not None:
        return f"No line since {when}; was still starting."
    return f"The log ends at {when}{after} without a stop: killed, or its log went elsewhere."


def _adds(fault: Mapping[str, Any]) -> bool:
    """The detail says more than the title."""
    return bool(fault["detail"]) and fault["detail"] not in fault["title"]


def ranks(tiles: LiveTiles) -> str | None:
    """A warning when fewer ranks write than the arguments promise."""
    expected = tiles.ranks_expected
    if expected is None or tiles.ranks_seen >= expected:
        return None
    return (
        f"{tiles.ranks_seen} of {expected} data-parallel ranks have written lines: "
        "the figures cover these only."
    )


def age(
    status: SourceStatus | None, age_s: float | None, silent_since: datetime | None = None
) -> str:
    """When the last line came, and how much is still unread.

    Args:
        silent_since: the stamp of the last sample, where that is told: a log that was copied here,
            or is read for the first time, has just come with stamps of long ago.
    """
    if status is None:
        return "nothing more is read of it"
    if isinstance(status, Remote):
        who = f"followed by {tame(status.by)}" if status.by else "followed by nobody now"
        return who if age_s is None else f"{who}, last line stored {words.ago(age_s)}"
    came = f"last line came {words.ago(age_s)}"
    last = "no line since Servescope started" if age_s is None else came
    unfinished = ", an unfinished last line" if status.unfinished_line else ""
    stamp = "" if silent_since is None else f"; last sample stamped {words.moment(silent_since)}"
    return f"{last}, {words.size(status.lag_bytes)} behind{unfinished}{stamp}"


def source_name(source_id: str, label: str | None) -> str:
    """A source for lists: its label, else the file's name with its folder."""
    return label or file_name(source_id)


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the Live page with its unit and its definition."""

    label: str
    value: str
    detail: str
    definition: str
    column: str = ""  # of the curve whose shape it can show


def tiles(card: Mapping[str, Any], now: LiveTiles | None, *, idle: bool) -> list[Tile]:
    """The five tiles. Idle is said, never shown as a rate."""
    still = "ended" if card["end_state"] in _ENDED else None
    if still is None and idle:
        still = "silent" if now is not None and has_work(now) else "idle"
    scope = "at the last line" if still else "sum over ranks"
    last = _of(now, "gen_tok_s") if still else None
    return [
        Tile(
            "Generation, tok/s",
            still or words.number(_of(now, "gen_tok_s")),
            f"last {words.number(last)}" if last else "sum over ranks",
            "Tokens generated a second, as the latest line of each rank prints it, summed over "
            "data-parallel ranks; idle ranks add nothing.",
            "gen_tok_s",
        ),
        Tile(
            "Running, requests",
            words.MISSING if now is None else of_cap(now),
            scope if now is None or now.running_cap else f"{scope}, cap unknown",
            "Requests in the running batch, summed over ranks, of the sum of the ranks' caps "
            "(max_running_requests or max_num_seqs as the server printed it).",
            "running_reqs",
        ),
        Tile(
            "Queue, requests",
            words.whole(_of(now, "queued_reqs")),
            scope,
            "Requests that wait for a place in the running batch, summed over ranks.",
            "queued_reqs",
        ),
        Tile(
            "Accept length, tok",
            words.number(_of(now, "accept_len")),
            _strict_rate(card, now),
            "Tokens a verification step yields for a request, bonus token included: 1.0 means "
            "that no draft token was accepted. The strict rate is accepted over proposed draft "
            "tokens, without the bonus token.",
            "accept_len",
        ),
        Tile(
            "KV use",
            words.percent(_of(now, "kv_usage")),
            "worst rank",
            "Share of the KV cache pool in use, of the rank that uses most. Near 100 % requests "
            "wait or are retracted.",
            "kv_usage",
        ),
    ]


def _of(now: LiveTiles | None, name: str) -> float | None:
    return None if now is None else getattr(now, name)


def _strict_rate(card: Mapping[str, Any], now: LiveTiles | None) -> str:
    if now is not None and now.draft_accept_rate is not None:
        return f"strict rate {words.percent(now.draft_accept_rate)}"
    return "no speculation" if card["spec_algorithm"] is None else "no acceptance printed yet"
