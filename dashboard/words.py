"""Numbers, times and states in words: every sentence of the pages is made here."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Final

from data import space
from data.names import tame

MISSING: Final = "–"
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!$:|<>~^=@&])")


# What Markdown makes links of without any markup: addresses of pages and of people.
_LINK: Final = re.compile(r"(?i)(?<=http)(?=s?\\?:)|(?<=www)(?=\\?\.)|(?<=@)")


def plain(text: str) -> str:
    """The text such that Markdown shows it as it is: no markup, no links."""
    return _LINK.sub("\N{WORD JOINER}", _MARKUP.sub(r"\\\1", tame(text)))


def number(value: float | None) -> str:
    """Three significant digits or all whole ones: 0.55, 5.28, 63.6, 412, 2,370."""
    if value is None:
        return MISSING
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    text = f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def whole(value: float | None) -> str:
    """A count: 48, 4,096."""
    return MISSING if value is None else f"{value:,.0f}"


def percent(fraction: float | None) -> str:
    """A fraction as per cent: 0.4 %, 93 %."""
    if fraction is None:
        return MISSING
    digits = 1 if 0 < fraction < 0.0995 else 0
    return f"{100 * fraction:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """A length of time: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds is None:
        return MISSING
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    total = round(seconds)
    for size, name, small, small_name in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if total >= size:
            rest = total % size // small
            head = f"{total // size} {name}"
            return f"{head} {rest} {small_name}" if rest else head
    return f"{total} s"


def ago(seconds: float | None) -> str:
    """An age to the second, for lines that come every few."""
    if seconds is None:
        return "no line yet"
    if seconds < 1:
        return "now"
    return f"{duration(int(seconds)) if seconds >= 10 else f'{int(seconds)} s'} ago"


def clock(moment: datetime | None) -> str:
    """The time of day: 15:04:31."""
    return MISSING if moment is None else f"{moment:%H:%M:%S}"


def moment(then: datetime | None) -> str:
    """The time of day, with the date unless it is today's: 15:04:31, 2026-11-28 15:04:31."""
    if then is None or then.date() == today():
        return clock(then)
    return day_and_clock(then)


def today() -> date:
    """The date on this machine's clock."""
    return datetime.now().date()


def day_and_clock(moment: datetime | None) -> str:
    """Date and time: 2026-11-29 15:04:31."""
    return MISSING if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def size(count: int | None) -> str:
    """A number of bytes: 0 bytes, 812 bytes, 1.4 MB."""
    return MISSING if count is None else space.size(count)


def counted(count: int | None, noun: str) -> str:
    """A number of things: no faults, 1 fault, 2 faults."""
    if not count:
        return f"no {noun}s"
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
