"""Where a run begins and ends, and what its lines make known of it.

A run is one start of one server. A boot-class line after a serving line, after a stop or a fatal
fault, or at the start of a file opens the next one; both engines print overrides before their
arguments, so the first boot line counts, not the dump.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from parsers.marks import Mark
from parsers.records import RUNS
from parsers.windows import DEFAULT_STEPS, RunClock

# Samples of a run that started before our eyes but never says it is ready (gRPC, rank > 0).
READY_AFTER_SAMPLES = 20
_SIZES = {
    "tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size",
}  # fmt: skip


@dataclass(slots=True)
class Run:
    """One run while its lines are read; small, serialisable, kept with the checkpoint."""

    run_id: str
    start_off: int
    engine: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    effective: dict[str, Any] = field(default_factory=dict)
    booted: bool = False
    served: bool = False
    ready_off: int | None = None
    unready_samples: int = 0
    ended: str | None = None
    end_off: int | None = None
    incident: str | None = None
    spells: dict[str, tuple[str, str | None]] = field(default_factory=dict)  # kind: id, last time
    steps: int = DEFAULT_STEPS
    decode_only: bool = False
    rate_def: tuple[str, int] | None = None  # the printed rate's formula and which line told it
    pools: list[str] = field(default_factory=list)  # ranks whose first memory pool stands
    last_step: str = ""  # the latest start-up step, to tell one that is printed again
    overridden: list[str] = field(default_factory=list)  # told already
    refused: list[str] = field(default_factory=list)  # hashes of requests it refused, by name
    first_off: int | None = None  # of the line that gave started_at
    latest: str | None = None  # time of its lines up to its end
    seq: int = 0
    told: str = ""  # the last facts row, to append only what is new

    def clock(self) -> RunClock:
        """What the windows of its samples depend on."""
        return RunClock(self.booted, self.ready_off, self.steps, self.decode_only)

    def learn(self, mark: Mark, ts: datetime | None) -> None:
        """Takes over what a line says of the run."""
        facts = dict(mark.facts)
        self.effective |= facts.pop("effective", {})
        self.steps = facts.pop("decode_log_interval", None) or self.steps
        self.decode_only |= facts.pop("disaggregation_mode", None) == "decode"
        if mark.kind == "engine":
            self._keep_sizes(facts)
        for name, value in facts.items():
            if name in RUNS and value is not None:
                self.facts[name] = int(value) if RUNS[name].is_integer() else value
        self.engine = mark.engine or self.engine
        self.saw(mark.off, ts)
        if mark.kind == "ready" and self.ready_off is None:
            self.ready_off = mark.off
            self.facts["ready_at"] = ts

    def repeats(self, mark: Mark) -> bool:
        """Whether a line only says again what the line before it said: the end of a bar."""
        if mark.kind != "milestone":
            return False
        step, self.last_step = self.last_step, f"{mark.title} {(mark.data or {}).get('shards')}"
        return step == self.last_step and mark.evidence is None

    def _keep_sizes(self, facts: dict[str, Any]) -> None:
        """An engine process says 1 of what the server's arguments spread over several."""
        spread = {
            size: self.facts[size]
            for size in _SIZES
            if facts.get(size) == 1 and (self.facts.get(size) or 1) > 1
        }
        if spread:
            facts |= spread
            facts["gpus"] = math.prod(facts.get(size) or 1 for size in _SIZES)
            self.effective |= {_SIZES[size]: value for size, value in spread.items()}

    def saw(self, off: int, ts: datetime | None) -> None:
        """Takes over the time of one of its lines; lines come in any order within a block. The
        latest time counts, not the last: the clock may be set back."""
        if ts is None:
            return
        if self.first_off is None or off < self.first_off:
            self.first_off, self.facts["started_at"] = off, ts
        before_end = self.end_off is None or off <= self.end_off
        said = ts.isoformat()  # texts of this form sort as their times do
        if before_end and (self.latest is None or said > self.latest):
            self.latest = said

    def saw_all(self, places: Iterable[tuple[int, datetime | None]]) -> None:
        """The same for many lines at once."""
        told = [(off, ts) for off, ts in places if ts is not None]
        if told:
            self.saw(*min(told))
        if before := [(ts, off) for off, ts in told if self.end_off is None or off <= self.end_off]:
            ts, off = max(before)
            self.saw(off, ts)

    def end(self, state: str, off: int, ts: datetime | None) -> None:
        """Ends the run once; what follows the first end is its consequence."""
        if self.ended is None:
            self.ended, self.end_off = state, off
            self.facts["ended_at"] = ts

    def settle(self) -> None:
        """Gives a run that nothing ended the latest time of its lines."""
        if self.ended == "lost" and self.latest:
            self.facts["ended_at"] = datetime.fromisoformat(self.latest)

    def goes_on(self) -> None:
        """Samples after a fault: it was not fatal."""
        self.ended = self.end_off = self.incident = None
        self.facts.pop("ended_at", None)

    def row(self, source_id: str, label: str | None) -> dict[str, Any] | None:
        """A facts row where something new is known, else None."""
        row: dict[str, Any] = {
            "run_id": self.run_id,
            "source_id": source_id,
            "engine": self.engine,
            "label": label,
            "end_state": self.ended or "running",
            "effective": json.dumps(self.effective) if self.effective else None,
            **self.facts,
        }
        if row.get("ended_at") and self.latest:
            row["ended_at"] = max(row["ended_at"], datetime.fromisoformat(self.latest))
        told = hashlib.blake2b(repr(sorted(row.items())).encode(), digest_size=8).hexdigest()
        if told == self.told:
            return None
        self.told = told
        self.seq += 1
        return row | {"seq": self.seq}


def dump_run(run: Run) -> dict[str, Any]:
    """The run as JSON can hold it."""
    state = {name: getattr(run, name) for name in Run.__dataclass_fields__}
    state["facts"] = {
        k: v.isoformat() if isinstance(v, datetime) else v for k, v in run.facts.items()
    }
    return state


def load_run(state: Mapping[str, Any]) -> Run:
    """The run that `dump_run` wrote, maybe that of an older release."""
    run = Run(**{name: state[name] for name in Run.__dataclass_fields__ if name in state})
    for name in ("started_at", "ready_at", "ended_at"):
        if isinstance(run.facts.get(name), str):
            run.facts[name] = datetime.fromisoformat(run.facts[name])
    return run


def run_id(file_id: str, start_off: int) -> str:
    """Names a run by where it starts, so that a replay after a crash names it the same."""
    return hashlib.blake2b(f"{file_id}:{start_off}".encode(), digest_size=6).hexdigest()


@dataclass(slots=True)
class RunBook:
    """The runs of one file: the current one, and those that the last block closed."""

    file_id: str
    current: Run | None = None
    closed: list[Run] = field(default_factory=list)

    def open(self, off: int) -> Run:
        """Opens a run at `off`; the one before is over, `lost` where nothing ended it."""
        if self.current is not None:
            if self.current.ended is None:
                self.current.end("lost", off, None)
            self.closed.append(self.current)
        self.current = Run(run_id(self.file_id, off), off)
        return self.current

    def take(self, mark: Mark, served: Callable[[int, int], bool]) -> Run:
        """The run a mark belongs to; opens it where the mark begins one.

        Args:
            mark: in file order.
            served: whether a serving line stands between two offsets.
        """
        run = self.current or self.open(mark.off)
        if mark.boots and run.start_off != mark.off:
            over = run.ended is not None and (run.end_off or 0) < mark.off
            # A boot that begins a file, or comes after a whole one in the file before, is another.
            other = run.start_off < 0 and (mark.off == 0 or "args" in run.facts)
            if over or other or run.served or served(run.start_off, mark.off):
                run = self.open(mark.off)
        run.booted |= mark.boots and not run.served
        return run


# Steps that SGLang's draft worker repeats, after the first pool of its rank stands.
_DRAFT_STEPS = ("Loading weights", "Weights loaded", "KV cache allocated", "Memory pool ready")


def step_title(mark: Mark, run: Run) -> str:
    """The title of a start-up step, that of the draft model told from the target's."""
    rank = str((mark.data or {}).get("rank", ""))
    drafts = rank in run.pools and mark.title in _DRAFT_STEPS
    if mark.title == "Memory pool ready" and not drafts:
        run.pools.append(rank)
    return f"{mark.title} (draft model)" if drafts else mark.title
