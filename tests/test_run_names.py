"""What runs are called: one name, as short as tells it from the others, on every page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl

from data.run_names import run_names

AT = datetime(2026, 11, 29, 15, 0, 12)


def runs(*rows: tuple[str, str | None, str, datetime | None]) -> pl.DataFrame:
    schema: dict[str, Any] = {
        "run_id": pl.String, "label": pl.String, "source_id": pl.String,
        "started_at": pl.Datetime("us"),
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_a_run_is_its_label_else_its_file_with_the_folder() -> None:
    found = runs(("a", "eagle", "/logs/x/server.log", AT), ("b", None, "/logs/x/server.log", AT))
    assert run_names(found) == {"a": "eagle", "b": "x/server.log"}


def test_runs_that_share_a_name_have_their_start_and_only_then_their_id() -> None:
    log, later = "/logs/x/server.log", AT.replace(hour=16)
    found = runs(
        ("aaaaaaaa11", None, log, AT), ("bbbbbbbb22", None, log, later),
        ("cccccccc33", "x/server.log", "/else.log", later), ("dddddddd44", None, log, None),
        ("eeeeeeee55", None, "/logs/y/server.log", AT),
    )  # fmt: skip
    assert list(run_names(found).values()) == [
        "x/server.log · 2026-11-29 15:00:12", "x/server.log · 2026-11-29 16:00:12 · bbbbbbbb",
        "x/server.log · 2026-11-29 16:00:12 · cccccccc", "x/server.log", "y/server.log",
    ]  # fmt: skip


def test_a_name_turns_no_text_around() -> None:
    assert run_names(runs(("a", "\x1b[31mred \u202egnp.exe", "/x.log", AT)))["a"] == (
        "�[31mred �gnp.exe"
    )
