"""`name: value` tails by name, and patterns learnt from them for whole blocks of lines.

Fields are found by their printed names, never by position. For speed a pattern is learnt from a
line that was read this way, with its numbers left open, and then tried on all other lines at
once; a line that fits no pattern is read by itself. Both ways give the same fields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_KEY = r"[#A-Za-z][A-Za-z0-9+./# _-]*?(?:\s?\([^()]*\))?"
_FIELD = re.compile(
    rf"(?P<key>{_KEY}):[ ]?"
    r"(?P<value>[^,\[\]\"]*?\[[^\]]*\]|[0-9.]+(?:,\ [0-9.]+)+(?=,\ [A-Z]|[\"\r]|[,\s]*$)"
    r"|[^,\"\r\[\\]*)"
    r"(?P<end>,\s*|$|(?=[\"\r\[\\]))"
)
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_FLAG = re.compile(r"(?:True|False)$")
_WORD = re.compile(r"[A-Za-z]+$")
_LIST = re.compile(r"[0-9.]+(?:, [0-9.]+)+$")
# What may follow a number: else a torn value and the text it is glued to would look like one.
_UNIT = re.compile(r"(?:%?\.?|[A-Za-z/%]{1,5}| [^0-9]*)$")
_DIGITS = re.compile(r"[0-9]+")
# A piece between commas that has no name of its own. It belongs to the value before it where
# such values hold commas ("KV fetch: 1 waiting to start, 0 in progress", "#token: full=1809,
# swa=1200"); else it is what is left of a torn name.
_MORE = re.compile(r"(?P<value>[A-Za-z0-9][^,:\"\r]*)(?P<end>,\s*|$|(?=[\"\r]))")
_HOLDS_COMMAS = re.compile(r"KV fetch: |.*: [a-z]+=[0-9.]+(?:, |$)")


@dataclass(frozen=True, slots=True)
class Field:
    """One printed field; `start` and `end` are where the value stands in the text."""

    key: str
    value: str
    start: int
    end: int


def tail(text: str, start: int) -> list[Field]:
    """The fields of `text` from `start` on; stops where the text is no field any more. A name
    without a value is torn, and no field."""
    fields: list[Field] = []
    at, end = start, ","
    while end:
        match = _FIELD.match(text, at)
        if match:
            value_at = match.start("value")
            if match["value"].strip():
                fields.append(_field(match["key"].strip(), text, value_at, match.end("value")))
        else:
            match = _MORE.match(text, at)
            if not (match and fields):
                break
            last = fields[-1]
            if _HOLDS_COMMAS.match(f"{last.key}: {last.value}"):
                fields[-1] = _field(last.key, text, last.start, match.end("value"))
        at, end = match.end(), match["end"]
    return fields


_EQUALS = re.compile(r"(?P<key>[A-Za-z_]\w*)=(?P<value>[^\s,;]+)")


def equals(text: str, start: int) -> list[Field]:
    """The fields of `text` from `start` on where they are printed as `name=value name=value`."""
    return [_field(m["key"], text, *m.span("value")) for m in _EQUALS.finditer(text, start)]


def _field(key: str, text: str, start: int, end: int) -> Field:
    value = text[start:end].rstrip()
    return Field(key, value, start, start + len(value))


def blank(text: str) -> str:
    """A pattern for `text` with every number left open."""
    return "".join(
        "[0-9]+" if piece.isdigit() and piece.isascii() else re.escape(piece)
        for piece in re.split(r"([0-9]+)", text)
        if piece
    )


def shape(text: str) -> str:
    """The text with its numbers blanked, to count unknown lines by."""
    return _DIGITS.sub("0", text)


def value_pattern(value: str, group: str) -> str:
    """A capturing pattern for values printed like this one; its unit stays literal."""
    if _LIST.match(value):
        one = rf"[0-9]+\.[0-9]{{{len(value.partition(',')[0].partition('.')[2])}}}"
        return rf"(?P<{group}>{one}(?:, {one})*)"
    if _FLAG.match(value):
        return rf"(?P<{group}>True|False)"
    if _WORD.match(value):
        return rf"(?P<{group}>[A-Za-z]+)"
    number = NUMBER.match(value)
    if number and _UNIT.match(value, number.end()):
        # Both engines print a field with a fixed number of decimals: fewer are a torn number.
        _, point, decimals = number[0].partition(".")
        fraction = rf"\.[0-9]{{{len(decimals)}}}" if point else ""
        return rf"(?P<{group}>-?[0-9]+{fraction}){re.escape(value[number.end() :])}"
    return rf"(?P<{group}>[^,\"\r]*)"


def bare(value: str) -> str:
    """The value without its unit, as a learnt pattern would capture it."""
    match = re.fullmatch(value_pattern(value, "value"), value)
    return match["value"] if match else value
