"""Who may be talked to over SSH, and what is said when it does not work: one line each."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from data.errors import HostKeyError, LoginError, SourceError, UnreachableError
from data.store import Store
from ingest.sources import ssh
from ingest.sources.address import HostAddress, SshAddress
from ingest.sources.places import place_of
from ingest.sources.ssh_config import route
from tests.command import COMMAND, ROOT, fails
from tests.following import following, state
from tests.growing import decodes, sglang_boot
from tests.server import free_port
from tests.sshd import USER, Sshd, make_key, serving
from tests.waiting import until


@pytest.fixture
def host(tmp_path: Path, own_home: Path) -> Iterator[Sshd]:
    with serving(tmp_path / "sshd", own_home) as server:
        yield server


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(sglang_boot() + decodes(0, 10))
    return path


def head(location: str) -> bytes:
    """The first bytes of a file, over a connection of its own."""
    place = place_of(location)
    try:
        name = place.newest()
        assert name is not None
        file = place.open(name)
        try:
            return file.read(0, 8)
        finally:
            file.close()
    finally:
        place.close()


def config(home: Path, text: str) -> None:
    path = home / ".ssh" / "config"
    path.write_text(text)
    path.chmod(0o600)


def test_an_unknown_host_is_refused(host: Sshd, log: Path, own_home: Path) -> None:
    (own_home / ".ssh" / "known_hosts").unlink()
    line = fails("up", host.url(log), "--store", log.with_name("s.duckdb"))
    assert line.startswith(f"servescope: [127.0.0.1]:{host.port}: its host key SHA256:")
    assert line.endswith(f"then run: servescope trust 127.0.0.1:{host.port}")


def test_a_changed_host_key_is_refused(host: Sshd, log: Path, own_home: Path) -> None:
    other = make_key(host.folder / "other").with_suffix(".pub").read_text()
    (own_home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{host.port} {other}")
    line = fails("import", host.url(log), "--store", log.with_name("s.duckdb"))
    assert "its host key has changed to SHA256:" in line
    assert f"ssh-keygen -R '[127.0.0.1]:{host.port}'" in line


def test_a_revoked_host_key_is_refused(host: Sshd, log: Path, own_home: Path) -> None:
    with (own_home / ".ssh" / "known_hosts").open("a") as known:
        known.write(f"@revoked * {host.known_hosts_line().split(' ', 1)[1]}")
    with pytest.raises(HostKeyError, match="was revoked"):
        head(host.url(log))


def test_a_wrong_key_is_told(host: Sshd, log: Path, own_home: Path) -> None:
    key = make_key(own_home / ".ssh" / "id_ed25519")
    config(own_home, "")
    line = fails("up", host.url(log), "--store", log.with_name("s.duckdb"))
    assert line.startswith(f"servescope: {USER}@127.0.0.1: login refused (tried {key})")


def test_no_key_at_all_is_told(host: Sshd, log: Path, own_home: Path) -> None:
    config(own_home, "")
    with pytest.raises(LoginError, match="there is no key to try"):
        head(host.url(log))


def test_an_unreachable_host_is_told(own_home: Path, tmp_path: Path) -> None:
    location = f"ssh://127.0.0.1:{free_port()}/x.log"
    line = fails("import", location, "--store", tmp_path / "s.duckdb")
    assert "127.0.0.1: cannot be reached at 127.0.0.1 port" in line
    assert "(Connection refused); check that it is up" in line


def test_a_port_that_says_nothing_is_told(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "LOGIN_S", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(UnreachableError, match="no answer in time"):
            head(f"ssh://127.0.0.1:{silent.getsockname()[1]}/x.log")


def test_a_missing_file_and_one_that_is_no_file_are_told(host: Sshd, tmp_path: Path) -> None:
    missing = host.url(tmp_path / "nosuch.log")
    assert fails("up", missing, "--store", tmp_path / "s.duckdb") == (
        f"servescope: {missing}: no such file; check the path"
    )
    assert fails("import", missing, "--store", tmp_path / "s.duckdb") == (
        f"servescope: {missing}: no such file; check the path"
    )
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(SourceError, match="not a regular file"):
        head(host.url(tmp_path / "pipe.log"))


def test_states_in_words(host: Sshd, log: Path, own_home: Path, tmp_path: Path) -> None:
    known = own_home / ".ssh" / "known_hosts"
    other = make_key(host.folder / "other").with_suffix(".pub").read_text()
    lines = {"host key unknown": "", "host key changed": f"[127.0.0.1]:{host.port} {other}"}
    for word, text in lines.items():
        known.write_text(text)
        with (
            Store.open(tmp_path / "s.duckdb") as store,
            following(store, host.url(log)) as supervisor,
        ):
            look = partial(state, supervisor)
            until(lambda look=look, word=word: look() == word)  # type: ignore[misc]


def test_trust_shows_the_fingerprint_and_asks(host: Sshd, log: Path, own_home: Path) -> None:
    known = own_home / ".ssh" / "known_hosts"
    known.unlink()
    shown = subprocess.run(
        ["ssh-keygen", "-lf", str(host.host_key)], capture_output=True, text=True, check=True
    ).stdout.split()[1]

    def trust(answer: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "trust", f"127.0.0.1:{host.port}"], input=answer, cwd=ROOT,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    refused = trust("n\n")
    assert (refused.returncode, known.exists()) == (1, False)
    assert shown in refused.stdout
    accepted = trust("y\n")
    assert accepted.returncode == 0, accepted.stderr
    assert known.read_text() == host.known_hosts_line()
    assert known.stat().st_mode & 0o777 == 0o600
    assert "is trusted already" in trust("").stdout
    assert head(host.url(log)) == log.read_bytes()[:8]


def test_two_hops_are_gone_through_and_each_key_is_checked(
    host: Sshd, log: Path, own_home: Path, tmp_path: Path
) -> None:
    with serving(tmp_path / "jump1", own_home) as one, serving(tmp_path / "jump2", own_home) as two:
        lines = [
            f"Host {name}\n  HostName 127.0.0.1\n  Port {server.port}\n  User {USER}\n"
            f"  IdentityFile {server.user_key}\n{more}"
            for name, server, more in (
                ("first", one, ""),
                ("second", two, "  ProxyJump first\n"),
                ("gpu", host, "  ProxyJump second\n"),
                ("listed", host, "  ProxyJump first,second\n"),
            )
        ]
        config(own_home, "".join(lines))
        assert [hop.port for hop in route(HostAddress("gpu"))] == [one.port, two.port, host.port]
        for name in ("gpu", "listed"):
            assert head(f"ssh://{name}{log}") == log.read_bytes()[:8]
        known = own_home / ".ssh" / "known_hosts"
        known.write_text(one.known_hosts_line() + host.known_hosts_line())
        with pytest.raises(HostKeyError, match=rf"\[127.0.0.1\]:{two.port}: .* is not known"):
            head(f"ssh://gpu{log}")


def test_proxy_command_of_the_own_configuration(
    host: Sshd, log: Path, own_home: Path, tmp_path: Path
) -> None:
    relay = tmp_path / "relay.py"
    relay.write_text(
        "import os, socket, sys, threading\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536): s.sendall(data)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := s.recv(65536): os.write(1, data)\n"
    )
    config(
        own_home,
        f"Host gpu\n  HostName 127.0.0.1\n  Port {host.port}\n  User {USER}\n"
        f"  IdentityFile {host.user_key}\n  ProxyCommand python3 {relay} %h %p\n",
    )
    assert head(f"ssh://gpu{log}") == log.read_bytes()[:8]


def test_a_configuration_that_others_can_write_is_refused(
    host: Sshd, log: Path, own_home: Path
) -> None:
    (own_home / ".ssh" / "config").chmod(0o666)
    with pytest.raises(SourceError, match="others may write to it"):
        head(host.url(log))


def test_included_files_are_read(host: Sshd, log: Path, own_home: Path) -> None:
    (own_home / ".ssh" / "gpu.conf").write_text(
        f"Host gpu\n  HostName 127.0.0.1\n  Port {host.port}\n"
    )
    (own_home / ".ssh" / "gpu.conf").chmod(0o600)
    config(own_home, f"Include gpu.*\nUser {USER}\nIdentityFile {host.user_key}\n")
    assert head(f"ssh://gpu{log}") == log.read_bytes()[:8]


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_passphrase_comes_from_the_environment(
    host: Sshd, log: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    locked = make_key(host.folder / "locked", kind=kind, passphrase="river-stone")
    host.user_key.with_suffix(".pub").write_text(locked.with_suffix(".pub").read_text())
    config(own_home, f"IdentityFile {locked}\n")
    with pytest.raises(LoginError, match="has a passphrase: ssh-add it, or set SERVESCOPE_SSH"):
        head(host.url(log))
    monkeypatch.setenv("SERVESCOPE_SSH_PASSPHRASE", "river-stones")
    with pytest.raises(LoginError, match=r"the passphrase of .* is wrong"):
        head(host.url(log))
    monkeypatch.setenv("SERVESCOPE_SSH_PASSPHRASE", "river-stone")
    assert head(host.url(log)) == log.read_bytes()[:8]


def test_the_agent_is_asked(
    host: Sshd, log: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    values = dict(
        part.split("=", 1) for part in agent.replace("\n", " ").split("; ") if "=" in part
    )
    monkeypatch.setenv("SSH_AUTH_SOCK", values["SSH_AUTH_SOCK"])
    pid = int(agent.split("SSH_AGENT_PID=")[1].split(";")[0])
    try:
        subprocess.run(["ssh-add", "-q", str(host.user_key)], check=True)
        config(own_home, "")
        assert head(host.url(log)) == log.read_bytes()[:8]
    finally:
        os.kill(pid, 15)


def test_nothing_weak_is_offered(host: Sshd, log: Path) -> None:
    for line in ("Ciphers aes256-cbc", "MACs hmac-sha1"):
        host.stop()
        host.config.write_text(host.config.read_text() + line + "\n")
        host.start()
        with pytest.raises(UnreachableError, match="no acceptable"):
            head(host.url(log))
        host.config.write_text(host.config.read_text().replace(line + "\n", ""))


@pytest.mark.parametrize(
    "text",
    ["ssh://host", "ssh://host/", "ssh:///x", "ssh://-oProxyCommand=x/log", "ssh://a b/x",
     "ssh://u:secret@host/x", "ssh://host:0/x", "ssh://host:99999/x", "ssh://h;id/x"],
)  # fmt: skip
def test_bad_addresses_are_one_line(text: str) -> None:
    with pytest.raises(SourceError) as error:
        SshAddress.parse(text)
    assert "\n" not in str(error.value)


def test_addresses() -> None:
    address = SshAddress.parse("ssh://ann@[::1]:2200/var/log/a b#1.log")
    assert (address.host, address.path) == (HostAddress("::1", "ann", 2200), "/var/log/a b#1.log")
    assert str(address) == "ssh://ann@[::1]:2200/var/log/a b#1.log"
    home = SshAddress.parse("ssh://gpu/~/logs/server.log")
    assert (home.path, str(home)) == ("logs/server.log", "ssh://gpu/~/logs/server.log")
