"""Frames as files: CSV, Parquet, JSON, Markdown.

A text cell of a CSV or Markdown table that a spreadsheet would take as a formula gets a leading
apostrophe. Numbers keep their sign; Parquet and JSON, which nothing evaluates, keep the text.
"""

from __future__ import annotations

import io

import polars as pl

from data.card import source_name
from data.names import printable

FORMATS = ("csv", "parquet", "json", "md")

# At the start of the cell or of a line in it, also after blanks (of any kind) that a program may
# strip; the wide forms count too.
_FORMULA = r"(^|[\r\n])([^\S\r\n]*[=+\-@＝＋－＠])|^([\t\r])"


def render(frame: pl.DataFrame, form: str) -> bytes:
    """The frame as the content of a file in one of FORMATS."""
    out = io.BytesIO()
    if form == "parquet":
        frame.write_parquet(out)
    elif form == "json":
        return (frame.write_json() + "\n").encode()
    elif form == "csv":
        pl.DataFrame([_heads(frame)], orient="row").write_csv(out, include_header=False)
        harmless(_without_lists(frame)).write_csv(out, include_header=False)
    else:
        return markdown(harmless(_without_lists(frame))).encode()
    return out.getvalue()


def harmless(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with no text cell that starts a formula."""
    texts = pl.col(pl.String)
    marked = texts.str.replace_all(_FORMULA, "${1}'${2}${3}")
    return frame.with_columns(
        pl.when(texts.str.contains(_FORMULA) & ~marked.str.starts_with("'"))
        .then(pl.lit("'") + marked)
        .otherwise(marked)
        .name.keep()
    )


def markdown(frame: pl.DataFrame) -> str:
    """A table that shows every row; cells cannot break out of it, nor be links or pictures."""
    lines = [
        "| " + " | ".join(map(_cell, _heads(frame))) + " |",
        "|" + " --- |" * frame.width,
    ]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in frame.iter_rows()]
    return "\n".join(lines) + "\n"


def _heads(frame: pl.DataFrame) -> list[str]:
    """The names of the columns, which a question in SQL may choose, as harmless as cells."""
    return harmless(pl.DataFrame({"name": frame.columns}))["name"].to_list()


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    for bad in ("\\", "|", "[", "`"):
        text = text.replace(bad, "\\" + bad)
    return text.replace("<", "&lt;").replace("\r", " ").replace("\n", " ")


def _without_lists(frame: pl.DataFrame) -> pl.DataFrame:
    """Lists as text, since tables of text have none."""
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    return frame.with_columns(
        pl.when(pl.col(name).is_not_null())
        .then(
            pl.format(
                "[{}]",
                pl.col(name)
                .list.eval(pl.element().cast(pl.String).fill_null("null"))
                .list.join(", "),
            )
        )
        .alias(name)
        for name in lists
    )


def table(frame: pl.DataFrame) -> str:
    """An aligned table for the screen; control characters of a log cannot reach the terminal."""
    rows = [frame.columns] + [[_shown(value) for value in row] for row in frame.iter_rows()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def run_list(runs: pl.DataFrame) -> str:
    """The runs as a table for the screen."""
    if runs.is_empty():
        return "no runs yet; `servescope import PATH` or `servescope up PATH` brings some"
    return table(
        runs.select(
            run=pl.col("run_id").str.head(12),
            label=pl.col("label"),
            source=pl.col("source_id").map_elements(source_name, pl.String),
            engine=pl.concat_str("engine", "engine_version", separator=" ", ignore_nulls=True),
            model=pl.col("model"),
            started=pl.coalesce("started_at", "first_ts").dt.truncate("1s"),
            state=pl.col("end_state"),
            duration_s=pl.col("duration_s").round(0),
            decode_tok_s_at_1=pl.col("decode_tok_s_at_1").round(1),
            steady_tok_s=pl.col("steady_tok_s").round(1),
            accept_len=pl.col("accept_len").round(2),
            max_running=pl.col("max_running"),
            faults=pl.col("n_faults"),
        )
    ).rstrip("\n")


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return printable(f"{value:.6g}" if isinstance(value, float) else str(value))
