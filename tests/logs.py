"""Log lines for tests, as the engines print them, and files of them through the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import polars as pl

from ingest.pipeline import Batch, Pipeline, SourceInfo

SOURCE = SourceInfo("test")


def decode(
    time: str,
    running: int = 1,
    rate: float = 100.0,
    *,
    accept: float | None = None,
    queue: int = 0,
    ranks: str = "",
) -> str:
    """A decode line of SGLang 0.5.23."""
    spec = f"accept len: {accept:.2f}, accept rate: 0.10, " if accept else ""
    return (
        f"[2026-05-04 {time}{ranks}] Decode batch, #running-req: {running}, "
        f"#token: {running * 50}, token usage: 0.01, {spec}cuda graph: True, "
        f"gen throughput (token/s): {rate:.2f}, #queue-req: {queue}"
    )


def prefill(time: str, new: int = 1, running: int = 0, *, tokens: int = 64, ranks: str = "") -> str:
    """A prefill line of SGLang 0.5.23."""
    return (
        f"[2026-05-04 {time}{ranks}] Prefill batch, #new-seq: {new}, #new-token: {tokens}, "
        f"#cached-token: 0, token usage: 0.00, #running-req: {running}, #queue-req: 0, "
        "#pending-token: 0, cuda graph: False, input throughput (token/s): 900.00"
    )


def stats(stamp: str, rate: float, running: int, *, prompt: float = 0.0, engine: int = 0) -> str:
    """A stats line of vLLM 0.30."""
    return (
        f"(APIServer pid=7) INFO {stamp} [loggers.py:301] Engine {engine:03}: Avg prompt "
        f"throughput: {prompt} tokens/s, Avg generation throughput: {rate} tokens/s, "
        f"Running: {running} reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%, "
        "Prefix cache hit rate: 12.5%"
    )


def sglang_boot(time: str, *, extra: str = "") -> list[str]:
    """The start of an SGLang server, from its dump to its ready line."""
    return [
        f"[2026-05-04 {time}] server_args={{'model_path': 'org/model', 'tp_size': 1, "
        f"'decode_log_interval': 40{extra}}}",
        f"[2026-05-04 {time}] max_total_num_tokens=65536, chunked_prefill_size=4096, "
        "max_prefill_tokens=16384, max_running_requests=256, context_len=8192, "
        "available_gpu_mem=9.50 GB",
        f"[2026-05-04 {time}] The server is fired up and ready to roll!",
    ]


def text(lines: Iterable[str]) -> bytes:
    """The lines as a file's bytes."""
    return "".join(line + "\n" for line in lines).encode()


def read(data: bytes, cuts: Sequence[int] = (), source: SourceInfo = SOURCE) -> Batch:
    """A whole file through the pipeline, cut after the given line numbers; after each cut the
    pipeline starts anew from its saved state."""
    pieces = data.split(b"\n")
    whole = [piece + b"\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])
    edges = [0, *sorted({c for c in cuts if 0 < c < len(whole)}), len(whole)]
    pipeline = Pipeline(source, "file")
    batches = []
    for start, end in pairwise(edges):
        pipeline = Pipeline.resume(source, "file", pipeline.state if start else None)
        batches.append(pipeline.feed(b"".join(whole[start:end])))
    batches.append(pipeline.finish())
    return one(batches)


def one(batches: Sequence[Batch]) -> Batch:
    """The batches of a file as one."""
    return Batch(
        *(
            pl.concat([getattr(batch, name) for batch in batches])
            for name in Batch.__dataclass_fields__
        )
    )


def timed(batch: Batch) -> pl.DataFrame:
    """Samples with the corrected windows laid over them, as the view `samples_timed` does."""
    late = batch.intervals.select("byte_offset", corrected="interval_s")
    return (
        batch.samples.join(late, on="byte_offset", how="left")
        .with_columns(interval_s=pl.coalesce("corrected", "interval_s"))
        .drop("corrected")
        .sort("byte_offset")
    )
