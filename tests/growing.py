"""A log that grows: numbered lines, so that a test can tell which are stored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 1, 12, 0, 0)


def sglang_boot(at: float = 0.0, model: str = "org/model") -> bytes:
    """The line that opens a run."""
    return (
        f"[{_stamp(at)}] server_args=ServerArgs(model_path='{model}', tp_size=1, "
        "api_key='sk-canary000111222333', max_running_requests=None)\n"
    ).encode()


def decode(at: float, number: int) -> bytes:
    """A decode line that carries a number of its own in `#token`."""
    return (
        f"[{_stamp(at)} TP0] Decode batch, #running-req: 1, #token: {number}, token usage: 0.01, "
        "cuda graph: True, gen throughput (token/s): 80.50, #queue-req: 0\n"
    ).encode()


def decodes(first: int, count: int) -> bytes:
    """Numbered decode lines, half a second apart."""
    return b"".join(decode(number / 2, number) for number in range(first, first + count))


def append(path: Path, data: bytes) -> None:
    """Write like a server does: at the end, in one go."""
    with path.open("ab", buffering=0) as file:
        file.write(data)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A server that has started and writes 400 lines a second until the block ends."""
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.wait(0.05):
            append(path, decodes(number, 20))
            number += 20

    path.write_bytes(sglang_boot())
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def _stamp(at: float) -> str:
    return (START + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S")
