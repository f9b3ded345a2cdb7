"""How a simulated vLLM prints: a stats line every ten seconds, one of zeros, then silence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

INTERVAL_S = 10.0


def _info(at: datetime, text: str) -> str:
    return f"(APIServer pid=7) INFO {at:%m-%d %H:%M:%S} [loggers.py:301] {text}"


def boot(begin: datetime, accept: Sequence[float], ranks: int, cap: int) -> list[str]:
    """The start of a vLLM 0.3x server, from its version to its ready line."""
    args = f"'model': 'org/model', 'max_num_seqs': {cap}"
    args += f", 'data_parallel_size': {ranks}" if ranks > 1 else ""
    if accept:
        drafts = {"method": "mtp", "num_speculative_tokens": len(accept)}
        args += f", 'speculative_config': {drafts}"
    return [
        _info(begin, "vLLM server version 0.33.0, serving model org/model"),
        _info(begin, f"non-default args: {{{args}}}"),
        _info(begin, "Application startup complete."),
    ]


def stats(
    at: datetime, engine: int, gen_tok_s: float, prompt_tok_s: float, running: int, waiting: int,
    usage: float,
) -> str:  # fmt: skip
    """A stats line."""
    return _info(
        at,
        f"Engine {engine:03}: Avg prompt throughput: {prompt_tok_s:.1f} tokens/s, Avg generation "
        f"throughput: {gen_tok_s:.1f} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
        f"GPU KV cache usage: {100 * usage:.1f}%, Prefix cache hit rate: 30.0%",
    )


def spec(at: datetime, seconds: float, steps: int, by_position: Sequence[int]) -> str:
    """A speculation line: how many steps accepted each position."""
    accepted, drafted = sum(by_position), steps * len(by_position)
    shares = ", ".join(f"{n / steps:.3f}" for n in by_position)
    return _info(
        at,
        f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / steps:.2f}, Accepted "
        f"throughput: {accepted / seconds:.2f} tokens/s, Drafted throughput: "
        f"{drafted / seconds:.2f} tokens/s, Accepted: {accepted} tokens, Drafted: "
        f"{drafted} tokens, Per-position acceptance rate: {shares}, Avg Draft acceptance rate: "
        f"{100 * accepted / drafted:.1f}%",
    )


def moment(begin: datetime, seconds: float) -> datetime:
    """A moment of the simulated clock."""
    return begin + timedelta(seconds=seconds)
