"""Lines as containers, schedulers and collectors write them: one way a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from ingest.blocks import BlockReader
from ingest.pipeline import Batch, Pipeline, SourceInfo
from tests.logs import SOURCE, one

START = datetime(2026, 5, 4, 10, tzinfo=UTC)
Wrapper = Callable[[list[str]], list[str]]


def moments() -> Iterator[datetime]:
    """When a runtime took each line."""
    at = START
    while True:
        yield at
        at += timedelta(milliseconds=7)


def docker(lines: list[str]) -> list[str]:
    """docker logs -t"""
    return [f"{at:%Y-%m-%dT%H:%M:%S.%f}417Z {line}" for line, at in _timed(lines)]


def docker_json(lines: list[str], size: int = 16_384) -> list[str]:
    """docker's json-file driver; longer messages in pieces."""
    found = []
    for line, at in _timed(lines):
        text = line + "\n"
        for start in range(0, len(text), size):
            piece = {"log": text[start : start + size], "stream": "stderr"}
            piece["time"] = f"{at:%Y-%m-%dT%H:%M:%S.%f}Z"
            found.append(json.dumps(piece, ensure_ascii=False, separators=(",", ":")))
    return found


def cri(lines: list[str], size: int = 16_384) -> list[str]:
    """Kubernetes' container runtime interface; longer messages in pieces."""
    found = []
    for line, at in _timed(lines):
        pieces = [line[i : i + size] for i in range(0, len(line), size)] or [""]
        for piece in pieces[:-1]:
            found.append(f"{at:%Y-%m-%dT%H:%M:%S.%f}331+00:00 stdout P {piece}")
        found.append(f"{at:%Y-%m-%dT%H:%M:%S.%f}331+00:00 stdout F {pieces[-1]}")
    return found


def journal_json(lines: list[str]) -> list[str]:
    """journalctl -o json; a message that is no text is a list of bytes."""
    found = []
    for number, (line, at) in enumerate(_timed(lines)):
        message: object = line if number % 5 else list(line.encode())
        stamp = str(int(at.timestamp() * 1_000_000))
        fields = {"_PID": "812", "__REALTIME_TIMESTAMP": stamp, "PRIORITY": "6"}
        found.append(json.dumps({**fields, "MESSAGE": message, "_TRANSPORT": "stdout"}))
    return found


def journal_short(lines: list[str]) -> list[str]:
    """journalctl, and syslog files"""
    return [
        f"{at:%b} {at.day:2} {at:%H:%M:%S} gpu-07 llm[812]: {line}" for line, at in _timed(lines)
    ]


def journal_full(lines: list[str]) -> list[str]:
    """journalctl -o short-full"""
    return [f"{at:%a %Y-%m-%d %H:%M:%S} CET gpu-07 llm[812]: {line}" for line, at in _timed(lines)]


def journal_iso(lines: list[str]) -> list[str]:
    """journalctl -o short-iso"""
    return [f"{at:%Y-%m-%dT%H:%M:%S}+0000 gpu-07 llm[812]: {line}" for line, at in _timed(lines)]


def syslog_5424(lines: list[str]) -> list[str]:
    """syslog as RFC 5424 has it"""
    return [
        f"<30>1 {at:%Y-%m-%dT%H:%M:%S.%f}Z gpu-07 llm 812 - - {line}" for line, at in _timed(lines)
    ]


def compose(lines: list[str]) -> list[str]:
    """docker compose logs"""
    return [f"engine-1  | {line}" for line in lines]


def compose_colours(lines: list[str]) -> list[str]:
    """docker compose logs on a terminal"""
    return [f"\x1b[36mengine-1  |\x1b[0m {line}" for line in lines]


def kubectl(lines: list[str]) -> list[str]:
    """kubectl logs --prefix"""
    return [f"[pod/llm-decode-0/server] {line}" for line in lines]


def stern(lines: list[str]) -> list[str]:
    """stern"""
    return [f"llm-7d9c6b5f4d-x8kq2 server {line}" for line in lines]


def ray(lines: list[str]) -> list[str]:
    """ray's driver"""
    return [f"(Engine pid=41820, ip=10.0.0.4) {line}" for line in lines]


def srun(lines: list[str]) -> list[str]:
    """srun -l"""
    return [f" 3: {line}" for line in lines]


def collector(lines: list[str]) -> list[str]:
    """a log collector's own JSON"""
    return [
        json.dumps({"@timestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z", "message": line, "pod": "a"})
        for line, at in _timed(lines)
    ]


def _timed(lines: list[str]) -> Iterator[tuple[str, datetime]]:
    return zip(lines, moments(), strict=False)


WRAPPERS: tuple[Wrapper, ...] = (
    docker, docker_json, cri, journal_json, journal_short, journal_full,
    journal_iso, syslog_5424, compose,
    compose_colours, kubectl, stern, ray, srun, collector,
)  # fmt: skip


class Growing:
    """A file in memory that has so many bytes by now."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, 0

    def read(self, offset: int, size: int) -> bytes:
        return self.data[: self.size][offset : offset + size]


def follow(data: bytes, sizes: list[int], source: SourceInfo = SOURCE) -> Batch:
    """The records of a file that has these sizes when it is looked at, and is then complete."""
    file = Growing(data)
    state, batches = None, []
    for size in [*sizes, len(data)]:
        file.size = size
        pipeline = Pipeline.resume(source, "file", state)
        reader = BlockReader(file, pipeline.offset)
        while (block := reader.next(final=size == len(data))) is not None:
            batches.append(pipeline.feed(block.data))
        state = pipeline.state
    batches.append(Pipeline.resume(source, "file", state).finish())
    return one(batches)
