"""Tracebacks: the exception at their end, the innermost frame, and whether anything caught them.

Their lines come bare, under a wrapper's or a process's prefix, or each with the head of a logger.
Several processes write to one stream: lines of others between those of a traceback are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from parsers.heads import Head, read_head
from parsers.server_args import redact_text

MARK = "Traceback (most recent call last)"
_LINES = 400
_FOREIGN = 20  # so many lines of others in a row: the traceback has no end
_TEXT_CHARS = 2000
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::|$)")
_FRAME = re.compile(r"\s*File \"(?P<file>[^\"]+)\", line (?P<line>[0-9]+)(?:, in (?P<name>.+))?")
_PACKAGES = (("sglang", "/sglang/"), ("vllm", "/vllm/"), ("vllm", "/bin/vllm"))
# Where a program itself begins: what is raised through it ends the process.
_OUTERMOST = re.compile(r"<module>$|_run_module_as_main$")


@dataclass(frozen=True, slots=True)
class Traceback:
    """What a traceback says.

    Attributes:
        exception: type and message; None where its end is missing.
        frame: the innermost frame, "file.py:51 in run".
        engine: whose code is among the frames.
        uncaught: it starts where the program starts, and no logger wrote it.
    """

    exception: str | None
    frame: str | None = None
    engine: str | None = None
    uncaught: bool = False


def read(lines: pl.Series, at: int, final: bool) -> Traceback | None:
    """The traceback that begins on line `at`; None where the block ends before it does, unless
    `final`."""
    window = lines.slice(at, _LINES + 1).to_list()
    begin = read_head(window[0])
    frames: list[re.Match[str]] = []
    foreign = 0
    own = begin if begin.bare else None  # how the lines of this traceback look
    for line in window[1:]:
        head = read_head(line)
        message = head.message
        if own is None and head.process == begin.process and _goes_on(message, head.bare):
            own = head
        if own is None or head.process != own.process or head.bare != own.bare:
            foreign += 1
            if foreign > _FOREIGN:
                return _told(None, frames, own or begin)
            continue
        foreign = 0
        if not message.strip() or message[0] in " \t":
            if frame := _FRAME.match(message):
                frames.append(frame)
            continue
        if _EXCEPTION.match(message):
            return _told(redact_text(message.strip()[:_TEXT_CHARS]), frames, own)
        if not message.startswith("Traceback"):
            return _told(None, frames, own)
    if final or len(window) > _LINES:
        return _told(None, frames, own or begin)
    return None


def _goes_on(message: str, bare: bool) -> bool:
    """Whether a message can be the next line of a traceback."""
    return message[:1] in (" ", "\t") or (bare and bool(_EXCEPTION.match(message)))


def _told(exception: str | None, frames: list[re.Match[str]], head: Head) -> Traceback:
    if not frames:
        return Traceback(exception)
    first, last = frames[0], frames[-1]
    name = f" in {last['name']}" if last["name"] else ""
    engine = next(
        (engine for engine, part in _PACKAGES if any(part in f["file"] for f in frames)), None
    )
    return Traceback(
        exception,
        redact_text(f"{last['file'].rpartition('/')[2]}:{last['line']}{name}"[:200]),
        engine,
        head.bare and bool(_OUTERMOST.search(first["name"] or "")),
    )
