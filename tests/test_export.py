"""Exports hold what the store holds, and no cell of them can start a formula."""

from __future__ import annotations

import io
import json
from datetime import datetime

import polars as pl
import pytest

from data import export

FRAME = pl.DataFrame(
    {
        "run_id": ["a", "b"],
        "ts": [datetime(2026, 3, 1, 12), None],
        "gen_tok_s": [-1.5, None],
        "accept_per_position": [[0.9, None], None],
    }
)


@pytest.mark.parametrize(
    "text",
    [
        "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\rx", "  =1", "\u00a0=1", "\n=1", "ok\n=1",
        "ok\r\n  @x", "＝1",
    ],
)  # fmt: skip
def test_formula_cells_get_a_leading_apostrophe(text: str) -> None:
    frame = pl.DataFrame({"label": [text]})
    [cell] = export.harmless(frame)["label"].to_list()
    assert cell.startswith("'")
    assert cell.replace("'", "") == text
    for line in cell.splitlines():
        assert not line.lstrip().startswith(tuple("=+-@＝"))
    assert pl.read_parquet(io.BytesIO(export.render(frame, "parquet"))).equals(frame)


@pytest.mark.parametrize("text", ["a=1", "x - y", "ok\nfine", "", '{"a": -1}', "'=1"])
def test_harmless_cells_stay_as_they_are(text: str) -> None:
    assert export.harmless(pl.DataFrame({"label": [text]}))["label"].to_list() == [text]


def test_csv_keeps_numbers_and_blanks() -> None:
    text = export.render(FRAME, "csv").decode()
    assert text.splitlines() == [
        "run_id,ts,gen_tok_s,accept_per_position",
        'a,2026-03-01T12:00:00.000000,-1.5,"[0.9, null]"',
        "b,,,",
    ]


def test_json_is_one_list_of_objects() -> None:
    rows = json.loads(export.render(FRAME, "json"))
    assert rows[0]["accept_per_position"] == [0.9, None]
    assert rows[1] == {"run_id": "b", "ts": None, "gen_tok_s": None, "accept_per_position": None}


def test_markdown_cells_cannot_break_the_table() -> None:
    frame = pl.DataFrame({"title": ["a|b\nc", None]})
    assert export.render(frame, "md").decode() == "| title |\n| --- |\n| a\\|b c |\n|  |\n"


def test_empty_frame_has_its_header() -> None:
    assert export.render(FRAME.clear(), "csv").decode().startswith("run_id,ts,")


def test_names_of_columns_are_as_harmless_as_cells() -> None:
    frame = pl.DataFrame({"=1+1": ["![x](http://e.example/x)"], "a|<b>": ["`c`"]})
    assert export.render(frame, "csv").decode().splitlines()[0] == "'=1+1,a|<b>"
    assert export.render(frame, "md").decode().splitlines() == [
        "| '=1+1 | a\\|&lt;b> |",
        "| --- | --- |",
        "| !\\[x](http://e.example/x) | \\`c\\` |",
    ]
    assert pl.read_json(export.render(frame, "json")).columns == frame.columns
