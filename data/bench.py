"""Benchmark results in the store: adding files, joining points to runs, and reading them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import polars as pl

from data import bench_join, queries, token_check
from data import windows as w
from data.bench_join import Match, Server
from data.errors import CommandError
from data.store import Store
from parsers import records

_FILES: records.Schema = {
    "bench_file": records.TEXT, "content": records.TEXT, "bytes": records.BIG,
    "format": records.TEXT, "n_points": records.INT, "unread": records.TEXT, "at": records.TIME,
}  # fmt: skip
_MAPS: records.Schema = {
    "bench_file": records.TEXT, "header": records.TEXT, "name": records.TEXT,
    "unit": records.TEXT, "at": records.TIME,
}  # fmt: skip


def known_file(con: duckdb.DuckDBPyConnection, content: str) -> dict[str, Any] | None:
    """The latest row of bench_files with this content (SHA-256); None if it was never read."""
    rows = con.sql(
        'SELECT * FROM bench_files WHERE content = $content ORDER BY "at" DESC LIMIT 1',
        params={"content": content},
    ).pl()
    return rows.row(0, named=True) if rows.height else None


def latest(con: duckdb.DuckDBPyConnection, bench_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What stands of these points, by bench_id: columns of BENCH_RESULTS."""
    rows = con.sql(
        "SELECT * FROM bench_results WHERE list_contains($ids, bench_id) "
        "QUALIFY row_number() OVER (PARTITION BY bench_id ORDER BY seq DESC) = 1",
        params={"ids": list(bench_ids)},
    ).pl()
    return {row["bench_id"]: row for row in rows.to_dicts()}


def of_file(con: duckdb.DuckDBPyConnection, bench_file: str) -> list[dict[str, Any]]:
    """What stands of the points of a file."""
    rows = con.sql(
        "SELECT * FROM bench_results "
        "QUALIFY row_number() OVER (PARTITION BY bench_id ORDER BY seq DESC) = 1 "
        "AND bench_file = $bench_file",
        params={"bench_file": bench_file},
    ).pl()
    return rows.to_dicts()


def add(store: Store, results: pl.DataFrame, files: Sequence[Mapping[str, Any]]) -> None:
    """Store points and the files they came from, all or nothing."""
    now = datetime.now(UTC).replace(tzinfo=None)
    read = records.frame([{**file, "at": now} for file in files], _FILES)

    def work(con: duckdb.DuckDBPyConnection) -> bool:
        _insert(con, "bench_results", results)
        _insert(con, "bench_files", read)
        return results.height > 0

    store.transact(work)


def maps(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, str | None]]:
    """What the user said of headers that are not known: header -> column and unit."""
    rows = con.sql(
        "SELECT header, name, unit FROM column_maps "
        'QUALIFY row_number() OVER (PARTITION BY header ORDER BY "at" DESC) = 1'
    ).fetchall()
    return {header: (name, unit) for header, name, unit in rows if name}


def map_column(store: Store, header: str, name: str, unit: str | None) -> None:
    """Say once what a header means; CommandError for a column that there is not."""
    plain = name not in records.BENCH_RESULTS and name not in ("label", "dimension")
    if plain or name in ("bench_id", "bench_file", "run_id", "extra", "position", "seq"):
        raise CommandError(
            f"{name!r} is no column of a benchmark; `servescope bench --help` names them"
        )
    now = datetime.now(UTC).replace(tzinfo=None)
    row = {"header": header, "name": name, "unit": unit, "at": now}

    def work(con: duckdb.DuckDBPyConnection) -> bool:
        _insert(con, "column_maps", records.frame([row], _MAPS))
        return True

    store.transact(work)


def unread_files(con: duckdb.DuckDBPyConnection) -> list[tuple[str, list[str]]]:
    """Files with columns that nobody has said the meaning of yet, and these columns."""
    rows = con.sql(
        "SELECT bench_file, unread FROM bench_files WHERE unread IS NOT NULL "
        'QUALIFY row_number() OVER (PARTITION BY bench_file ORDER BY "at" DESC) = 1 '
        "ORDER BY bench_file"
    ).fetchall()
    known = maps(con)
    left = [(path, [h for h in json.loads(text) if h not in known]) for path, text in rows]
    return [(path, headers) for path, headers in left if headers]


def files_with(con: duckdb.DuckDBPyConnection, header: str) -> list[str]:
    """The files that had a column of this name which nobody knew."""
    rows = con.sql(
        "SELECT DISTINCT bench_file FROM bench_files "
        "WHERE list_contains(from_json(unread, '[\"VARCHAR\"]'), $header) ORDER BY bench_file",
        params={"header": header},
    ).fetchall()
    return [path for (path,) in rows]


def points(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str] = ()) -> pl.DataFrame:
    """All points, or those of these runs: columns of the view bench_points and run_label."""
    return con.sql(
        "SELECT p.*, r.label AS run_label FROM bench_points p "
        "LEFT JOIN runs r ON r.run_id = p.run_id "
        "WHERE len($run_ids) = 0 OR list_contains($run_ids, p.run_id) "
        "ORDER BY coalesce(p.label, p.bench_file), p.bench_file, p.position, p.bench_id",
        params={"run_ids": list(run_ids)},
    ).pl()


def join(
    store: Store, *, run_ids: Sequence[str] | None = None, only: Sequence[str] | None = None
) -> int:
    """Join points to the runs that served them; how many were joined.

    Args:
        run_ids: of an explicit join: the points of `only` are of these runs.
        only: points to join; without it those that have no run yet.
    """
    with store.cursor() as con:
        # Without a point there is nothing to join, and a frame of DuckDB's would cost the import
        # of pandas: more than any other part of a short import.
        if con.execute("SELECT 1 FROM bench_results LIMIT 1").fetchone() is None:
            return 0
        rows = [
            row
            for row in points(con).to_dicts()
            if (only is None and row["run_id"] is None) or (only and row["bench_id"] in only)
        ]
        wanted = [row for row in rows if bench_join.joinable(row) or run_ids]
        if not wanted:
            return 0
        servers = [
            Server(card, queries.run_samples(con, card["run_id"]))
            for card in _candidates(con, wanted, run_ids)
        ]
        taken = {} if run_ids else _taken(con, servers)
        found = bench_join.find(wanted, servers, taken)
        made = [_window(row, found.get(row["bench_id"]), servers, run_ids) for row in wanted]
    joined = [row for row in made if row is not None]
    frame = records.frame(joined, records.BENCH_WINDOWS)

    def work(con: duckdb.DuckDBPyConnection) -> bool:
        _insert(con, "bench_windows", frame)
        return frame.height > 0

    store.transact(work)
    return frame.height


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
        for row in points(con, list(by_run)).to_dicts()
        if row["window_started_at"] is not None and row["run_id"] in by_run
    }  # fmt: skip


def _window(
    row: Mapping[str, Any],
    match: Match | None,
    servers: Sequence[Server],
    run_ids: Sequence[str] | None,
) -> dict[str, Any] | None:
    """The row of bench_windows of one point; None if it was found nowhere."""
    now = datetime.now(UTC).replace(tzinfo=None)
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


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame) -> None:
    """Append rows; as Arrow, since Python's variables are out of the store's reach."""
    if rows.is_empty():
        return
    con.register("new_rows", rows.to_arrow())
    try:
        con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM new_rows")
    finally:
        con.unregister("new_rows")
