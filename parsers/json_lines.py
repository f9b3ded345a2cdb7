"""Lines that are one JSON object each: docker's files, the journal, vLLM's records, collectors.

docker: log, stream, time. journalctl -o json: MESSAGE, __REALTIME_TIMESTAMP. vLLM 0.32 on with
`--logging-config.formatter json`: asctime, message, exc_info, vllm_process_name. Others name the
text message, msg or textPayload and the time time, timestamp or @timestamp.
"""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from parsers import partials
from parsers.records import TIME
from parsers.stamps import ahead_of_utc, moment

_TEXTS = ("log", "message", "MESSAGE", "msg", "textPayload")
_TIMES = ("time", "timestamp", "@timestamp")
_OTHERS = (
    "stream",
    "asctime",
    "exc_info",
    "vllm_process_name",
    "process",
    "__REALTIME_TIMESTAMP",
    "CONTAINER_PARTIAL_MESSAGE",
    "CONTAINER_ID",
)
_FIELDS = (*_TEXTS, *_TIMES, *_OTHERS)
_SCHEMA = pl.Struct(dict.fromkeys(_FIELDS, pl.String))


def opened(rows: pl.DataFrame, before: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The message of each record in place of the record, with the stamp that stands beside it.

    Args:
        rows: as `parsers.wrappers` passes them from layer to layer.
        before: a pattern for what may stand before the record.

    Returns:
        the rows with messages, and those that hold none, as they were.
    """
    fields = _decoded(rows["line"].str.replace(before, ""))
    text = fields.select(pl.coalesce(_TEXTS)).to_series()
    known = text.is_not_null()
    if not known.all():
        closed = rows.filter(~known)
        rows, fields, text = rows.filter(known), fields.filter(known), text.filter(known)
    else:
        closed = rows.clear()
    who = fields.select(
        pl.concat_str(pl.col("stream", "CONTAINER_ID").fill_null(""), separator="|")
    ).to_series()
    opened = stamped(rows, *_times(fields)).with_columns(
        line=_written(fields, text),
        who=rows["who"] + who,
        off=rows["off"] + _place(rows["line"], text),
    )
    whole = fields["log"].is_null() | fields["log"].str.ends_with("\n")
    cut = ~whole | (fields["CONTAINER_PARTIAL_MESSAGE"] == "true").fill_null(False)
    if cut.any():
        alone = fields["log"].is_null() & fields["CONTAINER_ID"].is_null()
        opened = partials.joined(opened, cut, alone)
    return opened, closed


def _place(lines: pl.Series, texts: pl.Series) -> pl.Series:
    """Where the messages stand in their lines, in bytes; 0 where they begin with an escape."""
    found = pl.DataFrame({"line": lines, "start": texts.str.slice(0, 12)}).select(
        pl.col("line").str.find(pl.col("start"), literal=True).fill_null(0).cast(pl.Int64)
    )
    return found.to_series()


def stamped(rows: pl.DataFrame, zoned: pl.Series, local: pl.Series) -> pl.DataFrame:
    """The rows with the stamps of a further layer; one with a zone is worth more than one without,
    and else the inner one is nearer to the line."""
    keep = rows["zoned"] & zoned.is_null()
    return rows.with_columns(
        wrap=pl.when(keep).then("wrap").otherwise(pl.coalesce(zoned, local, "wrap")),
        zoned=keep | zoned.is_not_null(),
    )


def _decoded(texts: pl.Series) -> pl.DataFrame:
    try:
        return texts.str.json_decode(_SCHEMA).struct.unnest()
    except pl.exceptions.ComputeError:  # one is torn, or holds something else than text
        return pl.DataFrame(
            [_one(text) for text in texts], schema=dict.fromkeys(_FIELDS, pl.String)
        )


def _one(text: str) -> dict[str, str | None]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return dict.fromkeys(_FIELDS)
    if not isinstance(found, dict):
        return dict.fromkeys(_FIELDS)
    return {name: _text(found.get(name)) for name in _FIELDS}


def _text(value: Any) -> str | None:
    """Texts and numbers; the journal writes a message that is no UTF-8 as a list of its bytes."""
    if isinstance(value, list) and value and all(type(v) is int and 0 <= v < 256 for v in value):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return str(value) if isinstance(value, int | float) else None


def _written(fields: pl.DataFrame, text: pl.Series) -> pl.Series:
    """The messages as text lines. vLLM's keep their own stamp and process, in front; the
    traceback that stands beside one follows it."""
    plain = text.str.strip_suffix("\n")
    who = pl.when(pl.col("vllm_process_name").is_not_null()).then(
        pl.format("({} pid={}) ", "vllm_process_name", pl.col("process").fill_null("0"))
    )
    whole = pl.concat_str(
        who.fill_null(""),
        pl.format("[{}] ", pl.col("asctime").str.slice(0, 23)).fill_null(""),
        plain,
        pl.concat_str(pl.lit("\n"), pl.col("exc_info")).fill_null(""),
    )
    is_record = pl.col("asctime").str.contains(r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.,]+$")
    return fields.select(pl.when(is_record).then(whole).otherwise(plain)).to_series()


def _times(fields: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    """Stamps with a zone, in UTC, and stamps without one."""
    stamp = pl.coalesce(_TIMES)
    clock = stamp.str.extract(r"^([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?:[.,][0-9]{1,9})?)")
    zone = stamp.str.extract(r"(Z|[+-][0-9]{2}:?[0-9]{2})$")
    epoch = pl.col("__REALTIME_TIMESTAMP").cast(pl.Int64, strict=False).cast(TIME)
    at = moment(clock)
    found = fields.select(
        zoned=pl.coalesce(pl.when(zone.is_not_null()).then(at - ahead_of_utc(zone)), epoch),
        local=pl.when(zone.is_null()).then(at),
    )
    return found["zoned"], found["local"]
