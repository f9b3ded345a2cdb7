"""`up` and `ingest` over a PostgreSQL that is away when they start."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from data.errors import AwayError, StoreError
from data.store import Store
from tests.command import COMMAND, ROOT, start
from tests.growing import append, decodes, sglang_boot
from tests.nursery import UP, Process
from tests.postgres import Postgres
from tests.waiting import until


@pytest.fixture(scope="module")
def away() -> Iterator[Postgres]:
    """A server that tests stop and start."""
    server = Postgres()
    yield server
    server.close()


WAIT_S = 240.0  # a busy machine lets a process wait for minutes
pytestmark = pytest.mark.timeout(900)

# As the command, but not as patient.
HASTY = """
import data.patience, ingest.ending, servescope
data.patience.LONG_S, data.patience.LOOK_S = 1.5, 0.1
ingest.ending.END_S = 1.0
servescope.main()
"""


@contextlib.contextmanager
def started(
    folder: Path, *arguments: str, anew: Sequence[str] = ()
) -> Iterator[tuple[Process | subprocess.Popen[bytes], Path]]:
    """A command, and the file with all that it prints; `anew`: how a process of its own is
    started, which loads the program itself and ends as the interpreter ends."""
    said = folder / f"{arguments[0]}.said"
    process: Process | subprocess.Popen[bytes]
    with said.open("wb") as out:
        if anew:
            process = subprocess.Popen([*anew, *arguments], cwd=ROOT, stdout=out, stderr=out)
        else:
            process = start(arguments, out, out, loaded=UP)
    try:
        yield process, said
    finally:
        process.kill()
        process.wait(60)


def page(url: str, accept: str = "text/html") -> tuple[int, str]:
    """Status and text of an answer."""
    try:
        with urlopen(Request(url, headers={"Accept": accept}), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def stored(store: Store) -> int:
    time.sleep(0.2)  # a question costs what the others need
    with store.cursor() as con:
        row = con.execute("SELECT count(*) FROM samples").fetchone()
    assert row is not None
    return int(row[0])


def overdue(said: Path) -> int:
    """How often it was told that a question has no answer."""
    return said.read_text().count("is there and has not answered")


@dataclass(frozen=True)
class Waiting:
    """`up` and `ingest` of one log with 30 lines, before a server that is away."""

    location: str
    up: Process | subprocess.Popen[bytes]
    up_said: Path
    ingest: Process | subprocess.Popen[bytes]
    ingest_said: Path
    start_server: Callable[[], None]

    def end(self) -> tuple[int, int]:
        """What they end with when they are told to."""
        for process in (self.up, self.ingest):
            process.send_signal(signal.SIGTERM)
        return self.up.wait(60), self.ingest.wait(60)


@pytest.fixture
def waiting(away: Postgres, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Waiting]:
    """The server is away until the test starts it, or ends. `param`: as `anew` of `started`."""
    anew: Sequence[str] = getattr(request, "param", ())
    log, location = tmp_path / "server.log", away.lake(tmp_path / "files")
    place = "--store", location
    append(log, sglang_boot() + decodes(0, 30))
    away.stop("immediate")
    with (
        contextlib.ExitStack() as server,
        started(tmp_path, "up", "--port", "0", *place, anew=anew) as (up, up_said),
        started(tmp_path, "ingest", str(log), *place, anew=anew) as (ingest, ingest_said),
    ):
        server.callback(away.start)
        until(lambda: "(waiting for the store; stop" in up_said.read_text(), WAIT_S)
        until(lambda: "waiting until it does" in ingest_said.read_text(), WAIT_S)
        yield Waiting(location, up, up_said, ingest, ingest_said, server.close)


def test_they_wait_for_it_and_go_on_by_themselves(waiting: Waiting) -> None:
    url = next(w for w in waiting.up_said.read_text().split() if w.startswith("http://127"))
    status, text = page(url)
    assert status == 200
    assert "Waiting for the store." in text
    assert page(f"{url}/_stcore/health", "*/*")[0] == 503
    assert waiting.ingest_said.read_text().count("\n") == 1, "one line, however often it is tried"
    waiting.start_server()
    until(lambda: page(f"{url}/_stcore/health", "*/*") == (200, "ok"), WAIT_S)
    assert "Waiting for the store." not in page(url)[1]
    with Store.open(waiting.location) as store:
        until(lambda: stored(store) == 30, WAIT_S)
    assert waiting.end() == (0, 0)


@pytest.mark.parametrize("waiting", [COMMAND], indirect=True)
def test_they_end_when_they_are_told_to(waiting: Waiting) -> None:
    assert waiting.end() == (0, 0)
    assert "Traceback" not in waiting.up_said.read_text() + waiting.ingest_said.read_text()


def test_a_server_that_goes_while_logs_are_followed_is_told_once_and_when_it_is_back(
    away: Postgres, tmp_path: Path
) -> None:
    location, logs = away.lake(tmp_path / "files"), [tmp_path / f"{n}.log" for n in range(3)]
    for log in logs:
        append(log, sglang_boot() + decodes(0, 10))
    with started(tmp_path, "ingest", *map(str, logs), "--store", location) as (ingest, said):
        with Store.open(location) as store:
            until(lambda: stored(store) == 30, WAIT_S)
        begun = time.monotonic()
        away.stop("immediate")
        try:
            for log in logs:
                append(log, decodes(10, 5))
            until(lambda: "does not answer" in said.read_text(), WAIT_S)
            told_at = time.monotonic()  # each log and the writer try it once a second or two
            until(lambda: time.monotonic() > told_at + 6)
        finally:
            away.start()
        with Store.open(location) as store:
            until(lambda: stored(store) == 45, WAIT_S)
        until(lambda: "goes on after" in said.read_text(), WAIT_S)
        minutes = int((time.monotonic() - begun) // 60)  # for each it may be told once more
        ingest.send_signal(signal.SIGTERM)
        assert ingest.wait(60) == 0
    lines = said.read_text().splitlines()[1:]
    assert all(line.startswith(location) for line in lines), lines
    assert sum("goes on after" in line for line in lines) == 1
    assert len(lines) - 1 <= 1 + minutes, lines


def test_what_somebody_has_to_mend_is_not_waited_for(away: Postgres, tmp_path: Path) -> None:
    location = away.lake(tmp_path / "files")
    for wrong in (
        location.replace("user=postgres", "user=nobody_of_this_name"),
        location.replace("dbname=", "dbname=none_"),
    ):
        with pytest.raises(StoreError, match="does not exist") as error:
            Store.open(wrong)
        assert not isinstance(error.value, AwayError)


def test_a_server_that_stands_still_is_told_and_keeps_nobody_from_ending(
    away: Postgres, tmp_path: Path
) -> None:
    log, location = tmp_path / "server.log", away.lake(tmp_path / "files")
    append(log, sglang_boot() + decodes(0, 10))
    hasty = [sys.executable, "-c", HASTY]
    arguments = "ingest", str(log), "--store", location
    with Store.open(location) as store:
        with started(tmp_path, *arguments, anew=hasty) as (ingest, said):
            until(lambda: stored(store) == 10, WAIT_S)
            told = overdue(said)
            with away.frozen():
                append(log, decodes(10, 5))
                until(lambda: overdue(said) > told, WAIT_S)
            until(lambda: "goes on after" in said.read_text(), WAIT_S)
            until(lambda: stored(store) == 15, WAIT_S)
            told = overdue(said)
            with away.frozen():
                append(log, decodes(15, 5))
                until(lambda: overdue(said) > told, WAIT_S)
                ingest.send_signal(signal.SIGTERM)
                assert ingest.wait(60) == 1
            assert said.read_text().splitlines()[-1].endswith("goes on from what is stored")
        with started(tmp_path, *arguments) as (ingest, said):
            until(lambda: stored(store) == 20, WAIT_S)
            ingest.send_signal(signal.SIGTERM)
            assert ingest.wait(60) == 0
