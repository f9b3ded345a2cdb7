"""What any Python server or its host prints, whichever engine it runs."""

from __future__ import annotations

import re
from typing import Any

from parsers.marks import Rule
from parsers.tracebacks import MARK as TRACEBACK

_ELAPSED = re.compile(r" \[(?:([0-9]+):)?([0-9]+):([0-9]+)<")


def _read_bar(message: str, _: str) -> dict[str, Any]:
    """Seconds that a finished progress bar took."""
    hours, minutes, seconds = (int(n or 0) for n in _ELAPSED.findall(message)[-1])
    return {"duration_s": hours * 3600 + minutes * 60 + seconds}


RULES = (
    Rule(
        "Started server process",
        "milestone",
        "HTTP server process started",
        r"^Started server process \[(?P<pid>[0-9]+)\]",
    ),
    Rule(
        "Uvicorn running on",
        "milestone",
        "Listening",
        r"^Uvicorn running on (?P<listen>\S+)",
    ),
    # The bar is drawn again and again; its last state says how long it took.
    Rule(
        "Completed | ",
        "milestone",
        "Weight files read",
        r"(?:^|[\s:])(?P<shards>[0-9]+)/(?P=shards) \[(?P<elapsed>[0-9:]+)<",
        read=_read_bar,
        keep_text=False,
    ),
    Rule("Killed", "fault", "Killed", r"^Killed$", severity="fault", ends="crashed"),
    Rule(
        "Shutting down",
        "stop",
        "Shutting down",
        r"^Shutting down(?: FastAPI HTTP server\.)?$",
        ends="stopped",
    ),
    Rule(
        "Application shutdown complete",
        "stop",
        "Shut down",
        r"^Application shutdown complete",
        ends="stopped",
    ),
    Rule(
        "Finished server process",
        "stop",
        "Server process finished",
        r"^Finished server process",
        ends="stopped",
    ),
    Rule(
        "CUDA out of memory",
        "fault",
        "CUDA out of memory",
        r"OutOfMemoryError: CUDA out of memory"
        r"(?:\. Tried to allocate (?P<tried>[0-9.]+ [GM]iB)\. GPU (?P<gpu>[0-9]+) has a total "
        r"capacity of (?P<total_gb>[0-9.]+) GiB of which (?P<free>[0-9.]+ [GM]iB) is free)?",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "CUDA error: ",
        "fault",
        "CUDA error",
        r"(?:^|Error: )CUDA error: ",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "collective operation timeout",
        "fault",
        "Collective operation timed out",
        r"(?:\[Rank (?P<on_rank>[0-9]+)\] )?Watchdog caught collective operation timeout"
        r"(?:.*?OpType=(?P<op>\w+).*?Timeout\(ms\)=(?P<timeout_ms>[0-9]+))?",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "Segmentation fault",
        "fault",
        "Segmentation fault",
        r"^(?:!+ )?(?:Fatal Python error: )?Segmentation fault",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "terminate called after throwing",
        "fault",
        "Native code aborted",
        r"^terminate called after throwing",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "Fatal Python error",
        "fault",
        "Python died: {what}",
        r"^Fatal Python error: (?P<what>.{1,80})",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "NCCL error",
        "fault",
        "NCCL error",
        r"(?:^|\w(?:Error|Exception): )NCCL error",
        severity="fault",
        ends="crashed",
    ),
    Rule(
        "error while attempting to bind",
        "fault",
        "The port is in use",
        r"^\[Errno [0-9]+\] error while attempting to bind on address .*address already in use",
        severity="fault",
        ends="crashed",
    ),
    Rule("^C", "stop", "Interrupted", r"^\^C", ends="stopped"),
    Rule(TRACEBACK, "traceback", "Traceback", severity="warning"),
)
