"""Incidents as their page shows them: the answer first, tables, and why some do not count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl
import streamlit as st

from dashboard import words

# Lanes in the order in which they are drawn, each with its name.
LANES: Final = {
    "out_of_memory": "out of memory",
    "gpu": "GPU error",
    "communication": "communication",
    "process": "process died",
    "fault": "other fault",
    "stall": "stall",
    "memory_leak": "memory leak",
    "retraction": "retraction",
    "preemption": "preemption",
    "pd_failure": "KV transfer",
    "sampling": "sampling",
    "server_error": "HTTP 5xx",
    "traceback": "traceback",
    "override": "setting changed",
    "unread": "lines not read",
}
SEVERITIES: Final = {"fault": "fault", "warning": "warning"}
_WHY: Final = {
    "harmless": "Only words: inside arguments or a request.",
    "traceback": "The server caught it and went on.",
    "client_error": "A client's request was refused; the server went on.",
    "after_stop": "It came after an orderly stop.",
}
_TITLE_CHARS: Final = 160
LISTED: Final = 2_000  # rows that a browser is sent


def lane_name(lane: str) -> str:
    """A lane in words; of one that a later release stores its own name."""
    return LANES.get(lane, lane.replace("_", " "))


def named(found: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """Rows of data.incidents with class (the lane in words), run (its name), what (title and
    detail) and place (file and line).

    Args:
        names: of data.run_names.
    """
    detail = pl.col("detail") if "detail" in found.columns else pl.lit(None, pl.String)
    said = pl.col("title").str.contains(detail, literal=True).fill_null(True)
    whole = pl.when(said).then("title").otherwise(pl.format("{}: {}", "title", detail))
    cut = pl.concat_str(whole.str.head(_TITLE_CHARS - 1), pl.lit("…"))
    place = found.select("source_id", "line_no", "byte_offset").iter_rows()
    named = found.with_columns(
        run=pl.col("run_id").replace_strict(names, default=None, return_dtype=pl.String),
        what=pl.when(whole.str.len_chars() > _TITLE_CHARS).then(cut).otherwise(whole),
        place=pl.Series([_place(*row) for row in place], dtype=pl.String),
    )
    if "lane" not in found.columns:
        return named
    lanes = {lane: lane_name(lane) for lane in found["lane"].unique()}
    return named.with_columns(pl.col("lane").replace_strict(lanes).alias("class"))


def _place(source_id: str | None, line_no: int | None, byte_offset: int | None) -> str | None:
    """Where the line stands: server.log:129 (byte 21,367)."""
    if byte_offset is None:
        return None
    line = "" if line_no is None else f":{line_no}"
    return f"{(source_id or '').rpartition('/')[2]}{line} (byte {byte_offset:,})"


def headline(found: pl.DataFrame, runs: int) -> str:
    """The answer: whether anything went wrong, what, where and when.

    Args:
        found: rows of `named`, newest first.
        runs: how many runs were looked at.
    """
    faults = found.filter(severity="fault")
    warnings = found.filter(severity="warning")
    inside = f"in {words.counted(runs, 'run')}"
    counted = words.counted(warnings.height, "warning")
    if faults.is_empty():
        latest = f", the latest {_at(warnings)}" if warnings.height else ""
        return f"No fault {inside}; {counted}{latest}."
    crashed = bool((faults["end_state"] == "crashed").all())
    noun = ("crash", "crashes") if crashed else ("fault", "faults")
    if faults.height == 1:
        return f"1 {noun[0]} {inside}: {_at(faults)}; {counted}."
    return f"{faults.height:,} {noun[1]} {inside}, the latest {_at(faults)}; {counted}."


def _at(found: pl.DataFrame) -> str:
    """The first row in words: what, in which run, when."""
    row = found.row(0, named=True)
    where = "" if row["run"] is None else f" in {row['run']}"
    when = "" if row["first_ts"] is None else f" at {words.moment(row['first_ts'])}"
    return f"{row['what']}{where}{when}"


def table(found: pl.DataFrame) -> pl.DataFrame:
    """One row an incident, with the columns of `columns`."""
    return found.select(
        "severity", "class", "what", "first_ts", "last_ts", "count", "run", "evidence", "place"
    )


def harmless_table(found: pl.DataFrame) -> pl.DataFrame:
    """One row for what looks like a fault and is none, with the reason."""
    return found.select(
        "what",
        pl.col("kind").replace_strict(_WHY, default=None).alias("why"),
        "first_ts", "count", "run", "evidence", "place",
    )  # fmt: skip


def columns() -> dict[str, Any]:
    """Titles, units and definitions of the columns of both tables."""
    text, when = st.column_config.TextColumn, st.column_config.DatetimeColumn
    clock = "YYYY-MM-DD HH:mm:ss"
    return {
        "severity": text("Severity", help="A fault ends or breaks a server; a warning slows it."),
        "class": text("Class"),
        "what": text("What happened", width="medium"),
        "why": text("Why it does not count", width="large"),
        "first_ts": when("First", format=clock, help="As the log's clock shows it."),
        "last_ts": when("Last", format=clock, help="As the log's clock shows it."),
        "count": st.column_config.NumberColumn(
            "Lines", format="%d", help="Lines of the log with this one cause."
        ),
        "run": text("Run"),
        "evidence": text("Quoted line", width="large", help="The line it was seen from first."),
        "place": text("Where", help="File, line, and byte at which the line begins."),
    }


def quote(row: Mapping[str, Any]) -> str:
    """The quoted line of an incident with the exception it led to."""
    told = [row["evidence"], row["detail"] if row["detail"] != row["evidence"] else None]
    return "\n".join(text for text in told if text) or "No line was kept."
