"""Which run of which server a benchmark point measured, and when by that server's clock.

A point that says when it began is looked for there; where nothing ran then, at the same minute
of other time zones. A point that does not is recognised in the log by its load: as many tokens
in as many seconds, with as many requests running. Points of one file come in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from data import token_check
from data import windows as w

# Tools that run the engine themselves and talk to no server.
OFFLINE = (
    "vllm bench throughput", "vllm bench latency", "sglang.bench_one_batch",
    "sglang.bench_offline_throughput",
)  # fmt: skip
_ENOUGH = 0.25  # of tokens off, or of other load around: no match
_AT_ITS_CLOCK = 0.35
_BUSY = 0.3  # of a point between equal load: any time would do, so none is believed
_ZONES_S = [quarter * 900.0 for quarter in range(-56, 57) if quarter]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Server:
    """One run with its windows, ready to be searched."""

    card: Mapping[str, Any]
    samples: pl.DataFrame  # all of the run

    @cached_property
    def counted(self) -> pl.DataFrame:
        """The samples of the ranks that count."""
        return w.counted(self.samples)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """Its windows with their begin, in the order of the clock."""
        rows = w.windows(self.counted).filter(pl.col("ts").is_not_null())
        return token_check.begins(rows).sort("ts", maintain_order=True)

    @cached_property
    def args(self) -> dict[str, Any]:
        """Its arguments."""
        return dict(json.loads(self.card["args"] or "{}"))

    @cached_property
    def curve(self) -> tuple[Floats, Floats]:
        """Times (seconds since 1970) and the tokens made up to each, over all lanes."""
        known = self.rows.filter(pl.col("tokens") > 0)
        begin, end = _seconds(known["begin"]), _seconds(known["ts"])
        end = np.maximum(end, begin + 1e-3)
        rate = known["tokens"].to_numpy() / (end - begin)
        times = np.concatenate([begin, end])
        order = np.argsort(times, kind="stable")
        steps = np.concatenate([rate, -rate])[order]
        times = times[order]
        made = np.concatenate([[0.0], np.cumsum(np.cumsum(steps)[:-1] * np.diff(times))])
        return times, np.maximum.accumulate(made)

    @cached_property
    def stats(self) -> bool:
        """Whether its windows are long ones of vLLM, which hold all of their interval."""
        return bool(self.rows["kind"][0] != "decode")

    @cached_property
    def usual_s(self) -> float:
        """The usual length of a window, in seconds."""
        usual = self.rows["interval_s"].median()
        return float(usual) if isinstance(usual, float) and usual > 0 else 1.0

    @cached_property
    def starts(self) -> Floats:
        """Moments at which a point can have begun: a prefill, or any second of a window."""
        prefills = self.counted.filter((pl.col("kind") == "prefill") & pl.col("ts").is_not_null())
        if prefills.height:
            return np.unique(_seconds(prefills["ts"]))
        begins = _seconds(self.rows.filter(pl.col("tokens") > 0)["begin"])
        inside = np.arange(0.0, self.usual_s, 1.0)
        return np.unique((begins[:, None] + inside[None, :]).ravel())

    @cached_property
    def _whole(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Begins and ends of the windows, each with the tokens of all up to there."""
        known = self.rows.filter(pl.col("tokens") > 0)
        tokens = known["tokens"].to_numpy()
        begin, end = _seconds(known["begin"]), _seconds(known["ts"])
        by_begin, by_end = np.argsort(begin), np.argsort(end)
        return (
            begin[by_begin], np.append(0.0, np.cumsum(tokens[by_begin])),
            end[by_end], np.append(0.0, np.cumsum(tokens[by_end])),
        )  # fmt: skip

    def tokens(self, start: Floats, end: Floats) -> Floats:
        """Tokens made between two moments; of long windows all that reach into the time."""
        if self.stats:
            begins, begun, ends, ended = self._whole
            return np.asarray(
                begun[np.searchsorted(begins, end)] - ended[np.searchsorted(ends, start, "right")]
            )
        times, made = self.curve
        return np.asarray(np.interp(end, times, made) - np.interp(start, times, made))


@dataclass(frozen=True, slots=True)
class Match:
    """Where a point was found."""

    server: Server
    start: datetime  # by the server's clock
    end: datetime
    method: str  # clock, order, explicit
    clock_offset_s: float | None  # the server's clock minus the client's
    score: float


def fits(point: Mapping[str, Any], card: Mapping[str, Any]) -> bool:
    """Whether a point can be of this run: engine, model and port, as far as both are known."""
    if (engine := _engine(point)) is not None and engine != card["engine"]:
        return False
    args = json.loads(card["args"] or "{}")
    names = {card["model"], args.get("served_model_name"), args.get("model_path")}
    known = {_tail_name(name) for name in names if isinstance(name, str)}
    if point["model"] and known and _tail_name(point["model"]) not in known:
        return False
    port, ports = client_port(point), args.get("port")
    return port is None or ports is None or int(ports) == port


def _engine(point: Mapping[str, Any]) -> str | None:
    """The engine that a client says it talks to; None for an API that both speak."""
    if point["tool"] == "sglang.bench_one_batch_server":
        return "sglang"
    extra = json.loads(point["extra"] or "{}")
    backend = str(extra.get("backend", extra.get("Backend", "")))
    if backend.startswith("sglang") and "oai" not in backend:
        return "sglang"
    # For its own client "vllm" is only a name of the OpenAI API.
    return "vllm" if backend == "vllm" and point["tool"].startswith("sglang") else None


def client_port(point: Mapping[str, Any]) -> int | None:
    """The port that the client asked, if its output names it."""
    extra = json.loads(point["extra"] or "{}")
    for held in (extra.get("args"), extra.get("server_info")):
        if isinstance(held, Mapping) and str(held.get("port", "")).isdigit():
            return int(held["port"])
    target = str(extra.get("target") or "").rstrip("/").rpartition(":")[2].partition("/")[0]
    return int(target) if target.isdigit() else None


def joinable(point: Mapping[str, Any]) -> bool:
    """Whether a point can be recognised in a log at all."""
    return bool(point["tool"] not in OFFLINE and point["duration_s"] and point["output_tokens"])


Taken = Mapping[str, tuple[Mapping[str, Any], Match]]


def find(
    points: Sequence[Mapping[str, Any]], servers: Sequence[Server], taken: Taken
) -> dict[str, Match]:
    """The match of each point that was found, by bench_id; no two points share a time.

    Args:
        points: rows of BENCH_RESULTS.
        servers: the runs that may have served them.
        taken: points joined before, which keep their times.
    """
    found: dict[str, Match] = {}
    for point in points:
        if joinable(point) and point["started_at"] is not None:
            match = _by_clock(point, [one for one in servers if fits(point, one.card)])
            if match is not None:
                found[point["bench_id"]] = match
    unplaced = [p for p in points if joinable(p) and p["started_at"] is None]
    others = [*points, *(point for point, _ in taken.values())]
    before = {bench_id: match for bench_id, (_, match) in taken.items()}
    looks = {point["bench_id"]: _looks(point, servers) for point in unplaced}
    while unplaced:
        matches = {
            point["bench_id"]: match
            for point in unplaced
            if (match := _by_load(point, looks[point["bench_id"]], others, before | found))
            is not None
        }
        if not matches:
            break
        best = min(matches, key=lambda bench_id: matches[bench_id].score)
        found[best] = matches[best]
        unplaced = [point for point in unplaced if point["bench_id"] != best]
    return found


def _by_clock(point: Mapping[str, Any], servers: Sequence[Server]) -> Match | None:
    """At the time that the point says, else at that time of another zone."""
    begun = _second(point["started_at"])
    for offsets, limit in (([0.0], _AT_ITS_CLOCK), (_ZONES_S, _ENOUGH)):
        matches = [
            _match(server, point, begun + offset, score, "clock", offset)
            for server in servers
            if not server.rows.is_empty()
            for offset, score in _scored(server, point, begun, offsets)
            if score <= limit
        ]
        if matches:
            return min(matches, key=lambda match: (match.score, abs(match.clock_offset_s or 0.0)))
    return None


def _scored(
    server: Server, point: Mapping[str, Any], begun: float, offsets: Sequence[float]
) -> Iterator[tuple[float, float]]:
    starts = np.array([begun + offset for offset in offsets])
    yield from zip(offsets, _scores(server, point, starts).tolist(), strict=True)


def _looks(point: Mapping[str, Any], servers: Sequence[Server]) -> list[tuple[Server, Floats]]:
    """The servers that may have served a point, each with the scores of all its starts."""
    return [
        (server, _scores(server, point, server.starts))
        for server in servers
        if not server.rows.is_empty() and server.starts.size and fits(point, server.card)
        # A point shorter than that is lost inside one window of vLLM.
        if not server.stats or point["duration_s"] >= server.usual_s / 2
    ]


def _by_load(
    point: Mapping[str, Any],
    looks: Sequence[tuple[Server, Floats]],
    points: Sequence[Mapping[str, Any]],
    found: Mapping[str, Match],
) -> Match | None:
    """Where the log looks most like the point, among times that no other point has."""
    best: Match | None = None
    for server, all_scores in looks:
        scores = np.where(_free(point, server, points, found), all_scores, np.inf)
        at = _middle_of_best(scores)
        if scores[at] <= _ENOUGH and (best is None or scores[at] < best.score):
            best = _match(server, point, float(server.starts[at]), float(scores[at]), "order", None)
    return best


def _free(
    point: Mapping[str, Any],
    server: Server,
    points: Sequence[Mapping[str, Any]],
    found: Mapping[str, Match],
) -> npt.NDArray[np.bool_]:
    """Which starts leave the other points their times, and come in the order of the file."""
    starts = server.starts
    ends = starts + point["duration_s"]
    free = np.ones(starts.size, dtype=bool)
    for other in points:
        match = found.get(other["bench_id"])
        if match is None or match.server is not server:
            continue
        begin, end = _second(match.start), _second(match.end)
        free &= (ends <= begin + 1.0) | (starts >= end - 1.0)
        if other["bench_file"] == point["bench_file"]:
            after = (point["position"] or 0) > (other["position"] or 0)
            free &= starts > begin if after else starts < begin
    return free


def _scores(server: Server, point: Mapping[str, Any], starts: Floats) -> Floats:
    """How unlike the point the log is from each start on: 0 is alike, 1 is nothing in common."""
    duration, tokens = float(point["duration_s"]), float(point["output_tokens"])
    ends = starts + duration
    if server.stats:
        begin, stop, margin = starts + 0.25, ends + 0.75, server.usual_s
        made = server.tokens(begin, stop)
    else:
        begin, stop, margin = starts - 0.5, ends + 0.5, max(2.0, duration / 10)
        # First tokens are in no decode line.
        made = server.tokens(begin, stop) + float(point["completed"] or 0)
    off = np.abs(made - tokens) / tokens
    around = server.tokens(begin - margin, stop + margin) - server.tokens(begin, stop)
    busy = np.maximum(around, 0.0) / (2 * margin) / (tokens / duration)
    scores = off + _BUSY * np.minimum(busy, 1.0)
    near = np.flatnonzero(scores <= _AT_ITS_CLOCK)  # counting requests is dear
    scores[near] += _crowd(server, point, starts[near], ends[near])
    return np.asarray(scores)


def _middle_of_best(scores: Floats) -> int:
    """The best place; of neighbours that are equally good the one in the middle."""
    at = int(np.argmin(scores))
    last = at
    while last + 1 < scores.size and scores[last + 1] <= scores[at] + 1e-6:
        last += 1
    return (at + last) // 2


def _crowd(server: Server, point: Mapping[str, Any], starts: Floats, ends: Floats) -> Floats:
    """A penalty where more requests ran than the point allowed, or far fewer."""
    most = point["concurrency"]
    if not most:
        return np.zeros(starts.size)
    times = _seconds(server.rows["ts"])
    running = server.rows["running_reqs"].fill_null(0).to_numpy()
    first, last = np.searchsorted(times, starts), np.searchsorted(times, ends + 1.0)
    peak = np.array(
        [running[a:b].max() if b > a else 0 for a, b in zip(first, last, strict=True)], dtype=float
    )
    lanes = max(1, server.rows["lane"].n_unique())
    wanted = min(float(most), float(point["completed"] or most))
    too_many = peak > most * 1.1 + 1
    return np.where(too_many, 0.3, 0.0) + np.where(peak * lanes < wanted / 2, 0.1, 0.0)


def _match(
    server: Server,
    point: Mapping[str, Any],
    start: float,
    score: float,
    method: str,
    offset: float | None,
) -> Match:
    begun = datetime(1970, 1, 1) + timedelta(seconds=start)
    end = begun + timedelta(seconds=float(point["duration_s"]))
    return Match(server, begun, end, method, offset, score)


def _tail_name(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].casefold()


def _seconds(times: pl.Series) -> Floats:
    found: Floats = times.dt.epoch("us").to_numpy().astype(np.float64) / 1e6
    return found


def _second(moment: datetime) -> float:
    return (moment - datetime(1970, 1, 1)).total_seconds()
