"""A real `servescope up` process, and the browser that looks at it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import command, nursery
from tests.nursery import Process
from tests.waiting import until

DEADLINE_S = 90.0
_VISITED = (*nursery.UP, *nursery.PAGES)  # a browser comes
# The same engine without the windows, tabs and bars that nobody sees, where it is installed.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "chromium"
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
    words = [*arguments, "--port", str(port or free_port())]
    with command.started(*words, cwd=cwd, env=env, loaded=_VISITED) as (process, said):
        yield from _served(process, said)


@contextmanager
def served_anew(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The same as a process that loads the program itself, as a user's does."""
    process = subprocess.Popen(
        [*command.COMMAND, *arguments, "--port", str(free_port())],
        cwd=cwd, env={**os.environ, **(env or {})}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        try:
            yield from _served(process, process.stdout)
        finally:
            process.kill()


def _served(process: Process | subprocess.Popen[str], said: IO[str]) -> Iterator[str]:
    line = said.readline()  # pytest's timeout ends a silent process
    assert line.startswith("Servescope: http://"), line + said.read()
    url = line.split()[1]
    until(lambda: _answers(url), DEADLINE_S, "the server answers")
    yield url
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 0, said.read()


@contextmanager
def browser() -> Iterator[Browser]:
    """The system's Chromium, without a screen and without a network of its own."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER_ARGS)
        try:
            yield chromium
        finally:
            chromium.close()


def visit(page: Page, url: str, sign: str) -> None:
    """Open a page, and again until a button of this name is there.

    Chromium drops what it is fetching when an interface of the machine comes or goes, as those of
    the tests of lost hosts do; a page does not fetch its scripts again.
    """
    button = page.get_by_role("button", name=sign)
    dropped = page.get_by_text("Failed to fetch dynamically imported module").first
    for _ in range(3):
        page.goto(url)
        expect(button.or_(dropped).first).to_be_visible(timeout=DEADLINE_S * 1000)
        if not dropped.is_visible():
            break


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
