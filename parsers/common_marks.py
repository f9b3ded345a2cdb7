"""What any Python server or its host prints, whichever engine it runs."""

from __future__ import annotations

from parsers.marks import TRACEBACK, Rule

RULES = (
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
        r"OutOfMemoryError: CUDA out of memory",
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
        r"Watchdog caught collective operation timeout",
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
    Rule(TRACEBACK, "traceback", "Traceback", severity="warning"),
)
