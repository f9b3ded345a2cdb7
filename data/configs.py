"""How two runs are configured differently: what was given, resolved and finally in effect.

SGLang's dump holds resolved values of every argument, vLLM's (0.9 on) only the ones that the user
set; what the server printed later (the pool line, the engine's config) is in effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from data.run_data import RunData
from data.settings import DEFAULT, Setting
from data.settings import settings as unified
from parsers.records import NOT_CONFIG

CAP = "max_running_requests"
UNKNOWN = "unknown"
_SECRET = "‹redacted"
# What speculation itself forces or resolves anew, next to its own arguments.
_FORCED = {
    CAP, "disable_overlap_schedule", "enable_mixed_chunk", "mem_fraction_static", "max_num_seqs",
    "cuda_graph_max_bs", "cuda_graph_bs", "cuda_graph_config", "cuda_graph_max_bs_decode",
    "cuda_graph_bs_decode", "cuda_graph_max_bs_prefill", "cuda_graph_bs_prefill",
    "max_total_tokens", "max_total_num_tokens", "max_prefill_tokens", "chunked_prefill_size",
    "num_continuous_decode_steps", "async_scheduling", "disable_cuda_graph_padding",
    "max_concurrency_x",
    # Whether graphs ran is told by the lines and compared there.
    "disable_cuda_graph", "disable_decode_cuda_graph", "disable_prefill_cuda_graph",
    "cuda_graph_backend_decode", "cuda_graph_backend_prefill",
}  # fmt: skip
# Where and for whom the server runs; compared separately or not at all.
_SKIP = NOT_CONFIG | {"model_path", "tokenizer", "tokenizer_path", "download_dir"}
# Of different engines a value that one does not print is no difference, but for these.
_TOLD_ANYWAY = {"version", "running requests at most", "speculation"}
_OWN = {"host", "port", "served model name", "decode log interval"}
_OFF: tuple[Any, ...] = (None, "", [], {}, "null", "none", "None", "off")
_SILENT_CAPS = (32, 48)
_LOWERED = "Max running requests is reset to"


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that differs between runs."""

    name: str
    settings: tuple[Setting, ...]  # in the order of the runs
    speculation: bool  # an argument of speculation, or one that it forces
    missing: str = DEFAULT  # what it means where there is no value

    def text(self, nth: int) -> str:
        """Its value in the run that was given as number `nth`, from 0."""
        told = self.settings[nth]
        value = shown(told.value, self.missing)
        before = {"given": told.given, "argument": told.resolved}
        others = [
            f"{what}: {shown(was)}"
            for what, was in before.items()
            if was is not None and shown(was) != value
        ]
        return value + (f" ({', '.join(others)})" if others else "")


def shown(value: Any, missing: str = DEFAULT) -> str:
    """A value as a reader sees it."""
    if value is None:
        return missing
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "…"


def settings(run: RunData) -> dict[str, Setting]:
    """Every setting that a run's log tells, under the engine's own names."""
    args, effective, overrides = run.args, run.effective, overridden(run)
    found = {}
    for name in dict.fromkeys([*args, *effective, *overrides]):
        value, later = args.get(name), _total(run, name, effective.get(name))
        if run.card["engine"] == "vllm":
            found[name] = Setting(name, args.get(name, DEFAULT if args else None), later, None)
        else:
            told = overrides.get(name, {})
            final = told.get("effective") if later is None else later
            found[name] = Setting(name, told.get("given"), value, final)
    return found


def overridden(run: RunData) -> dict[str, dict[str, Any]]:
    """What overrides say, by the setting: name, given, effective."""
    texts = run.events.filter(pl.col("kind") == "override")["data"].drop_nulls()
    told = [json.loads(text) for text in texts]
    return {row["name"]: row for row in told if "name" in row}


def _shared(run: RunData) -> dict[str, Setting]:
    """The settings under names that both engines share; the cap over all ranks."""
    card = dict(run.card) | {CAP: _total(run, CAP, run.card[CAP])}
    effective = {name: _total(run, name, value) for name, value in run.effective.items()}
    known = unified(card | {"effective": json.dumps(effective)}, overridden(run).values())
    identity = {
        name: Setting(name, None, None, run.card[column])
        for name, column in (("engine", "engine"), ("version", "engine_version"))
    }
    return identity | {name: one for name, one in known.items() if name not in _OWN}


def _total(run: RunData, name: str, value: Any) -> Any:
    """A cap over all ranks: SGLang's pool line is per DP rank, its argument is not."""
    ranked = name == CAP and run.card["engine"] == "sglang" and isinstance(value, int)
    return value * run.ranks if ranked else value


def differing(runs: Sequence[RunData]) -> list[Difference]:
    """The settings in which runs differ; of different engines only what both have."""
    return [row for row in listed(runs) if _differs(row.settings) and not _untold(row)]


def listed(runs: Sequence[RunData]) -> list[Difference]:
    """Every setting that the logs of the runs tell, equal ones too; of different engines what is
    known under a shared name."""
    if len({run.card["engine"] for run in runs}) > 1:
        every, missing = [_shared(run) for run in runs], UNKNOWN
    else:
        every, missing = [settings(run) for run in runs], DEFAULT
    dumps_all = {run.card["engine"] for run in runs} == {"sglang"}
    found = []
    for name in dict.fromkeys(name for known in every for name in known):
        # A name that only one release's dump has says that the release is another, no more.
        if name in _SKIP or (dumps_all and not all(name in known for known in every)):
            continue
        values = tuple(known.get(name, Setting(name, None, None, None)) for known in every)
        found.append(Difference(name, values, is_speculation(name), missing))
    return found


def _untold(row: Difference) -> bool:
    """Of different engines a value that one does not print is no difference."""
    unsaid = row.missing == UNKNOWN and None in (value.value for value in row.settings)
    return unsaid and row.name not in _TOLD_ANYWAY


def _differs(values: Sequence[Setting]) -> bool:
    texts = {json.dumps(_plain(v.value), sort_keys=True, default=str) for v in values}
    return len(texts) > 1


def _plain(value: Any) -> Any:
    """A value as far as it matters: switched off, empty and absent are one. Of a secret only a
    hash is known, which differs between stores, and it does not say how a server serves."""
    if isinstance(value, str) and value.startswith(_SECRET):
        return None
    off = value is False or (not isinstance(value, bool | int | float) and value in _OFF)
    return None if off else value


def is_speculation(name: str) -> bool:
    """Whether an argument is one of speculation or is forced by it."""
    return name in _FORCED or bool(re.match(r"_?(?:spec|decoupled_spec)", name))


@dataclass(frozen=True, slots=True)
class LoweredCap:
    """A cap on running requests that speculation lowered."""

    cap: int  # requests over all ranks
    evidence: str  # the quoted line; empty where it is inferred
    line_no: int | None
    base_cap: int | None
    base_default: bool  # the base run's user set none either

    @property
    def sentence(self) -> str:
        """What happened, with its evidence."""
        base = ""
        if self.base_cap is not None:
            base = f"; base run {self.base_cap}" + (" (default)" if self.base_default else "")
        why = f'"{self.evidence}", line {self.line_no}' if self.evidence else (
            "inferred from the two effective values, this version prints no line about it"
        )  # fmt: skip
        return f"{CAP} {self.cap}: not set by the user, lowered by speculation ({why}){base}"


def lowered_cap(run: RunData, base: RunData | None) -> LoweredCap | None:
    """The cap that speculation lowered in this run: from its line, or from two effective values.

    SGLang lowers it only while the user sets none: to 32 (0.4.3.post4) or 48 (0.4.4 on), and says
    so from 0.5.4 on.
    """
    cap = _cap(run)
    if not run.speculates or cap is None or run.card["engine"] != "sglang":
        return None
    line = run.events.filter(
        (pl.col("kind") == "override") & pl.col("evidence").str.contains(_LOWERED, literal=True)
    )
    before = _cap(base) if base is not None else None
    default = base is not None and base.args.get(CAP, 0) is None
    if line.height:
        quoted = line.row(0, named=True)
        return LoweredCap(cap, quoted["evidence"], quoted["line_no"], before, default)
    unset = run.args.get(CAP) in (None, cap)
    if _prints_lowered_cap(run) or not unset or cap not in _SILENT_CAPS or before is None:
        return None
    return LoweredCap(cap, "", None, before, default) if before > cap else None


def _cap(run: RunData) -> int | None:
    """The cap over all ranks: SGLang's pool line is per DP rank."""
    cap = run.card[CAP]
    return None if cap is None else int(cap) * run.ranks


def _prints_lowered_cap(run: RunData) -> bool:
    """Whether the release would say so (0.5.4 on); known of 0.5.9 on, whose prefill lines tell
    their graph state."""
    prefills = run.counted.filter(pl.col("kind") == "prefill")
    return bool(prefills["graph_on"].is_not_null().any())
