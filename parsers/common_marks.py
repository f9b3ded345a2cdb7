"""What any Python server or its host prints, whichever engine it runs."""

from __future__ import annotations

import re
from typing import Any

from parsers.rules import Rule, fault, milestone, note, stop
from parsers.tracebacks import MARK as TRACEBACK

_ELAPSED = re.compile(r" \[(?:([0-9]+):)?([0-9]+):([0-9]+)<")


def _read_bar(message: str, _: str) -> dict[str, Any]:
    """Seconds that a finished progress bar took."""
    hours, minutes, seconds = (int(n or 0) for n in _ELAPSED.findall(message)[-1])
    return {"duration_s": hours * 3600 + minutes * 60 + seconds}


RULES = (
    milestone(
        "Started server process",
        "HTTP server process started",
        r"^Started server process \[(?P<pid>[0-9]+)\]",
    ),
    milestone("Uvicorn running on", "Listening", r"^Uvicorn running on (?P<listen>\S+)"),
    # The bar is drawn again and again; its last state says how long it took.
    Rule(
        "Completed | ",
        "milestone",
        "Weight files read",
        r"(?:^|[\s:])(?P<shards>[0-9]+)/(?P=shards) \[(?P<elapsed>[0-9:]+)<",
        read=_read_bar,
        keep_text=False,
    ),
    fault("Killed", "Killed", r"^Killed$"),
    stop("Shutting down", "Shutting down", r"^Shutting down(?: FastAPI HTTP server\.)?$"),
    stop("Application shutdown complete", "Shut down", r"^Application shutdown complete"),
    stop("Finished server process", "Server process finished", r"^Finished server process"),
    fault(
        "CUDA out of memory",
        "CUDA out of memory",
        r"OutOfMemoryError: CUDA out of memory"
        r"(?:\. Tried to allocate (?P<tried>[0-9.]+ [GM]iB)\. GPU (?P<gpu>[0-9]+) has a total "
        r"capacity of (?P<total_gb>[0-9.]+) GiB of which (?P<free>[0-9.]+ [GM]iB) is free)?",
    ),
    fault("CUDA error: ", "CUDA error", r"(?:^|Error: )CUDA error: "),
    fault(
        "collective operation timeout",
        "Collective operation timed out",
        r"(?:\[Rank (?P<on_rank>[0-9]+)\] )?Watchdog caught collective operation timeout"
        r"(?:.*?OpType=(?P<op>\w+).*?Timeout\(ms\)=(?P<timeout_ms>[0-9]+))?",
    ),
    fault(
        "Segmentation fault",
        "Segmentation fault",
        r"^(?:!+ )?(?:Fatal Python error: )?Segmentation fault",
    ),
    fault(
        "terminate called after throwing",
        "Native code aborted",
        r"^terminate called after throwing",
    ),
    fault("Fatal Python error", "Python died: {what}", r"^Fatal Python error: (?P<what>.{1,80})"),
    fault("NCCL error", "NCCL error", r"(?:^|\w(?:Error|Exception): )NCCL error"),
    fault(
        "error while attempting to bind",
        "The port is in use",
        r"^\[Errno [0-9]+\] error while attempting to bind on address .*address already in use",
    ),
    stop("^C", "Interrupted", r"^\^C"),
    note("traceback", TRACEBACK, "Traceback", severity="warning"),
)
