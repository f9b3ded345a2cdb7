"""Every SELECT that a screen or a command needs.

Each function takes a cursor of the store (`Store.cursor()`) and returns a polars frame or a small
record. Times are UTC without a zone; a value that is not known is null, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import polars as pl

from data.asked import asked
from data.errors import CommandError
from data.literal import literal

_RUNS = """
SELECT r.*, s.* EXCLUDE (run_id),
    epoch(r.ready_at) - epoch(r.started_at) AS ready_after_s,
    epoch(coalesce(r.ended_at, s.last_ts)) - epoch(coalesce(r.started_at, s.first_ts))
        AS duration_s
FROM runs r LEFT JOIN run_summary s ON s.run_id = r.run_id
"""


def runs_table(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """One row a run, newest first.

    Columns: all of parsers.records.RUNS, tags, note, archived, baseline; of the summary n_decode,
    n_prefill, n_stats, n_spec, first_ts, last_ts, gen_tokens, prompt_tokens, steady_s,
    steady_tok_s, at1_s, decode_tok_s_at_1, accept_len, max_running, max_queued, max_kv_usage,
    max_gen_tok_s, n_faults, n_retractions; and ready_after_s, duration_s.
    """
    return asked(
        con, _RUNS + "ORDER BY coalesce(r.started_at, s.first_ts) DESC NULLS LAST, r.run_id"
    )


def run_card(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any] | None:
    """The row of `runs_table` of one run; None if there is no such run."""
    rows = asked(con, _RUNS + "WHERE r.run_id = $run_id", {"run_id": run_id}).to_dicts()
    return rows[0] if rows else None


def find_runs(con: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """The run_ids that an id, a label, a file or a unique prefix of an id means, newest first.

    A file may be given with as much of its path as is needed. CommandError if there is no such
    run, or if a prefix fits several.
    """
    named = (
        "run_id = $text",
        "label = $text OR source_id = $text OR ends_with(source_id, '/' || $text)",
        "starts_with(run_id, $text)",
    )
    for condition in named if text else ():
        query = f"SELECT run_id FROM runs WHERE {condition} ORDER BY started_at DESC NULLS LAST"
        found = asked(con, query, {"text": text})["run_id"].to_list()
        if len(found) > 1 and condition == named[2]:
            shown = ", ".join(sorted(found)[:5])
            raise CommandError(f"{text!r} means {len(found)} runs ({shown}); give a longer id")
        if found:
            return found
    raise CommandError(f"no run is called {text!r}; `servescope runs` lists them")


def has_bench(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether any benchmark result is stored."""
    return con.execute("SELECT 1 FROM bench_results LIMIT 1").fetchone() is not None


def runs_of_files(con: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> list[str]:
    """The runs that were read from these files, oldest first."""
    rows = con.sql(
        "SELECT run_id FROM runs WHERE list_contains($paths, source_id) ORDER BY started_at",
        params={"paths": list(paths)},
    ).fetchall()
    return [run_id for (run_id,) in rows]


def runs_named(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """What a list of runs needs to name them, newest first, at a fraction of runs_table's cost.

    Columns: run_id, source_id, label, engine, engine_version, started_at.
    """
    return asked(
        con,
        "SELECT run_id, source_id, label, engine, engine_version, started_at FROM runs "
        "ORDER BY started_at DESC NULLS LAST, run_id",
    )


def baseline_runs(con: duckdb.DuckDBPyConnection) -> list[str]:
    """The runs that are marked as baselines, newest first."""
    rows = con.sql(
        "SELECT run_id FROM runs WHERE baseline ORDER BY started_at DESC NULLS LAST, run_id"
    ).fetchall()
    return [run_id for (run_id,) in rows]


def compared_with(con: duckdb.DuckDBPyConnection, run_id: str) -> str | None:
    """The run that this one is held against: the marked one of its model, the latest marked."""
    row = con.execute(
        "SELECT b.run_id FROM runs b, runs r WHERE r.run_id = $run_id AND b.run_id <> $run_id "
        "AND b.baseline AND b.model IS NOT DISTINCT FROM r.model "
        "ORDER BY b.started_at DESC NULLS LAST, b.run_id LIMIT 1",
        {"run_id": run_id},
    ).fetchone()
    return None if row is None else str(row[0])


def notes_written(con: duckdb.DuckDBPyConnection) -> int:
    """How often the user has said something of a run: grows when a baseline is marked."""
    row = con.execute("SELECT count(*) FROM run_notes").fetchone()
    return 0 if row is None else int(row[0])


def runs_written(con: duckdb.DuckDBPyConnection) -> tuple[int | None, ...]:
    """What differs after every append that said something of any run: its facts or its notes."""
    row = con.execute(
        "SELECT f.n, f.seq, n.n, n.seq FROM "
        "(SELECT count(*) AS n, max(seq) AS seq FROM run_facts) f, "
        "(SELECT count(*) AS n, max(seq) AS seq FROM run_notes) n"
    ).fetchone()
    assert row is not None
    return tuple(row)


def bench_written(con: duckdb.DuckDBPyConnection) -> tuple[int | None, ...]:
    """What differs after every append of a benchmark's points or of their windows."""
    row = con.execute(
        "SELECT r.n, r.seq, w.n, epoch_us(w.at)::BIGINT FROM "
        "(SELECT count(*) AS n, max(seq) AS seq FROM bench_results) r, "
        '(SELECT count(*) AS n, max("at") AS at FROM bench_windows) w'
    ).fetchone()
    assert row is not None
    return tuple(row)


def latest_run(con: duckdb.DuckDBPyConnection, source_id: str) -> str | None:
    """The run_id that started last in a source; None if it has none."""
    # Whatever else is known of runs is not asked for: this is, at every start of a source.
    row = con.execute(
        "SELECT coalesce(arg_max(run_id, started_at), max(run_id)) FROM run_facts "
        "WHERE source_id = $source_id",
        {"source_id": source_id},
    ).fetchone()
    return row[0] if row else None


def first_fault(con: duckdb.DuckDBPyConnection, run_id: str) -> dict[str, Any] | None:
    """The root of the run's last fault: title, detail; None if it had no fault."""
    rows = asked(
        con,
        "SELECT title, detail FROM incidents WHERE run_id = $run_id AND class = 'fault' "
        "ORDER BY last_ts DESC NULLS LAST, byte_offset DESC LIMIT 1",
        {"run_id": run_id},
    )
    return rows.row(0, named=True) if rows.height else None


def events(con: duckdb.DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    """A run's events in the order of the log: columns of parsers.records.EVENTS."""
    return asked(
        con,
        "SELECT * FROM events WHERE run_id = $run_id ORDER BY ts, file_id, byte_offset",
        {"run_id": run_id},
    )


def marked_events(con: duckdb.DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    """The events of a run that charts mark: ts, kind, severity, title; in the order of time."""
    return asked(
        con,
        "SELECT ts, kind, severity, title FROM events WHERE run_id = $run_id AND ts IS NOT NULL "
        "AND (severity = 'fault' OR kind IN ('ready', 'retraction', 'fault', 'stop')) "
        "ORDER BY ts, file_id, byte_offset",
        {"run_id": run_id},
    )


def run_incidents(con: duckdb.DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    """A run's faults and warnings, one row a cause, in the order of time: columns of the view.

    Without what the server changed of its settings, which stands with these.
    """
    return asked(
        con,
        "SELECT * FROM incidents WHERE run_id = $run_id AND severity <> 'info' "
        "UNION ALL BY NAME SELECT run_id, kind AS class, severity, title, detail, evidence, "
        "source_id, file_id, byte_offset, line_no, ts AS first_ts, ts AS last_ts, "
        '"count"::BIGINT AS "count" FROM events WHERE run_id = $run_id AND incident_id IS NULL '
        "AND severity <> 'info' AND kind <> 'override' ORDER BY first_ts NULLS FIRST, byte_offset",
        {"run_id": run_id},
    )


def sources(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Every source ever read: source_id, kind, location, label, zone, at; one row each."""
    return asked(
        con,
        "SELECT * FROM sources QUALIFY row_number() OVER "
        '(PARTITION BY source_id ORDER BY "at" DESC) = 1 ORDER BY source_id',
    )


def ingest_log(con: duckdb.DuckDBPyConnection, source_id: str | None = None) -> pl.DataFrame:
    """What reading noticed, newest first: columns of parsers.records.INGEST_LOG."""
    return asked(
        con,
        "SELECT * FROM ingest_log WHERE $source_id IS NULL OR source_id = $source_id "
        'ORDER BY "at" DESC',
        {"source_id": source_id},
    )


def access_counts(con: duckdb.DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    """Requests of a run by minute, method, path and status; column n."""
    return asked(
        con,
        "SELECT minute, method, path, status, sum(n)::BIGINT AS n FROM access_counts "
        "WHERE run_id = $run_id GROUP BY ALL ORDER BY ALL",
        {"run_id": run_id},
    )


def bench_points(con: duckdb.DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    """The benchmark points joined to a run: columns of the view, by concurrency."""
    return asked(
        con,
        "SELECT * FROM bench_points WHERE run_id = $run_id "
        "ORDER BY concurrency NULLS LAST, request_rate NULLS LAST, started_at, bench_id",
        {"run_id": run_id},
    )


def base_candidates(con: duckdb.DuckDBPyConnection, run_id: str, most: int) -> list[str]:
    """Runs of the same engine, model and machine without speculation that have steady windows.

    Of each configuration the one closest in time; of these at most `most`, the closest first.
    """
    same = " AND ".join(
        f"coalesce(b.{name} = r.{name}, true)"
        for name in ("engine_version", "hardware", "gpus", "tp", "dp", "pp", "ep")
    )
    rows = asked(
        con,
        "SELECT b.run_id, abs(epoch(b.started_at) - epoch(r.started_at)) AS apart "
        "FROM runs r JOIN runs b ON b.run_id <> r.run_id "
        f"AND b.engine = r.engine AND b.model IS NOT DISTINCT FROM r.model AND {same} "
        "JOIN run_summary s ON s.run_id = b.run_id AND s.steady_s > 0 "
        "WHERE r.run_id = $run_id AND b.spec_algorithm IS NULL AND b.spec_draft_tokens IS NULL "
        "QUALIFY row_number() OVER (PARTITION BY b.config_hash, hash(b.effective) "
        "ORDER BY apart NULLS LAST, b.run_id) = 1 "
        "ORDER BY apart NULLS LAST, b.run_id LIMIT $most",
        {"run_id": run_id, "most": most},
    )
    return list(rows["run_id"])


def exported(con: duckdb.DuckDBPyConnection, what: str, run_ids: list[str]) -> pl.DataFrame:
    """All rows of runs, samples, events or bench_results; of these runs only, if any are named."""
    if what == "bench_results":
        return asked(
            con,
            "SELECT * FROM bench_points WHERE len($run_ids) = 0 "
            "OR list_contains($run_ids, run_id) ORDER BY bench_file, position, bench_id",
            {"run_ids": run_ids},
        )
    if what == "runs":
        frame = runs_table(con)
        return frame.filter(pl.col("run_id").is_in(run_ids)) if run_ids else frame
    view = {"samples": "samples_timed", "events": "events"}[what]
    # As in run_samples, no parameter for what may be millions of rows.
    chosen = f"WHERE run_id IN ({', '.join(map(literal, run_ids))})" if run_ids else ""
    return asked(con, f"SELECT * FROM {view} {chosen} ORDER BY run_id, ts, file_id, byte_offset")
