"""What the samples of each rank said so far, and the windows that the next ones get from it.

Between blocks the ranks are small JSON in the state of the pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from ingest import measure
from ingest.runs import READY_AFTER_SAMPLES, Run
from parsers import speculation
from parsers.records import says
from parsers.speculation import SpecCard
from parsers.windows import Rank, Ties

Late = list[tuple[str, int, float]]  # run_id, byte offset, seconds


@dataclass(slots=True)
class Ranks:
    """The ranks of all runs of one file that are not over."""

    _ranks: dict[str, Rank] = field(default_factory=dict)  # by run and rank, spec lines apart
    _engine_no: int | None = None  # of vLLM's latest stats line; -1: it carried none

    def dump(self) -> dict[str, Any]:
        """What the next block needs, for the state of the pipeline."""
        return {"ranks": self._ranks, "engine_no": self._engine_no}

    def load(self, ranks: Mapping[str, Mapping[str, Any]], engine_no: int | None) -> None:
        """Values as `dump` gave them."""
        self._engine_no = engine_no
        self._ranks = {
            key: Rank(
                **{**rank, "decode": Ties(**rank["decode"]), "prefill": Ties(**rank["prefill"])}
            )
            for key, rank in ranks.items()
        }

    def measure(
        self, placed: pl.DataFrame, starts: Sequence[tuple[int, Run]]
    ) -> tuple[list[pl.DataFrame], Late]:
        """Samples with run, windows and acceptance, in no order; corrected intervals of earlier
        blocks.

        Args:
            placed: samples as of `measure.placed`, in file order.
            starts: runs of the block with where they start in it.
        """
        placed, self._engine_no = measure.engine_indexed(placed, self._engine_no)
        done: list[pl.DataFrame] = []
        late: Late = []
        for run, rows in measure.by_run(measure.complete(placed), starts):
            _count_towards_ready(run, rows)
            for key, part in measure.by_rank(rows):
                frames, corrected = self._measure_rank(f"{run.run_id}|{key}", part, run)
                done += frames
                late += [(run.run_id, off, seconds) for off, seconds in corrected]
        return done, late

    def _measure_rank(
        self, key: str, rows: pl.DataFrame, run: Run
    ) -> tuple[list[pl.DataFrame], list[tuple[int, float]]]:
        engine = self._ranks.setdefault(key, Rank())
        before = replace(engine)
        run.decode_only |= measure.admits_without_prefill(rows)
        if rows["engine"][0] == "vllm":
            rows = measure.with_hit_scope(rows, run.facts.get("engine_version"))
        spec, beside, rest = measure.by_kind(rows)
        frames, late = [rest, beside], []
        if rest.height:
            frames[0], measured = measure.timed(rest, engine, run.clock())
            late += measured.late
        if spec.height:
            own = self._ranks.setdefault(key + ",spec", Rank())
            spec, drafts = speculation.interval_counts(spec, own)
            if drafts:
                run.facts.setdefault("spec_draft_tokens", drafts)
            timed, measured = measure.timed_spec(spec, frames[0], own, before)
            late += measured.late
            frames.append(
                speculation.complete_vllm_v0(timed, drafts)
                if drafts
                else speculation.complete_vllm(timed)
            )
        elif rest.height and rest["engine"][0] == "sglang":
            frames[0] = speculation.complete_sglang(frames[0], _spec_card(run, frames[0]))
        return [frame for frame in frames if frame.height], late

    def close(self, run: Run) -> Late:
        """Corrections of a run that is over; its ranks are dropped."""
        late = self.settle(run)
        for key in self._of(run):
            del self._ranks[key]
        return late

    def settle(self, run: Run) -> Late:
        """Corrections of a run that seems to be over."""
        ranks = [self._ranks[key] for key in self._of(run)]
        return [
            (run.run_id, off, seconds)
            for rank in ranks
            for off, seconds in rank.decode.finish() + rank.prefill.finish()
        ]

    def _of(self, run: Run) -> list[str]:
        return [key for key in self._ranks if key.startswith(f"{run.run_id}|")]


def _spec_card(run: Run, rows: pl.DataFrame) -> SpecCard:
    drafts = run.facts.get("spec_draft_tokens")
    if run.rate_def is None:
        run.rate_def = speculation.rate_def(rows, drafts)
    return SpecCard(run.steps, drafts, *(run.rate_def or (None, 0)))


def _count_towards_ready(run: Run, rows: pl.DataFrame) -> None:
    """A booted run that never says "ready" counts as ready after some samples."""
    if not run.booted or run.ready_off is not None:
        return
    counted = says(rows["kind"], "decode") | says(rows["kind"], "stats")
    offs = rows["byte_offset"].filter(counted)
    missing = READY_AFTER_SAMPLES - run.unready_samples
    if offs.len() >= missing:
        run.ready_off = int(offs[missing - 1])
    run.unready_samples += offs.len()
