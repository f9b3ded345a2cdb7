"""A fleet under fire: collectors, dashboards and PostgreSQL are killed while servers write.

Used by the test (two minutes) and by tests/soak/fleet.py (ten). All is real: logs that grow, one
collector process a host, `servescope up` as dashboards, a PostgreSQL server, Parquet files.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import duckdb
import psycopg

from data.errors import ServescopeError
from data.lake_place import LakePlace
from data.store import Store
from ingest.control import ControlFile, RemoteCommands
from tests.kill import ROOT, Server
from tests.postgres import Postgres

START_S = 300.0  # for a process to start, however busy the machine is
RIGHT_S = 300.0  # for a dashboard to show what is stored
UNREAD_S = 60.0  # for us to read the store again once its server is back
GONE_S = 120.0  # for a process to end that was killed
ANSWER_S = 60.0
LOOK_S = 0.2  # between two questions to a dashboard: each costs the servers what they work with
_COUNTS = (
    "SELECT source_id, count(*) AS n, count(DISTINCT kv_tokens) AS lines FROM samples "
    "GROUP BY source_id"
)
_COLLECT = """
import os, sys
import pyarrow.dataset, psycopg  # loaded once: kills should come while it works
import data.lake_store, ingest.supervisor
from ingest.collecting import collect
from ingest.config import SourceSpec
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)  # what it says, progress of DuckDB too, must not be taken for our lines
        collect(sys.argv[2], [SourceSpec(sys.argv[1])])
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


@dataclass(slots=True)
class Outcome:
    """What the kills did to the lines, and how long dashboards were behind after one."""

    seed: int
    kills: dict[str, int] = field(default_factory=dict)  # by what was killed
    written: int = 0
    stored: int = 0
    missing: int = 0
    repeated: int = 0
    runs: int = 0
    hosts: int = 0
    looks: int = 0  # answers of dashboards
    doubled_looks: int = 0  # of these, with a line counted twice
    # By what was killed: seconds from its being back (below) to a right answer of a dashboard.
    behind_s: dict[str, list[float]] = field(default_factory=dict)
    # Seconds from its kill until it was back: the start of a process, not the store's recovery.
    # A dashboard is back when its health answers, PostgreSQL when it takes connections, a
    # collector with its first commit.
    back_s: dict[str, list[float]] = field(default_factory=dict)
    stood_s: float = 0.0  # for so long nothing of us ran; times around it are left out
    failed: list[str] = field(default_factory=list)  # deadlines that passed

    @property
    def exact(self) -> bool:
        """Each line is stored once, as one run a host, and no dashboard ever showed it twice."""
        whole = not self.missing and not self.repeated and self.runs == self.hosts
        return whole and not self.doubled_looks and not self.failed


class Pulse:
    """Tells for how long this process, and so most likely all of them, stood still."""

    TICK_S, STOOD_S = 0.2, 2.0

    def __init__(self) -> None:
        self.stood_s = 0.0
        self._stop = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def stop(self) -> None:
        """No more is told."""
        self._stop.set()

    def _beat(self) -> None:
        last = time.monotonic()
        while not self._stop.wait(self.TICK_S):
            now = time.monotonic()
            if now - last > self.STOOD_S:
                self.stood_s += now - last
            last = now


class Collector:
    """`servescope ingest` of one host, started again whenever it dies."""

    def __init__(self, host: str, log: Path, location: str) -> None:
        self._stop = threading.Event()
        self._pid = 0
        self._errors = log.with_suffix(".errors")
        with self._errors.open("ab") as errors:
            self._nursery = subprocess.Popen(
                [sys.executable, "-c", _COLLECT, str(log), location], cwd=ROOT, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                env={**os.environ, "SERVESCOPE_HOST": host}, process_group=0,
            )  # fmt: skip
        self.source = f"{host}:{log}"
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)
        self._thread.start()

    @property
    def last_words(self) -> str:
        """The last line that its processes wrote about themselves."""
        return (["", *self._errors.read_text(errors="replace").splitlines()])[-1]

    def kill(self) -> None:
        """Without any warning."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def stop(self) -> None:
        """For good."""
        self._stop.set()
        self.kill()
        self._thread.join(GONE_S)
        self.abandon()
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.close()
        self._nursery.stdout.close()

    def abandon(self) -> None:
        """Whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._nursery.pid, signal.SIGKILL)
        self._nursery.wait(GONE_S)

    def _keep_alive(self) -> None:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        while not self._stop.is_set():
            self._nursery.stdin.write("\n")
            self._nursery.stdin.flush()
            if (number := self._next_number()) is None:
                return
            self._pid = number
            if self._stop.is_set():
                self.kill()
            while (line := self._nursery.stdout.readline()) != "ended\n":
                if not line:
                    return  # it was abandoned
            self._pid = 0
            self._stop.wait(0.2)

    def _next_number(self) -> int | None:
        assert self._nursery.stdout is not None
        while not (line := self._nursery.stdout.readline()).strip().isdigit():
            if not line:
                return None
        return int(line)


class Dashboard:
    """`servescope up` without sources, over the same lake."""

    def __init__(self, location: str, home: Path) -> None:
        self._location = location
        self._environment = {**os.environ, "XDG_STATE_HOME": str(home)}
        name = LakePlace.parse(location).local.name
        self._control = home / "servescope" / name
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it; returns when its health answers."""
        command = [sys.executable, "-m", "servescope", "up", "--port", "0", "--store"]
        deadline = time.monotonic() + START_S
        while True:
            self._process = subprocess.Popen(
                [*command, self._location], cwd=ROOT, env=self._environment,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
            )  # fmt: skip
            while self._process.poll() is None:
                if self._healthy():
                    return
                if time.monotonic() > deadline:
                    self.kill()
                    raise TimeoutError(f"a dashboard did not start within {START_S:g} s")
                time.sleep(0.05)
            time.sleep(0.5)  # PostgreSQL was away: as systemd would, once more

    def _healthy(self) -> bool:
        control = ControlFile.read(self._control)
        if control is None or self._process is None or control.pid != self._process.pid:
            return False
        with (
            contextlib.suppress(OSError),
            urlopen(f"{control.url}/_stcore/health", timeout=5) as it,
        ):
            return bool(it.status == 200)
        return False

    def kill(self) -> None:
        """Without any warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(GONE_S)

    @property
    def process(self) -> int:
        """Its number; another one after every start."""
        return self._process.pid if self._process is not None else 0

    def is_up(self) -> bool:
        """Whether it has its address."""
        return ControlFile.read(self._control) is not None

    def counts(self) -> list[dict[str, Any]]:
        """Lines of each source as it shows them; ServescopeError while it cannot."""
        control = ControlFile.read(self._control)
        if control is None:
            return []
        return RemoteCommands(control).sql(_COUNTS, 1000, ANSWER_S).to_dicts()


class Fleet:
    """Hosts with servers and collectors, dashboards and the store, for as long as it lasts."""

    def __init__(self, folder: Path, hosts: int, dashboards: int, seed: int) -> None:
        self.outcome = Outcome(seed, hosts=hosts)
        self._rng = random.Random(seed)
        self._pulse = Pulse()
        self._counting, self._restarting = threading.Lock(), threading.Lock()
        self._postgres = Postgres()
        self._location = self._postgres.lake(folder / "files")
        self._database = dict(LakePlace.parse(self._location).words)["dbname"]
        self._logs = [folder / f"host{n}.log" for n in range(hosts)]
        self._servers = [
            Server(log, random.Random(seed + n), pause_s=0.3) for n, log in enumerate(self._logs)
        ]
        self._collectors = [
            Collector(f"host{n}", log, self._location) for n, log in enumerate(self._logs)
        ]
        self._dashboards = [
            Dashboard(self._location, folder / f"home{n}") for n in range(dashboards)
        ]
        self._reader = Store.open(self._location)
        self._read_at = time.monotonic()  # when we could read it last, or its server came back

    def fire(self, seconds: float) -> None:
        """Kill one thing after another; collectors, dashboards and the server at once."""
        deadline = time.monotonic() + seconds
        jobs: list[Callable[[float], str]] = [self._kill_collectors, self._restart_server]
        jobs += [partial(self._restart_dashboard, board) for board in self._dashboards]
        with ThreadPoolExecutor(len(jobs)) as pool:
            for done in [pool.submit(self._again, job, deadline) for job in jobs]:
                done.result()

    def _again(self, job: Callable[[float], str], deadline: float) -> None:
        while time.monotonic() < deadline and not self.outcome.failed:
            try:
                victim = job(deadline)
            except TimeoutError as error:
                self.outcome.failed.append(str(error))
                return
            with self._counting:
                self.outcome.kills[victim] = self.outcome.kills.get(victim, 0) + 1

    def _kill_collectors(self, deadline: float) -> str:
        time.sleep(self._rng.uniform(0.5, 3.0))
        collector = self._rng.choice(self._collectors)
        collector.kill()
        killed = time.monotonic()
        before = self._commits(collector)
        if not before or self._rng.random() < 0.5:
            return "collector"  # often it is killed again before it is back
        while time.monotonic() < min(deadline, killed + RIGHT_S):
            if self._restarting.locked():
                return "collector"
            if self._commits(collector) > before:
                self._back("collector", killed)
                self._until_right(self._rng.choice(self._dashboards), "collector")
                break
            time.sleep(0.1)
        return "collector"

    def _restart_server(self, deadline: float) -> str:
        self._sleep(self._rng.uniform(10.0, 20.0), deadline)
        with self._restarting:
            self._postgres.stop("immediate")
            killed = time.monotonic()
            self._postgres.start()
            self._read_at = time.monotonic()
        self._back("postgres", killed)
        with ThreadPoolExecutor(len(self._dashboards)) as pool:
            boards = [board for board in self._dashboards if board.is_up()]
            for done in [pool.submit(self._until_right, b, "postgres") for b in boards]:
                done.result()
        return "postgres"

    def _restart_dashboard(self, dashboard: Dashboard, deadline: float) -> str:
        self._sleep(self._rng.uniform(5.0, 10.0), deadline)
        dashboard.kill()
        killed = time.monotonic()
        dashboard.start()
        self._back("dashboard", killed)
        self._until_right(dashboard, "dashboard")
        return "dashboard"

    @staticmethod
    def _sleep(seconds: float, deadline: float) -> None:
        time.sleep(max(0.0, min(seconds, deadline - time.monotonic())))

    def _back(self, victim: str, killed: float) -> None:
        with self._counting:
            self.outcome.back_s.setdefault(victim, []).append(time.monotonic() - killed)

    def end(self) -> Outcome:
        """Let everything be read, then count line by line."""
        out = self.outcome
        self._pulse.stop()
        out.stood_s = self._pulse.stood_s
        try:
            for server in self._servers:
                server.stop()
            out.written = sum(server.written for server in self._servers)
            self._await(lambda: sum(self._stored().values()) >= out.written, 300)
            for dashboard in self._dashboards:
                self._until_right(dashboard, "nothing")
        except TimeoutError as error:
            out.failed += [str(error), *(collector.last_words for collector in self._collectors)]
        finally:
            try:
                self._count()
            except (duckdb.Error, ServescopeError) as error:  # then nothing is counted
                out.failed.append(f"not readable at the end: {error}")
            for collector in self._collectors:
                collector.stop()
            for server in self._servers:
                server.stop()
            for dashboard in self._dashboards:
                dashboard.kill()
            self._reader.close()
            self._postgres.close()
        return out

    def abandon(self) -> None:
        """End all processes, whatever they do."""
        for collector in self._collectors:
            collector.abandon()
        for dashboard in self._dashboards:
            dashboard.kill()
        self._postgres.close()

    def _count(self) -> None:
        out = self.outcome
        with self._reader.cursor() as con:
            found = con.execute("SELECT source_id, kv_tokens FROM samples").fetchall()
            runs = con.execute("SELECT count(*) FROM runs").fetchone()
        out.stored, out.repeated = len(found), len(found) - len(set(found))
        wanted = {
            (f"host{n}:{log}", line)
            for n, (log, server) in enumerate(zip(self._logs, self._servers, strict=True))
            for line in range(server.written)
        }
        out.missing = len(wanted - set(found))
        out.runs = int(runs[0]) if runs else 0

    def _commits(self, collector: Collector) -> int:
        """Number of its latest commit, as the catalog has it; 0 while PostgreSQL is away."""
        name = f"path {collector.source}"
        query = f"SELECT max(seq) FROM servescope_positions WHERE name = '{name}'"
        with contextlib.suppress(psycopg.Error):
            return int(str(self._postgres.execute(query, self._database)[0][0] or 0))
        return 0

    def _stored(self) -> dict[str, int]:
        """Lines of each source that are stored; none while PostgreSQL is away.

        TimeoutError if the store stays unreadable: what we count and compare would be nothing.
        """
        try:
            with self._reader.cursor() as con:
                stored = {source: n for source, n, _ in con.execute(_COUNTS).fetchall()}
        except (duckdb.Error, ServescopeError) as error:
            unread_s = time.monotonic() - self._read_at
            if unread_s > UNREAD_S and not self._restarting.locked():
                raise TimeoutError(f"not readable for {unread_s:.0f} s: {error}") from error
            return {}
        self._read_at = time.monotonic()
        return stored

    def _until_right(self, dashboard: Dashboard, victim: str) -> None:
        """Ask a dashboard until it shows what is stored now, unless it or the server goes again.

        The clock runs from here, while we look ourselves for what is stored.
        """
        begun, process, stood_s = time.monotonic(), dashboard.process, self._pulse.stood_s
        stored: dict[str, int] = {}
        # An answer is held against what is stored, so ours comes first.
        while not (stored := stored or self._stored()) or not self._shows(dashboard, stored):
            if not dashboard.is_up() or self._restarting.locked() or dashboard.process != process:
                return
            if time.monotonic() > begun + RIGHT_S:
                raise TimeoutError(f"a dashboard was not right within {RIGHT_S:g} s")
            time.sleep(LOOK_S)
        time.sleep(self._pulse.TICK_S)  # it tells of a standstill when that is over
        behind_s = time.monotonic() - begun - self._pulse.TICK_S
        if self._pulse.stood_s > stood_s:
            return
        with self._counting:
            self.outcome.behind_s.setdefault(victim, []).append(behind_s)

    def _shows(self, dashboard: Dashboard, stored: dict[str, int]) -> bool:
        try:
            shown = dashboard.counts()
        except ServescopeError:
            return False
        if not shown:
            return False
        self.outcome.looks += 1
        self.outcome.doubled_looks += any(row["n"] != row["lines"] for row in shown)
        seen = {row["source_id"]: row["n"] for row in shown}
        return all(seen.get(source, 0) >= n for source, n in stored.items())

    @staticmethod
    def _await(condition: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not everything was stored within {seconds} s of the end")
            time.sleep(0.1)
