"""A simulated server that prints what the engines print, with its true speed known.

`serve` runs a scheduler step by step (admission, prefill, decode, speculation, caps, idle times)
and prints lines of SGLang or vLLM, which tests read with the real parser. `start` makes the
samples of one start directly, where a test needs hundreds of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from data.run_data import RunData
from parsers import records
from tests import frames, logs
from tests import simulated_vllm as vllm

BEGIN = datetime(2026, 5, 4, 9, 0, 0)
START_SPREAD = 0.03  # how much the speed of one start differs from another's
EMPTY_BENCH = pl.DataFrame(
    schema={
        **records.BENCH_RESULTS, "join_method": pl.String, "server_running_reqs": pl.Float64,
        "server_accept_len": pl.Float64, "server_gen_tok_s": pl.Float64, "log_tokens": pl.Float64,
        "window_started_at": records.TIME, "window_ended_at": records.TIME,
        "token_difference": pl.Float64, "allowed_tokens": pl.Float64, "join_detail": pl.String,
    }
)  # fmt: skip
EMPTY_ACCESS = pl.DataFrame(
    schema={
        "minute": records.TIME, "method": pl.String, "path": pl.String, "status": pl.Int32,
        "n": pl.Int64,
    }
)  # fmt: skip


def run(
    samples: pl.DataFrame,
    events: Sequence[dict[str, Any]] = (),
    bench: Sequence[dict[str, Any]] = (),
    access: Sequence[dict[str, Any]] = (),
    **card: Any,
) -> RunData:
    """A run as the store would give it."""
    known = dict.fromkeys(records.RUNS) | {
        "run_id": "r1", "engine": "sglang", "end_state": "stopped", "model": "org/model",
        "dp": 1, "tp": 1, "pp": 1, "source_id": "s", "tags": None, "n_faults": 0, **card,
    }  # fmt: skip
    return RunData(
        known,
        samples,
        records.frame(({"run_id": known["run_id"], **e} for e in events), records.EVENTS),
        pl.concat([EMPTY_BENCH, pl.DataFrame(list(bench))], how="diagonal_relaxed"),
        pl.concat([EMPTY_ACCESS, pl.DataFrame(list(access))], how="diagonal_relaxed"),
    )


def from_text(lines: Sequence[str], **card: Any) -> list[RunData]:
    """The runs of a log, read by the real parser."""
    batch = logs.read(logs.text(lines))
    facts = batch.run_facts.unique("run_id", keep="last", maintain_order=True)
    samples = logs.timed(batch)
    return [
        replace_card(
            run(samples.filter(pl.col("run_id") == row["run_id"])),
            batch.events.filter(pl.col("run_id") == row["run_id"]),
            row | card,
        )
        for row in facts.iter_rows(named=True)
    ]


def replace_card(made: RunData, events: pl.DataFrame, row: dict[str, Any]) -> RunData:
    """A run with these events and this card."""
    return RunData({**made.card, **row}, made.samples, events, made.bench, made.access)


@dataclass(frozen=True, slots=True)
class Server:
    """How fast it is, and how it is set up."""

    engine: str = "sglang"
    step_ms: float = 10.0  # one decode step of one request
    per_request_ms: float = 0.4  # more for each further one
    prefill_ms_per_token: float = 0.05
    noise: float = 0.05  # of one step's time
    accept: tuple[float, ...] = ()  # share of steps that accept the first k drafts; none: plain
    step_cost: float = 1.0  # of a speculative step, in plain ones
    cap: int = 256
    ranks: int = 1
    pool_tokens: int = 400_000
    cached: float = 0.3  # share of each prompt found in the prefix cache
    graph: bool = True
    graph_up_to: int | None = None  # running requests; larger batches run without a graph
    shares: tuple[float, ...] = ()  # of the clients on each rank; none: alike
    accepts_for_s: float = math.inf  # after this no draft is accepted any more
    slower_a_minute: float = 0.0  # how much longer a step takes after each minute
    args: dict[str, Any] = field(default_factory=dict)

    def step_s(self, running: int) -> float:
        """Mean seconds of one decode step."""
        return self.step_cost * (self.step_ms + self.per_request_ms * (running - 1)) / 1000

    @property
    def accept_len(self) -> float:
        """Tokens a step and request, bonus included."""
        return 1 + sum(self.accept)

    def tok_s(self, running: int) -> float:
        """True throughput of one rank at a steady running count."""
        return running * self.accept_len / self.step_s(running)


@dataclass(frozen=True, slots=True)
class Load:
    """One burst: a closed loop of clients, after an idle time."""

    concurrency: int
    requests: int
    prompt: int = 200
    output: int = 400
    idle_s: float = 5.0


@dataclass(slots=True)
class _Rank:
    number: int
    running: list[list[float]] = field(default_factory=list)  # context, tokens left
    waiting: int = 0
    to_send: int = 0
    steps: int = 0
    tokens: float = 0.0  # since the last line
    accepted: float = 0.0  # request-steps' tokens since the last line
    pairs: int = 0  # request-steps since the last line
    last_s: float = 0.0
    now_s: float = 0.0
    ar: float = 0.0
    prompt: int = 0  # computed tokens since the last line
    positions: list[int] = field(default_factory=list)  # accepted since the last line

    def printed(self) -> None:
        """Begins the next window."""
        self.tokens = self.accepted = 0.0
        self.pairs = self.prompt = 0
        self.positions = [0] * len(self.positions)
        self.last_s = self.now_s


@dataclass(frozen=True, slots=True)
class Served:
    """What a simulated start printed, and how fast this start truly is."""

    lines: list[str]
    effect: float  # its steps take so much longer than the configuration's


def serve(server: Server, loads: Sequence[Load], seed: int = 0) -> Served:
    """One start under these loads, as its log."""
    random = np.random.default_rng(seed)
    effect = math.exp(START_SPREAD * random.standard_normal())
    lines: list[tuple[float, str]] = []
    ranks = [_Rank(i, positions=[0] * len(server.accept)) for i in range(server.ranks)]
    for load in loads:
        begin = max(rank.now_s for rank in ranks) + load.idle_s
        for rank in ranks:
            rank.now_s = begin
            if server.engine == "vllm":  # its timer also runs while nothing is printed
                rank.last_s += (begin - rank.last_s) // vllm.INTERVAL_S * vllm.INTERVAL_S
            part = server.shares[rank.number] if server.shares else 1 / server.ranks
            share = round(load.requests * part)
            rank.waiting = min(round(load.concurrency * part), share)
            rank.to_send = share - rank.waiting
            while rank.running or rank.waiting:
                _step(server, load, rank, effect, random, lines)
            if server.engine == "vllm":
                _fall_silent(server, rank, lines)
    lines.sort(key=lambda pair: pair[0])
    end = f"[{BEGIN + timedelta(seconds=max(r.now_s for r in ranks) + 2):%Y-%m-%d %H:%M:%S}]"
    stop = [f"{end} INFO:     Shutting down", f"{end} INFO:     Application shutdown complete."]
    return Served([*boot(server), *(text for _, text in lines), *stop], effect)


def _step(
    server: Server, load: Load, rank: _Rank, effect: float, random: np.random.Generator,
    lines: list[tuple[float, str]],
) -> None:  # fmt: skip
    admitted = min(rank.waiting, server.cap - len(rank.running))
    if admitted:
        rank.waiting -= admitted
        cached = int(load.prompt * server.cached)
        tokens = (load.prompt - cached) * admitted
        rank.now_s += effect * server.prefill_ms_per_token * tokens / 1000
        rank.prompt += tokens
        if server.engine == "vllm":  # counts the first tokens, which the prefill makes
            rank.tokens += admitted
        else:
            line = _prefill(server, rank, admitted, tokens, cached * admitted)
            lines.append((rank.now_s, line))
        rank.running += [[load.prompt, load.output - 1.0] for _ in range(admitted)]
        return
    n = len(rank.running)
    # Neighbouring steps are alike: other work on the machine lasts longer than one.
    rank.ar = 0.8 * rank.ar + 0.6 * random.standard_normal()
    wobble = math.exp(server.noise * rank.ar - server.noise**2 / 2)
    wobble *= 1 + server.slower_a_minute * rank.now_s / 60
    rank.now_s += effect * server.step_s(n) * wobble
    rank.steps += 1
    for request in rank.running:
        made = _made(server, random) if rank.now_s < server.accepts_for_s else 1
        rank.tokens += made
        rank.accepted += made
        rank.pairs += 1
        rank.positions = [n + (made > k) for k, n in enumerate(rank.positions, 1)]
        request[0] += made
        request[1] -= made
    if server.engine == "vllm":
        if rank.now_s - rank.last_s >= vllm.INTERVAL_S:
            _stats(server, rank, lines)
    elif rank.steps % 40 == 0:
        lines.append((rank.now_s, _decode(server, rank)))
        rank.printed()
    done = sum(left <= 0 for _, left in rank.running)
    rank.running = [r for r in rank.running if r[1] > 0]
    sent = min(done, rank.to_send)
    rank.to_send -= sent
    rank.waiting += sent


def _stats(server: Server, rank: _Rank, lines: list[tuple[float, str]]) -> None:
    """The stats line of vLLM, and the speculation line below it."""
    seconds, at = rank.now_s - rank.last_s, vllm.moment(BEGIN, rank.now_s)
    lines.append((rank.now_s, vllm.stats(
        at, rank.number, rank.tokens / seconds, rank.prompt / seconds, len(rank.running),
        rank.waiting, _held(rank) / server.pool_tokens,
    )))  # fmt: skip
    if rank.pairs and rank.positions:
        lines.append((rank.now_s, vllm.spec(at, seconds, rank.pairs, rank.positions)))
    rank.printed()


def _fall_silent(server: Server, rank: _Rank, lines: list[tuple[float, str]]) -> None:
    """The rest of a burst, and the one line of zeros that ends it."""
    for _ in range(2):
        rank.now_s = rank.last_s + vllm.INTERVAL_S
        _stats(server, rank, lines)


def _made(server: Server, random: np.random.Generator) -> int:
    """Tokens of one verification step: the accepted prefix of the drafts, and the bonus."""
    draw = random.random()
    return 1 + sum(draw < share for share in server.accept)


def _stamp(rank: _Rank, server: Server) -> str:
    at = (BEGIN + timedelta(seconds=rank.now_s)).strftime("%Y-%m-%d %H:%M:%S")
    return f"[{at} DP{rank.number} TP0]" if server.ranks > 1 else f"[{at}]"


def _held(rank: _Rank) -> int:
    return int(sum(context for context, _ in rank.running))


def _decode(server: Server, rank: _Rank) -> str:
    held = _held(rank)
    length = rank.accepted / rank.pairs
    drafts = len(server.accept)
    spec = f"accept len: {length:.2f}, accept rate: {(length - 1) / drafts:.2f}, " if drafts else ""
    return (
        f"{_stamp(rank, server)} Decode batch, #running-req: {len(rank.running)}, #token: {held}, "
        f"token usage: {held / server.pool_tokens:.2f}, {spec}cuda graph: "
        f"{_graph(server, len(rank.running))}, "
        f"gen throughput (token/s): {rank.tokens / (rank.now_s - rank.last_s):.2f}, "
        f"#queue-req: {rank.waiting}"
    )


def _graph(server: Server, running: int) -> bool:
    return server.graph and (server.graph_up_to is None or running <= server.graph_up_to)


def _prefill(server: Server, rank: _Rank, new: int, tokens: int, cached: int) -> str:
    held = _held(rank)
    return (
        f"{_stamp(rank, server)} Prefill batch, #new-seq: {new}, #new-token: {tokens}, "
        f"#cached-token: {cached}, token usage: {held / server.pool_tokens:.2f}, "
        f"#running-req: {len(rank.running)}, #queue-req: {rank.waiting}, #pending-token: 0, "
        "cuda graph: True, input throughput (token/s): 900.00"
    )


def boot(server: Server) -> list[str]:
    """The start of a server, from its arguments to its ready line; SGLang's as 0.5.2x prints it."""
    if server.engine == "vllm":
        return vllm.boot(BEGIN, server.accept, server.ranks, server.cap)
    at = f"[{BEGIN:%Y-%m-%d %H:%M:%S}]"
    drafts = len(server.accept)
    args: dict[str, Any] = {
        "model_path": "org/model", "tp_size": 1, "dp_size": server.ranks, "pp_size": 1,
        "decode_log_interval": 40, "max_running_requests": None, "disable_radix_cache": False,
        "speculative_algorithm": "EAGLE3" if drafts else None,
        "speculative_num_steps": drafts or None,
        "speculative_num_draft_tokens": drafts + 1 if drafts else None, **server.args,
    }  # fmt: skip
    ranks = [f"{at[:-1]} DP{i} TP0]" for i in range(server.ranks)] if server.ranks > 1 else [at]
    return [
        f"{at} server_args={args!r}",
        *(
            f"{rank} max_total_num_tokens={server.pool_tokens}, chunked_prefill_size=8192, "
            f"max_prefill_tokens=16384, max_running_requests={server.cap}, context_len=32768, "
            "available_gpu_mem=9.50 GB"
            for rank in ranks
        ),
        f"{at} The server is fired up and ready to roll!",
    ]


def start(
    server: Server, counts: Sequence[int], windows: int, seed: int, **card: Any
) -> tuple[RunData, float]:
    """The steady windows of one start, made directly as samples, and this start's effect.

    Args:
        counts: running counts, held one after the other.
        windows: how many windows each.
    """
    random = np.random.default_rng(seed)
    effect = math.exp(START_SPREAD * random.standard_normal())
    rows: list[dict[str, Any]] = []
    at, ar = 0.0, 0.0
    shares = np.array(server.accept)
    for running in counts:
        draws = random.random((windows, 40, 1))
        lengths = 1 + (draws < shares).sum(axis=2).mean(axis=1)
        for length in lengths:
            ar = 0.3 * ar + math.sqrt(0.91) * random.standard_normal()
            wobble = math.exp(server.noise * ar - server.noise**2 / 2)
            seconds = 40 * effect * server.step_s(running) * wobble
            at += seconds
            rows.append({
                "at": at, "byte_offset": len(rows) * 200, "line_no": len(rows) + 1,
                "running_reqs": running, "gen_tok_s": 40 * running * float(length) / seconds,
                "interval_s": seconds, "accept_len": float(length) if server.accept else None,
                "request_steps": 40.0 * running, "kv_tokens": 600 * running,
            })  # fmt: skip
    return run(_samples(rows), **card), effect


def _samples(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Steady decode windows as the store holds them."""
    fixed = frames.decode(0, graph_on=True, kv_usage=0.01)
    given = pl.DataFrame(rows, infer_schema_length=None)
    columns = {
        name: pl.col(name) if name in given.columns else pl.lit(fixed.get(name))
        for name in records.SAMPLES
    }
    columns["ts"] = pl.lit(BEGIN) + pl.duration(microseconds=(pl.col("at") * 1e6).cast(pl.Int64))
    return given.select(
        expression.cast(records.SAMPLES[name]).alias(name) for name, expression in columns.items()
    )
