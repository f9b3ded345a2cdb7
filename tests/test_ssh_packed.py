"""What is far behind on another host arrives packed, byte for byte the same; or by SFTP."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import paramiko
import pytest

from ingest.blocks import BLOCK_BYTES
from ingest.sources import ssh, ssh_file, ssh_packed
from ingest.sources.address import SshAddress
from ingest.sources.log_file import LogFile
from tests.growing import append, decodes, sglang_boot
from tests.sshd import Sshd, serving

DATA = sglang_boot() + decodes(0, 20_000)
PATHS = [
    "server.log",
    "two words.log",
    "'; touch pwned; '.log",
    "$(touch pwned) `id`.log",
    "-n.log",
]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("sshd")
    with serving(folder, folder) as server:
        yield server


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were started on the host; a megabyte is enough to start one."""
    seen: list[list[str]] = []
    start = ssh.Connection.command

    def noted(
        self: ssh.Connection, arguments: Sequence[str], *, merge_errors: bool = True
    ) -> paramiko.Channel:
        seen.append(list(arguments))
        return start(self, arguments, merge_errors=merge_errors)

    monkeypatch.setattr(ssh.Connection, "command", noted)
    monkeypatch.setattr(ssh_file, "BACKLOG_BYTES", 1 << 20)
    return seen


def opened(host: Sshd, path: Path) -> LogFile:
    address = SshAddress.parse(host.url(path))
    return ssh_file.SshFile(ssh.Connection(address.host), address)


def whole(file: LogFile, offset: int = 0) -> bytes:
    """The file as the block reader takes it: each block begins a little before the last one's
    end."""
    found = b""
    while data := file.read(offset + len(found), BLOCK_BYTES):
        found += data if len(data) < BLOCK_BYTES else data[:-77]
    return found


@pytest.mark.parametrize("name", PATHS)
def test_it_is_the_same_whatever_the_name(
    host: Sshd, own_home: Path, tmp_path: Path, commands: list[list[str]], name: str
) -> None:
    host.befriend(own_home)
    path = tmp_path / name
    path.write_bytes(DATA)
    file = opened(host, path)
    assert whole(file) == DATA
    assert whole(file, 1_234_567) == DATA[1_234_567:]
    assert [command[:2] for command in commands] == [["sh", "-c"]] * 2
    assert commands[1][3:] == ["sh", "1234568", str(len(DATA) - 1_234_567), str(path)]
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)  # where commands start over there
    assert not (home / "pwned").exists()
    append(path, decodes(7, 1))
    assert whole(file, len(DATA)) == decodes(7, 1)  # little: by SFTP
    file.close()
    assert len(commands) == 2


def test_over_several_blocks(
    host: Sshd, own_home: Path, tmp_path: Path, commands: list[list[str]]
) -> None:
    host.befriend(own_home)
    path = tmp_path / "server.log"
    data = b"".join(decodes(first, 20_000) for first in range(0, 280_000, 20_000))
    path.write_bytes(data)
    assert len(data) > 2 * BLOCK_BYTES
    assert whole(opened(host, path)) == data
    assert len(commands) == 1


def test_a_name_that_leads_elsewhere_by_now(
    host: Sshd, own_home: Path, tmp_path: Path, commands: list[list[str]]
) -> None:
    host.befriend(own_home)
    path = tmp_path / "server.log"
    path.write_bytes(DATA)
    file = opened(host, path)
    path.rename(tmp_path / "server.log.1")
    path.write_bytes(decodes(50_000, 20_000))
    assert whole(file) == DATA
    assert len(commands) == 1


def test_an_account_that_runs_nothing(
    own_home: Path, tmp_path: Path, commands: list[list[str]]
) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(DATA)
    with serving(tmp_path / "sshd", own_home, "ForceCommand internal-sftp") as server:
        file = opened(server, path)
        assert whole(file) == DATA
        assert whole(file) == DATA
    assert len(commands) == 1  # not asked again


def test_a_host_with_gzip_only(own_home: Path, tmp_path: Path, commands: list[list[str]]) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "tail", "head", "gzip"):
        (tools / name).symlink_to(shutil.which(name) or "")
    path = tmp_path / "server.log"
    path.write_bytes(DATA)
    with serving(tmp_path / "sshd", own_home, f"SetEnv PATH={tools}") as server:
        connection = ssh.Connection(SshAddress.parse(server.url(path)).host)
        stretch = ssh_packed.PackedStretch(connection, str(path), 0, len(DATA))
        assert stretch._unpacker.__class__.__module__ == "zlib"
        assert stretch.read(0, len(DATA)) == DATA
    assert len(commands) == 1
