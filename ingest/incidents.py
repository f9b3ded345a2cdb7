"""What a line means for its run: fault, effect of one, stall, retraction, refusal, orderly stop.

A line alone does not tell: the word that ends a server also stands in the log of one that was
asked to stop. Events of one cause share an incident_id; the view `incidents` sums them, root first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ingest.runs import Run, step_title
from parsers.marks import Mark

# How a stop or a request that was given up looks from inside: no fault by itself.
_STOPPED = re.compile(r"^(?:\w+\.)*KeyboardInterrupt\b")
_GIVEN_UP = re.compile(
    r"^(?:\w+\.)*(?:CancelledError|SystemExit|GeneratorExit|BrokenPipeError|ConnectionResetError)\b"
    r"|py-spy"
)
_MISSING_IMPORT = re.compile(r"^(?:ImportError|ModuleNotFoundError)\b")
# What a client sent was wrong.
_REFUSED = re.compile(
    r"VLLMValidationError|RequestValidationError|HTTPException|JSONDecodeError|TemplateError"
    r"|maximum context length|maximum model length|maximum allowed length|prompt.* too long"
)
_FATAL = re.compile(
    r"EngineDeadError|EngineGenerateError|OutOfMemoryError|CUDA error|NCCL error|ncclSystemError"
    r"|DistBackendError|AcceleratorError|InductorError|Engine core initialization failed"
    r"|Engine process failed|RPC call to \w+ timed out|Timed out waiting for engine core"
)
# Says that something else has failed: never the root where that is told.
_TELLS_OF_ANOTHER = re.compile(
    r"EngineDeadError|[Ss]ee (?:stack trace|root cause)|Engine core initialization failed"
    r"|Engine process failed|CancelledError|BrokenPipeError|ConnectionResetError|SystemExit"
)
_ORDERLY_CODE = re.compile(r"exit ?code:? ?=?-(?:15|2)\b")
# Warnings that come in spells: those of one kind this close together are one incident.
_SPELLS = {
    "stall", "health", "retraction", "retract_abort", "preemption", "pd_failure", "memory_leak",
    "sampling", "client_error",
}  # fmt: skip
_SPELL = timedelta(minutes=10)
# Of these only the first and the last of a kind and title are kept in a block.
_FOLDED = {"fault", "effect", "after_stop", "client_error", "harmless"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an event is. `ends`: how the run ends with it, if it does."""

    kind: str
    severity: str
    title: str
    ends: str | None = None


def judge(mark: Mark, run: Run) -> Verdict:
    """A mark in the light of its run: a fault only where it is one.

    After an orderly stop nothing is a fault; a traceback is one before the server is ready, when
    nothing caught it, or when its exception says that the engine is gone.
    """
    if mark.kind == "milestone":
        return Verdict(mark.kind, mark.severity, step_title(mark, run))
    if mark.kind == "traceback":
        return _of_traceback(mark, run)
    if mark.kind != "fault":
        return Verdict(mark.kind, mark.severity, mark.title, mark.ends)
    if run.ended == "stopped":
        return Verdict("after_stop", "info", mark.title)
    if _ORDERLY_CODE.search(mark.evidence or "") and run.incident is None:
        return Verdict("after_stop", "info", mark.title, "stopped")
    told = mark.effect or bool(_TELLS_OF_ANOTHER.search(mark.detail or ""))
    return Verdict("effect" if told else "fault", "fault", mark.title, "crashed")


def _of_traceback(mark: Mark, run: Run) -> Verdict:
    exception = mark.detail or ""
    title = exception or mark.title
    # Of the engine's own program: a client's that ends in the same log ends no server.
    uncaught = mark.trace is not None and mark.trace.uncaught and mark.trace.engine is not None
    if run.incident is None:
        if _STOPPED.match(exception):
            return Verdict("stop", "info", "Interrupted", "stopped")
        starting = run.booted and run.ready_off is None
        if _GIVEN_UP.search(exception) or (_MISSING_IMPORT.match(exception) and not uncaught):
            return Verdict("traceback", "info", title)
        if _REFUSED.search(exception) and not (starting or uncaught):
            return Verdict("client_error", "info", title)
        if not (exception and (starting or uncaught or _FATAL.search(exception))):
            return Verdict("traceback", "info", title)
    if run.ended == "stopped":
        return Verdict("after_stop", "info", title)
    told = not exception or bool(_TELLS_OF_ANOTHER.search(exception) or _STOPPED.match(exception))
    return Verdict("effect" if told else "fault", "fault", title, "crashed")


def begins_run(mark: Mark) -> bool:
    """Whether a traceback is all that a server's start left: one that nothing caught."""
    trace = mark.trace
    if trace is None or not trace.uncaught or trace.engine is None or not trace.exception:
        return False
    return not (_STOPPED.match(trace.exception) or _GIVEN_UP.search(trace.exception))


def incident_of(verdict: Verdict, run: Run, off: int, ts: datetime | None) -> str | None:
    """The incident that an event belongs to, None where it is none."""
    if verdict.severity == "fault":
        run.incident = run.incident or f"{run.run_id}-{off:x}"
        return run.incident
    if verdict.kind in ("stop", "after_stop"):
        return run.incident or f"{run.run_id}-stop"  # what a fault ends also says that it ends
    if verdict.kind == "engine_dump":
        return run.incident
    if verdict.kind == "harmless":
        return f"{run.run_id}-harmless"
    if verdict.kind not in _SPELLS:
        return None
    known = run.spells.get(verdict.kind)
    goes_on = known is not None and (
        ts is None or known[1] is None or ts - datetime.fromisoformat(known[1]) <= _SPELL
    )
    name = known[0] if known is not None and goes_on else f"{run.run_id}-{verdict.kind}-{off:x}"
    run.spells[verdict.kind] = (name, ts.isoformat() if ts else known and known[1])
    return name


def folded(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events of a block. Of those that say the same of one incident the first stands for all but
    the last, whose time tells how long it went on; where that is one time it stands for all."""
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    for n, event in enumerate(events):
        if event["kind"] not in _FOLDED or event["incident_id"] is None:
            kept[(n,)] = event
            continue
        key = (event["incident_id"], event["kind"], event["title"])
        first = kept.setdefault(key, event)
        if first is event:
            continue
        if before := kept.pop((*key, "last"), None):
            first["count"] += before["count"]
        if event["ts"] == first["ts"]:
            first["count"] += event["count"]
        else:
            kept[*key, "last"] = event
    return list(kept.values())
