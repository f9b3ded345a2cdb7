"""The generated logs that imports are timed on, made once and kept in the temporary folder."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = Path(tempfile.gettempdir()) / "servescope-speed"
BEGIN = datetime(2026, 2, 23)
ACCESS = '127.0.0.1:{} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def sglang(lines: int) -> Path:
    """SGLang with speculation: 35 % decode, 20 % prefill and 43 % access lines."""
    generator = HERE / "genlog.py"
    name = hashlib.sha256(generator.read_bytes()).hexdigest()[:12]

    def write(path: Path) -> None:
        subprocess.run([sys.executable, generator, str(lines), path], check=True)

    return _kept(f"{name}-{lines}.log", write)


def access(lines: int) -> Path:
    """SGLang without speculation: 90 % access lines."""
    return _kept(f"access-1-{lines}.log", lambda path: path.write_text("".join(_access(lines))))


def vllm(lines: int) -> Path:
    """vLLM: a stats and a spec line every ten seconds, access lines without stamps between."""
    return _kept(f"vllm-1-{lines}.log", lambda path: path.write_text("".join(_vllm(lines))))


def packed(log: Path) -> Path:
    """The same log packed by gzip."""

    def write(path: Path) -> None:
        with log.open("rb") as source, gzip.open(path, "wb", 6) as target:
            shutil.copyfileobj(source, target)

    return _kept(log.name + ".gz", write)


def twice(log: Path) -> Path:
    """The same log two times in one file: the server started again."""

    def write(path: Path) -> None:
        with path.open("wb") as target:
            for _ in range(2):
                with log.open("rb") as source:
                    shutil.copyfileobj(source, target)

    return _kept(f"twice-{log.name}", write)


def _kept(name: str, write: Callable[[Path], object]) -> Path:
    path = FOLDER / name
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        print(f"Generating {name} ...", file=sys.stderr)
        unfinished = FOLDER / f"{os.getpid()}-{name}"
        write(unfinished)
        os.utime(unfinished, (1.78e9, 1.78e9))  # its last line is finished
        unfinished.rename(path)
    return path


def _access(lines: int) -> Iterator[str]:
    rng = random.Random(2)
    for n in range(lines):
        at = BEGIN + timedelta(milliseconds=200 * n)
        if n % 10:
            yield f"[{at:%Y-%m-%d %H:%M:%S}] INFO:     {ACCESS.format(rng.randint(30000, 60000))}"
        else:
            yield (
                f"[{at:%Y-%m-%d %H:%M:%S} TP0] Decode batch, #running-req: {rng.randint(1, 48)}, "
                f"#token: {rng.randint(100, 90000)}, token usage: {rng.random():.2f}, cuda graph: "
                f"True, gen throughput (token/s): {rng.random() * 2000:.2f}, #queue-req: 0\n"
            )


def _vllm(lines: int) -> Iterator[str]:
    rng = random.Random(3)
    for n in range(lines):
        head = f"(APIServer pid=7) INFO {BEGIN + timedelta(seconds=10 * (n // 50)):%m-%d %H:%M:%S}"
        if n % 50 == 0:
            yield (
                f"{head} [loggers.py:301] Engine 000: Avg prompt throughput: "
                f"{rng.random() * 900:.1f} tokens/s, Avg generation throughput: "
                f"{rng.random() * 2000:.1f} tokens/s, Running: {rng.randint(1, 48)} reqs, Waiting: "
                f"0 reqs, GPU KV cache usage: {rng.random() * 90:.1f}%, Prefix cache hit rate: "
                "30.0%\n"
            )
        elif n % 50 == 1:
            drafted = 3 * rng.randint(100, 9000)
            accepted = drafted // 3
            yield (
                f"{head} [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.00, "
                f"Accepted throughput: {accepted / 10:.2f} tokens/s, Drafted throughput: "
                f"{drafted / 10:.2f} tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} "
                "tokens, Per-position acceptance rate: 0.600, 0.300, 0.100, Avg Draft acceptance "
                "rate: 33.3%\n"
            )
        else:
            yield f"(APIServer pid=7) INFO:     {ACCESS.format(rng.randint(30000, 60000))}"
