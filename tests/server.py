"""A real `servescope up` process, and the browser that looks at it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

DEADLINE_S = 90.0
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
BROWSER_ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def served(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Iterator[str]:
    """Run `servescope ARGUMENTS` until the block ends; gives the address it prints."""
    command = [sys.executable, "-m", "servescope", *arguments, "--port", str(port or free_port())]
    process = subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **(env or {})}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()  # pytest's timeout ends a silent process
        assert line.startswith("Servescope: http://"), line + process.stdout.read()
        url = line.split()[1]
        wait_until(lambda: _answers(url), "the server answers")
        yield url
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0, process.stdout.read()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def browser() -> Iterator[Browser]:
    """The system's Chromium, without a screen and without a network of its own."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER_ARGS)
        try:
            yield chromium
        finally:
            chromium.close()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look until the condition holds; fail after DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.02)


def _answers(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
