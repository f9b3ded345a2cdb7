"""A PostgreSQL server of the tests' own, and lakes in it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg

from data.store import Store

OpenStore = Callable[..., Store]  # what the fixture `open_store` gives
_TEMPLATE = "made"
_ACCOUNT = "postgres"  # the server refuses to run as root
# A lake is a database of its own, hundreds of small files: in memory they take a tenth of the time.
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 8 << 30  # free, of which the databases of all tests take a third
# The machine will not lose power: what the server has written is there after any end of it.
_FAST = "-c fsync=off -c full_page_writes=off -c max_connections=300"


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    assert found, "there is no PostgreSQL server; `make test` installs the package postgresql"
    return found[-1].parent


def _roomy_memory() -> Path | None:
    """A folder in memory with room for the databases, if there is one."""
    there = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES
    return _MEMORY if there else None


class Postgres:
    """A cluster in a folder of its own, reached through a socket there."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="servescope-pg-", dir=_roomy_memory()))
        self._programs = _programs()
        self._made = 0
        if os.geteuid() == 0:
            account = pwd.getpwnam(_ACCOUNT)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        data = str(self.folder / "data")
        self._run("initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-D", data)
        self.start()

    def start(self) -> None:
        """Start the server; returns when it answers."""
        options = f"{_FAST} -c listen_addresses= -k {self.folder}"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-l", log, "-w", "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """Stop it: `immediate` is as if its machine lost power."""
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", how, "stop")

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """All of its processes stand still, with their connections."""
        server = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        told = subprocess.run(["pgrep", "-P", str(server)], capture_output=True, text=True)
        processes = [server, *map(int, told.stdout.split())]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def close(self) -> None:
        """Stop it for good."""
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement; its rows."""
        words = f"host={self.folder} user=postgres dbname={database}"
        with psycopg.connect(words, autocommit=True) as con:
            cursor = con.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def words(self, database: str, user: str = "postgres") -> str:
        """What --store takes for a lake in this database that is made already."""
        return f"ducklake:postgres:host={self.folder} user={user} dbname={database}"

    def empty(self) -> str:
        """A database without a lake."""
        self._made += 1
        name = f"lake{self._made}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def lake(self, data_path: Path) -> str:
        """A lake without rows whose files lie in this folder: what --store takes."""
        if not self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{_TEMPLATE}'"):
            self.execute(f"CREATE DATABASE {_TEMPLATE}")
            files = self.folder / "template"
            Store.open(f"{self.words(_TEMPLATE)} data_path={files}").close()
            assert not any(files.rglob("*.parquet"))
        self._made += 1
        name = f"lake{self._made}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")
        data_path.mkdir(parents=True, exist_ok=True)
        self.execute(
            f"UPDATE ducklake_metadata SET value = '{data_path}/' WHERE key = 'data_path'", name
        )
        return self.words(name)

    def _run(self, program: str, *arguments: str) -> None:
        command: Sequence[str] = [str(self._programs / program), *arguments]
        user = _ACCOUNT if os.geteuid() == 0 else None
        subprocess.run(
            command, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/", timeout=600,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PGCTLTIMEOUT": "300"},
        )  # fmt: skip
