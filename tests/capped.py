"""Logs of a server under rising load: without speculation, and with it behind its lowered cap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from tests import story

BASE_COUNTS = (1, 4, 8, 16, 32, 48, 64, 96)
SPEC_COUNTS = (1, 4, 8, 16, 32, 48)
WINDOWS = 12  # at each running count
BEGIN = datetime(2026, 5, 4, 9, 30, 0)


def _stamp(seconds: float) -> str:
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


def rate(running: int) -> float:
    """What the server without speculation makes of so many requests, tok/s."""
    return 70.0 * running / (1 + running / 60)


def base() -> list[str]:
    """The server without speculation."""
    return [*_boot(story.sglang(63.0)), *_load(BASE_COUNTS, 1.0, None)]


def speculative(length: float = 1.65, cost: float = 1.7) -> list[str]:
    """The same with a draft model: each step yields `length` tokens and costs `cost` steps."""
    boot = story.sglang(63.0, cap=48, length=length, **story.DRAFT)
    return [*_boot(boot), *_load(SPEC_COUNTS, length / cost, length)]


def _boot(lines: list[str]) -> list[str]:
    """The start of a log, at this module's time."""
    end = next(at for at, line in enumerate(lines) if "ready to roll" in line) + 1
    return [line.replace(f"[{story.BEGIN:%Y-%m-%d %H:%M:%S}", f"[{_stamp(0)}")
            for line in lines[:end]]  # fmt: skip


def _load(counts: Sequence[int], gain: float, length: float | None) -> Iterator[str]:
    spec = f"accept len: {length:.2f}, accept rate: {length / 4:.2f}, " if length else ""
    at, before = 10.0, 0
    for running in counts:
        fields: dict[str, Any] = {"new": running - before, "running": before}
        yield (
            f"[{_stamp(at)} TP0] Prefill batch, #new-seq: {fields['new']}, #new-token: 2048, "
            f"#cached-token: 0, token usage: 0.00, #running-req: {before}, #queue-req: 0, "
        )
        tokens = 40 * running * (length or 1.0)
        for nth in range(WINDOWS):
            printed = rate(running) * gain * (1 + 0.03 * ((nth * 7) % 5 - 2) / 2)
            at += tokens / printed
            held = 1024 * running + 40 * nth * running
            yield (
                f"[{_stamp(at)} TP0] Decode batch, #running-req: {running}, #token: {held}, "
                f"token usage: {held / 812000:.2f}, {spec}cuda graph: True, "
                f"gen throughput (token/s): {printed:.2f}, #queue-req: 0, "
            )
        before = running
