"""docker, Kubernetes, the journal and standard input: every line once, over any restart.

The programs are stand-ins (tests/stand_ins.py); the processes, pipes and the sshd are real.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from data.errors import SourceError
from data.store import Store
from ingest import backoff, stream, worker
from ingest.sources.command import CommandSource
from ingest.sources.position import StampPosition
from tests.command import COMMAND, ROOT, fails, run
from tests.following import following, numbers
from tests.growing import decodes, sglang_boot
from tests.sshd import serving
from tests.stand_ins import StandIn
from tests.waiting import until

ADDRESSES = {
    "docker": "docker://gpu-box_1",
    "kubectl": "k8s://prod/llm/sglang-0/server",
    "journalctl": "journald://sglang@8.service",
}


@pytest.fixture(params=list(ADDRESSES))
def program(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StandIn:
    made = StandIn(tmp_path / "bin", request.param)
    monkeypatch.setenv("PATH", made.path())
    monkeypatch.setattr(worker, "RETRY_S", 0.1)
    monkeypatch.setattr(stream, "RETRY_S", 0.1)
    monkeypatch.setattr(backoff, "FIRST_S", 0.05)
    return made


def running_commands(folder: Path) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", str(folder)], capture_output=True, text=True
    ).stdout.split()
    return [int(pid) for pid in found if int(pid) != os.getpid()]


def test_every_line_once_over_restarts_and_deaths(program: StandIn, store: Store) -> None:
    address = ADDRESSES[program.program.name]
    program.prints(sglang_boot() + decodes(0, 50))
    with following(store, address) as supervisor:
        until(lambda: len(numbers(store)) == 50)
        program.prints(decodes(50, 50), step_ns=1_000_000)
        until(lambda: len(numbers(store)) == 100)
        for pid in running_commands(program.folder):
            os.kill(pid, signal.SIGKILL)
        program.prints(decodes(100, 20))
        until(lambda: len(numbers(store)) == 120)
        until(lambda: supervisor.status()[0].state == "following")
    assert running_commands(program.folder) == []
    program.prints(decodes(120, 20))
    with following(store, address):
        until(lambda: len(numbers(store)) == 140)
    assert numbers(store) == list(range(140))
    with store.cursor() as con:
        assert con.execute("SELECT count(*), min(engine) FROM runs").fetchone() == (1, "sglang")


def test_a_container_that_stops_and_starts_again(program: StandIn, store: Store) -> None:
    program.prints(sglang_boot() + decodes(0, 5))
    program.ends()
    with following(store, ADDRESSES[program.program.name]) as supervisor:
        until(lambda: len(numbers(store)) == 5)
        until(lambda: supervisor.status()[0].state == "waiting for file")
        program.prints(sglang_boot(60) + decodes(5, 5))
        until(lambda: len(numbers(store)) == 10)
    assert numbers(store) == list(range(10))


def test_what_the_command_says_is_the_error(program: StandIn, store: Store) -> None:
    with following(store, ADDRESSES[program.program.name]) as supervisor:
        until(lambda: supervisor.status()[0].state == "error")
        assert "No such container" in (supervisor.status()[0].error or "")


def test_a_container_started_anew_by_kubernetes_is_read_to_its_end_first(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = StandIn(tmp_path / "bin", "kubectl")
    monkeypatch.setenv("PATH", kubectl.path())
    kubectl.prints(sglang_boot() + decodes(0, 10))
    with following(store, ADDRESSES["kubectl"]):
        until(lambda: len(numbers(store)) == 10)
    (kubectl.folder / "printed").rename(kubectl.folder / "previous")
    kubectl.prints(decodes(10, 3), previous=True)
    kubectl.prints(sglang_boot(60) + decodes(13, 3))
    with following(store, ADDRESSES["kubectl"]):
        until(lambda: len(numbers(store)) == 16)
    assert numbers(store) == list(range(16))


def test_over_ssh_arguments_reach_the_command_as_they_are(
    tmp_path: Path, own_home: Path, store: Store
) -> None:
    docker = StandIn(tmp_path / "bin", "docker")
    docker.prints(sglang_boot() + decodes(0, 10))
    extra = f"SetEnv PATH={docker.path()}"
    with serving(tmp_path / "sshd", own_home, extra) as host:
        address = f"docker://127.0.0.1:{host.port}/gpu-box"
        with following(store, address) as supervisor:
            until(lambda: len(numbers(store)) == 10)
            host.signal_sessions(signal.SIGKILL)
            docker.prints(decodes(10, 10))
            until(lambda: len(numbers(store)) == 20)
            until(lambda: supervisor.status()[0].state == "following")
    assert numbers(store) == list(range(20))
    assert docker.calls()[0] == ["docker", "logs", "--timestamps", "--follow", "gpu-box"]
    assert docker.calls()[-1][4].startswith("--since=2026-03-01T12:00:0")


def test_nothing_in_an_argument_is_the_shells(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingest.sources.address import HostAddress
    from ingest.sources.ssh import Connection

    with serving(tmp_path / "sshd", own_home) as host:
        connection = Connection(HostAddress("127.0.0.1", port=host.port))
        nasty = ["$(touch /tmp/x)", "a;b", "it's", '"', "`id`", "two words", "*", ""]
        told = connection.output(["printf", "<%s>", *nasty])
        connection.end()
    assert told == "".join(f"<{word}>" for word in nasty)


@pytest.mark.parametrize(
    "text",
    ["docker://", "docker://-v", "docker://a/b/c", "docker://h/--privileged", "docker://a b",
     "k8s://pod", "k8s://a/b/c/d/e", "k8s://ns/-pod", "journald://", "journald://u;id",
     "journald://-u x/y"],
)  # fmt: skip
def test_bad_addresses_are_one_line(text: str) -> None:
    with pytest.raises(SourceError) as error:
        CommandSource.parse(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["docker://box", "docker://ann@gpu:2200/box", "k8s://ns/pod", "k8s://ns/pod/c",
     "k8s://ctx/ns/pod/c", "k8s://ctx/ns/pod/", "journald://sglang.service", "journald://gpu/u@1"],
)  # fmt: skip
def test_addresses_name_themselves(text: str) -> None:
    assert CommandSource.parse(text).source_id == text


def test_lines_of_two_streams_out_of_order_are_all_read() -> None:
    def line(ns: int, text: str) -> bytes:
        return b"2026-03-01T12:00:00.%09dZ %s\n" % (ns, text.encode())

    first = StampPosition()
    shown = line(5, "b") + line(3, "a") + line(900_000_000, "c")
    first.take(first.fresh(shown)[0])
    again = StampPosition(first.text())
    late = line(4, "late") + line(900_000_000, "same moment")
    assert again.fresh(shown + late) == (late, b"")
    assert again.fresh(line(900_000_000, "c") + b"Error: gone\n") == (
        line(900_000_000, "c"), b"Error: gone\n",
    )  # fmt: skip


def test_a_missing_program_and_an_import_are_told(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with following(store, "docker://box") as supervisor:
        until(lambda: supervisor.status()[0].state == "error")
        assert supervisor.status()[0].error == "docker: is not installed on this machine"
    monkeypatch.undo()
    line = fails("import", "docker://box", "--store", tmp_path / "other.duckdb")
    assert line.endswith("cannot be read to an end; follow it with servescope up")


def test_standard_input_is_followed_to_its_end(tmp_path: Path) -> None:
    store = tmp_path / "piped.duckdb"
    process = subprocess.Popen(
        [*COMMAND, "up", "-", "--port", "0", "--store", str(store)], cwd=ROOT, text=False,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    with process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"Servescope: http://")
            process.stdin.write(sglang_boot() + decodes(0, 10))
            process.stdin.flush()
            count = ("sql", "SELECT count(*) FROM samples", "--format", "csv", "--store", store)
            until(lambda: run(*count).stdout.split()[-1:] == ["10"], 60)
            process.stdin.write(decodes(10, 1).rstrip(b"\n"))  # the last line has no end
            process.stdin.close()
            until(lambda: run(*count).stdout.split()[-1:] == ["11"], 60)
            assert '"state": "ended"' in run("status", "--json", "--store", store).stdout
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
