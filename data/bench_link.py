"""Points joined to the runs that served them, with what the server's log says of their time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import duckdb
import polars as pl

from data import bench, bench_join, queries, token_check
from data import windows as w
from data.bench_join import Match, Server
from data.moment import utc_now
from data.run_samples import run_samples
from data.store import Store
from parsers import records

# A log goes on a while after its point: vLLM prints the last seconds with its next stats line.
_SETTLED = timedelta(seconds=60)


def join(
    store: Store, *, run_ids: Sequence[str] | None = None, only: Sequence[str] | None = None
) -> int:
    """Join points to the runs that served them; how many were joined.

    Points that were joined before the log of their time was whole are counted anew.

    Args:
        store: where the points and the runs are.
        run_ids: of an explicit join: the points of `only` are of these runs.
        only: points to join; without it those that have no run yet.
    """
    with store.cursor() as con:
        # Without a point there is nothing to join, and a frame of DuckDB's would cost the import
        # of pandas: more than any other part of a short import.
        if not queries.has_bench(con):
            return 0
        stored = bench.points(con).to_dicts()
        rows = [
            row
            for row in stored
            if (only is None and row["run_id"] is None) or (only and row["bench_id"] in only)
        ]
        wanted = [row for row in rows if bench_join.joinable(row) or run_ids]
        made = list(_recounted(con, stored)) + _joined(con, wanted, run_ids)
    frame = records.frame(made, records.BENCH_WINDOWS)

    def work(con: duckdb.DuckDBPyConnection) -> bool:
        bench.insert(con, "bench_windows", frame)
        return frame.height > 0

    store.transact(work)
    ids = {row["bench_id"] for row in wanted}
    return sum(bench_id in ids for bench_id in frame["bench_id"])


def _joined(
    con: duckdb.DuckDBPyConnection,
    wanted: Sequence[Mapping[str, Any]],
    run_ids: Sequence[str] | None,
) -> list[dict[str, Any]]:
    """Rows of bench_windows of the points whose run is found."""
    if not wanted:
        return []
    servers = [_server(con, card) for card in _candidates(con, wanted, run_ids)]
    taken = {} if run_ids else _taken(con, servers)
    found = bench_join.find(wanted, servers, taken)
    made = [_window(row, found.get(row["bench_id"]), servers, run_ids) for row in wanted]
    return [row for row in made if row is not None]


def _server(con: duckdb.DuckDBPyConnection, card: Mapping[str, Any]) -> Server:
    return Server(card, run_samples(con, card["run_id"]))


def _recounted(
    con: duckdb.DuckDBPyConnection, stored: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """New rows of bench_windows where the log has gone on since the point was joined."""
    if not any(map(_is_early, stored)):
        return
    cards = {card["run_id"]: card for card in queries.runs_table(con).to_dicts()}
    servers: dict[str, Server] = {}
    for row in filter(_is_early, stored):
        card, until = cards.get(row["run_id"]), _log_until(row)
        if card is None or until is None or (card["last_ts"] or until) <= until:
            continue
        if row["run_id"] not in servers:
            servers[row["run_id"]] = _server(con, card)
        server = servers[row["run_id"]]
        match = Match(
            server, row["window_started_at"], row["window_ended_at"], row["join_method"],
            row["clock_offset_s"], 0.0,
        )  # fmt: skip
        made = _window(row, match, [server], None)
        if made is not None:
            yield made


def _is_early(row: Mapping[str, Any]) -> bool:
    """Whether the point was joined before the log of its time was whole."""
    if row["window_ended_at"] is None:
        return False
    until = _log_until(row)
    return bool(until is not None and until < row["window_ended_at"] + _SETTLED)


def _log_until(row: Mapping[str, Any]) -> datetime | None:
    """How far the server's log had come when the point was joined."""
    told = json.loads(row["join_detail"] or "{}").get("log_until")
    return datetime.fromisoformat(told) if told else None


def _candidates(
    con: duckdb.DuckDBPyConnection, rows: Sequence[Mapping[str, Any]], run_ids: Sequence[str] | None
) -> list[dict[str, Any]]:
    """The runs that may have served any of the points; runs without samples are none."""
    cards = queries.runs_table(con).to_dicts()
    if run_ids is not None:
        return [card for card in cards if card["run_id"] in run_ids]
    return [
        card
        for card in cards
        if card["n_decode"] or card["n_stats"]
        if any(bench_join.fits(row, card) and _enough(row, card) for row in rows)
    ]


def _enough(row: Mapping[str, Any], card: Mapping[str, Any]) -> bool:
    """Whether the run made half of the point's tokens at all; its samples are dear to load."""
    made = card["gen_tokens"]
    return made is None or made >= row["output_tokens"] / 2


def _taken(
    con: duckdb.DuckDBPyConnection, servers: Sequence[Server]
) -> dict[str, tuple[Mapping[str, Any], Match]]:
    """Points that are joined already keep their times."""
    by_run = {server.card["run_id"]: server for server in servers}
    return {
        row["bench_id"]: (
            row,
            Match(by_run[row["run_id"]], row["window_started_at"], row["window_ended_at"],
                  row["join_method"], row["clock_offset_s"], 0.0),
        )
        for row in bench.points(con, list(by_run)).to_dicts()
        if row["window_started_at"] is not None and row["run_id"] in by_run
    }  # fmt: skip


def _window(
    row: Mapping[str, Any],
    match: Match | None,
    servers: Sequence[Server],
    run_ids: Sequence[str] | None,
) -> dict[str, Any] | None:
    """The row of bench_windows of one point; None if it was found nowhere."""
    now = utc_now()
    base = {"bench_id": row["bench_id"], "at": now}
    if match is None:
        if not run_ids:
            return None
        if len(run_ids) > 1:  # of which of them it is nobody knows
            return None
        why = "given by the user; its time was not found in the log"
        run = run_ids[0]
        return {**base, "run_id": run, "method": "explicit", "detail": json.dumps({"why": why})}
    values = server_values(match.server, match.start, match.end)
    extra = json.loads(row["extra"] or "{}")
    client = extra.get("args") if isinstance(extra.get("args"), Mapping) else {}
    check = token_check.check(
        match.server.rows, match.start, match.end, row, match.server.args, client or {}
    )
    detail: dict[str, Any] = {"why": _why(match)}
    if match.server.card["last_ts"] is not None:
        detail["log_until"] = match.server.card["last_ts"].isoformat()
    if check is not None:
        detail["allowed"] = asdict(check.allowance)
        detail["agrees"] = check.agrees
        detail["client_tokens"] = check.client_tokens
        values |= {
            "log_tokens": check.log_tokens,
            "token_difference": check.difference,
            "allowed_tokens": check.allowance.total,
        }
    return {
        **base,
        "run_id": match.server.card["run_id"],
        "method": "explicit" if run_ids else match.method,
        "clock_offset_s": match.clock_offset_s,
        "started_at": match.start,
        "ended_at": match.end,
        **values,
        "detail": json.dumps(detail),
    }


def _why(match: Match) -> str:
    if match.method == "clock":
        if match.clock_offset_s:
            return f"at its clock, {match.clock_offset_s / 3600:+g} h on the server's"
        return "at its clock"
    return "recognised by its tokens, duration and requests"


def server_values(server: Server, start: datetime, end: datetime) -> dict[str, float | None]:
    """What the server's log says of a stretch of time.

    gen_tok_s (tokens over the stretch), running_reqs and queued_reqs (means over time, summed
    over lanes), accept_len (weighted by request steps), kv_usage (highest of any lane),
    prefix_hit_rate (of the prompt tokens, where the log counts them, else as last printed).
    """
    held = token_check.inside(server.rows, start, end)
    if held.is_empty():
        return {}
    length = (end - start).total_seconds()
    stamped = held.filter(pl.col("ts").is_between(start, end + timedelta(seconds=1)))
    gauges = stamped if stamped.height else held
    return {
        "gen_tok_s": w.total(held["tokens"]) / length if length > 0 else None,
        "running_reqs": _over_lanes(gauges, "running_reqs"),
        "queued_reqs": _over_lanes(gauges, "queued_reqs"),
        "accept_len": w.accept_len(held),
        "kv_usage": _highest(held["kv_usage"]),
        "prefix_hit_rate": _hit_rate(server.counted, start, end),
    }


def _over_lanes(rows: pl.DataFrame, name: str) -> float | None:
    length = (pl.col("ts") - pl.col("begin")).dt.total_microseconds().clip(1)
    weighed = rows.with_columns(length=length)
    means = [w.weighted(lane, name, "length") for lane in weighed.partition_by("lane")]
    known = [mean for mean in means if mean is not None]
    return sum(known) if known else None


def _highest(values: pl.Series) -> float | None:
    known = values.drop_nulls()
    return float(known.max()) if known.len() else None  # type: ignore[arg-type]


def _hit_rate(samples: pl.DataFrame, start: datetime, end: datetime) -> float | None:
    inside = samples.filter(pl.col("ts").is_between(start, end))
    prompts = inside.filter(pl.col("cached_tokens").is_not_null() & (pl.col("new_tokens") >= 0))
    total = w.total(prompts["cached_tokens"]) + w.total(prompts["new_tokens"])
    if total:
        return w.total(prompts["cached_tokens"]) / total
    printed = inside.drop_nulls("prefix_hit_rate")
    return float(printed["prefix_hit_rate"][-1]) if printed.height else None
