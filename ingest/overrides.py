"""What the server runs with against what it was asked for.

An override is told from a line of its own, or from two lines that differ: the arguments and what
the server prints once it has settled. SGLang's pool line is per DP rank, so 2048 over 8 ranks
that print 256 each is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeGuard

from ingest.runs import Run
from parsers.marks import Mark

DEFAULT = "default"
# vLLM's arguments to the names of its engine config. Parallel sizes are not among them: an engine
# process says 1 of what the arguments spread over several.
_VLLM = {
    "max_model_len": "max_seq_len",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kv_cache_dtype",
    "enforce_eager": "enforce_eager",
    "enable_prefix_caching": "enable_prefix_caching",
}
_ALIASES = {"half": "float16", "float": "float32", "fp8": "fp8_e4m3"}
Override = dict[str, Any]  # name, given, effective


def given(run: Run, name: str) -> Any:
    """The value that the arguments give a setting, "default" where they give none."""
    value = _args(run).get(name)
    return DEFAULT if value is None else value


def _args(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.facts.get("args") or "{}")
    return found


def completed(mark: Mark, run: Run) -> Override | None:
    """The data of an override's own line, with what was given."""
    data = mark.data or {}
    if mark.kind != "override" or "name" not in data:
        return mark.data
    run.overridden.append(f"{data['name']}={data['effective']}")
    value = given(run, data["name"])
    # SGLang's dump is resolved: it already holds what an override made of it.
    return {**data, "given": DEFAULT if value == data["effective"] else value}


def inferred(mark: Mark, run: Run) -> Iterator[Override]:
    """Overrides that the line shows against the arguments, each told once a run."""
    if mark.kind == "capacity" and mark.engine == "sglang":
        found = _of_pool(mark.data or {}, run)
    elif mark.kind == "engine":
        found = _of_engine(mark.facts.get("effective") or {}, run)
    else:
        return
    for override in found:
        told = f"{override['name']}={override['effective']}"
        if told not in run.overridden:
            run.overridden.append(told)
            yield override


def _of_pool(pool: dict[str, Any], run: Run) -> Iterator[Override]:
    args = _args(run)
    ranks = run.facts.get("dp") or 1
    for name, printed, page in (
        ("max_running_requests", "max_running_requests", 1),
        ("max_total_tokens", "max_total_num_tokens", args.get("page_size") or 1),
        ("context_length", "context_len", 1),
    ):
        asked, effective = args.get(name), pool.get(printed)
        if not _whole(asked) or not _whole(effective):
            continue
        share = asked // ranks if name == "max_running_requests" else asked
        if effective <= share - page:
            yield {"name": name, "given": asked, "effective": effective, "ranks": ranks}


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _of_engine(config: dict[str, Any], run: Run) -> Iterator[Override]:
    args = _args(run)
    for name, printed in _VLLM.items():
        asked, effective = args.get(name), config.get(printed)
        if asked in (None, "auto") or effective is None:
            continue
        if type(asked) is not type(effective) or _plain(asked) == _plain(effective):
            continue
        yield {"name": name, "given": asked, "effective": effective}


def _plain(value: Any) -> Any:
    """A value without the spellings that mean the same."""
    if not isinstance(value, str):
        return value
    text = value.removeprefix("torch.").lower()
    return _ALIASES.get(text, text)
