"""At the start of `up` and `ingest`: what may come later is waited for, and keeps nobody waiting;
what somebody has to mend is refused."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from data.store import Store
from ingest import starting
from ingest.config import SourceSpec
from ingest.starting import look
from tests.command import COMMAND, ROOT, fails, run, started
from tests.following import numbers
from tests.growing import append, decodes, sglang_boot
from tests.server import free_port
from tests.sshd import Sshd, make_key, serving
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)
WAIT_S = 120.0
LINES = sglang_boot() + decodes(0, 10)


@pytest.fixture
def host(tmp_path: Path, own_home: Path) -> Iterator[Sshd]:
    with serving(tmp_path / "sshd", own_home) as server:
        yield server


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.log"
    path.write_bytes(LINES)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.duckdb"


def line_with(said: IO[str], *words: str) -> str:
    """The next line that holds all of these; pytest's timeout ends a silent process."""
    for line in said:
        if all(word in line for word in words):
            return line
    raise AssertionError(f"nothing was said of {words}")


def test_up_reads_the_good_log_while_a_host_and_a_file_are_away(
    host: Sshd, good: Path, store: Path, tmp_path: Path
) -> None:
    there, late = tmp_path / "there.log", tmp_path / "later" / "late.log"
    there.write_bytes(sglang_boot() + decodes(20, 10))
    host.stop()

    def count() -> str:
        query = "SELECT count(*) FROM samples"
        return run("sql", query, "--format", "csv", "--store", store).stdout.split()[-1]

    def states() -> list[str]:
        report = json.loads(run("status", "--json", "--store", store).stdout)
        return [source["state"] for source in report["sources"]]

    words: list[str | Path] = ["up", good, host.url(there), late, "--store", store, "--port", "0"]
    with started(*words) as (process, said):
        assert line_with(said, "no such file") == (
            f"servescope: {late}: no such file yet; followed as soon as it is there\n"
        )
        line_with(said, "Servescope: http://")
        line_with(said, host.url(there), "cannot be reached", "(Connection refused)", "tried again")
        until(lambda: count() == "10", WAIT_S)
        until(lambda: states() == ["following", "reconnecting", "waiting for file"], WAIT_S)
        host.start()
        late.parent.mkdir()
        late.write_bytes(sglang_boot() + decodes(40, 10))
        line_with(said, host.url(there), "goes on after")
        until(lambda: count() == "30", WAIT_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_ingest_of_one_source_waits_for_its_host(host: Sshd, good: Path, store: Path) -> None:
    host.stop()
    with started("ingest", host.url(good), "--store", store) as (process, said):
        line_with(said, "cannot be reached", "tried again")
        host.start()
        line_with(said, "goes on after")
        append(good, decodes(10, 5))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with Store.open(store) as opened:
        assert numbers(opened)[:10] == list(range(10))


def test_a_host_that_says_nothing_keeps_the_others_waiting_for_moments(
    good: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "AT_ONCE_S", 0.3)
    told: list[str] = []
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(2):
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports.append(silent.getsockname()[1])
        sources = [SourceSpec(f"ssh://127.0.0.1:{port}/x.log") for port in ports]
        away = look([SourceSpec(str(good)), *sources], told.append)
    assert away == [f"127.0.0.1:{port}: no answer within 0.3 s" for port in ports]
    assert told == []


def test_each_host_is_asked_once_while_it_is_away(own_home: Path) -> None:
    port = free_port()
    sources = [SourceSpec(f"ssh://127.0.0.1:{port}/{n}.log") for n in range(20)]
    away = look(sources, print)
    assert len(away) == 1
    assert "(Connection refused)" in away[0]


@pytest.mark.parametrize("command", ["up", "ingest"])
def test_where_all_that_is_given_is_missing_it_is_refused(
    command: str, host: Sshd, store: Path, tmp_path: Path
) -> None:
    here, there = tmp_path / "here.log", host.url(tmp_path / "there.log")
    for paths in ([here], [here, there], [there], [tmp_path / "none" / "*.log", here]):
        line = fails(command, *paths, "--store", store)
        assert line.endswith("; check the path")
        assert "no such f" in line
    assert not store.exists()


def fifo(host: Sshd, folder: Path) -> str:
    os.mkfifo(folder / "pipe.log")
    return str(folder / "pipe.log")


def folder_there(host: Sshd, folder: Path) -> str:
    os.mkfifo(folder / "pipe.log")
    return host.url(folder / "pipe.log")


def binary(host: Sshd, folder: Path) -> str:
    (folder / "binary.log").write_bytes(b"\x7fELF" + bytes(range(32)) * 100)
    return host.url(folder / "binary.log")


def unknown_key(host: Sshd, folder: Path) -> str:
    (Path.home() / ".ssh" / "known_hosts").unlink()
    return host.url(folder / "good.log")


def refused_login(host: Sshd, folder: Path) -> str:
    make_key(Path.home() / ".ssh" / "id_ed25519")
    (Path.home() / ".ssh" / "config").write_text("")
    return host.url(folder / "good.log")


def no_address(host: Sshd, folder: Path) -> str:
    return "ssh://host"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(fifo, "not a regular file"), (folder_there, "not a regular file"), (binary, "a binary file"),
     (unknown_key, "its host key SHA256:"), (refused_login, "login refused"),
     (no_address, "names no file")],
)  # fmt: skip
def test_what_somebody_has_to_mend_is_refused_beside_a_good_log(
    wrong: Callable[[Sshd, Path], str], said: str, host: Sshd, good: Path, store: Path
) -> None:
    assert said in fails("ingest", good, wrong(host, good.parent), "--store", store)
    assert not store.exists()


def test_the_passphrase_of_a_key_is_asked_for_on_the_terminal(
    host: Sshd, good: Path, store: Path, own_home: Path
) -> None:
    locked = make_key(host.folder / "locked", passphrase="river-stone")
    host.user_key.with_suffix(".pub").write_text(locked.with_suffix(".pub").read_text())
    (own_home / ".ssh" / "config").write_text(f"IdentityFile {locked}\n")
    words = [*COMMAND, "ingest", host.url(good), "--store", str(store)]
    terminal = subprocess.Popen(
        ["script", "--quiet", "--return", "--command", shlex.join(words), "/dev/null"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert terminal.stdin is not None
    assert terminal.stdout is not None
    with terminal:
        try:
            asked = terminal.stdout.read(len(f"Passphrase of {locked}: "))
            assert asked.decode() == f"Passphrase of {locked}: "
            terminal.stdin.write(b"river-stone\n")
            terminal.stdin.flush()
            line = next(line for line in terminal.stdout if b"into" in line)
            assert line.startswith(f"Servescope: {host.url(good)}".encode())
        finally:
            terminal.kill()  # its terminal goes with it, and with that what runs there
