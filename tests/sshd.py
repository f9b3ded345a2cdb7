"""A real OpenSSH server on a loopback port, with keys and a configuration of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.server import free_port
from tests.waiting import until

USER = pwd.getpwuid(os.getuid()).pw_name
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


def make_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A key pair in OpenSSH's own format; gives the private one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True)
    return path


class Sshd:
    """A server with the host key and the one user key in `folder`."""

    def __init__(
        self,
        folder: Path,
        extra: str = "",
        env: Mapping[str, str] | None = None,
        address: str = "127.0.0.1",
        within: Sequence[str] = (),
    ) -> None:
        """`within`: a command that starts the server in another network, at `address`."""
        assert SSHD, "needs openssh-server: apt-get install openssh-server"
        self.folder = folder
        self.port = free_port()
        self.address = address
        self._within = list(within)
        self.env = {**os.environ, **(env or {})}
        self.host_key = make_key(folder / "host_key")
        self.user_key = make_key(folder / "user_key")
        self.config = folder / "sshd_config"
        self.config.write_text(
            f"Port {self.port}\nListenAddress {address}\nHostKey {self.host_key}\n"
            f"AuthorizedKeysFile {self.user_key}.pub\nStrictModes no\nUsePAM no\n"
            f"PidFile {folder}/pid\nPermitRootLogin yes\nPasswordAuthentication no\n"
            f"KbdInteractiveAuthentication no\nAllowTcpForwarding yes\nMaxStartups 100\n"
            f"Subsystem sftp internal-sftp\n{extra}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until the port answers."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where the privileged part lives
        assert SSHD is not None
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, SSHD, "-D", "-e", "-f", str(self.config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
            )  # fmt: skip
        until(self._answers, what="sshd answers")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "sshd.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.port)) == 0

    def stop(self) -> None:
        """End the server and every session of it."""
        if self._process is None:
            return
        sessions = self.sessions()
        self._process.kill()
        self._process.wait()
        self._process = None
        for pid in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def sessions(self) -> list[int]:
        """The processes that serve connections now."""
        return _below(self._process.pid) if self._process else []

    def signal_sessions(self, number: signal.Signals) -> int:
        """Send a signal to every connection's processes; how many there were."""
        sessions = self.sessions()
        for pid in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return len(sessions)

    def known_hosts_line(self, name: str | None = None) -> str:
        """The line that makes the host key known."""
        kind, key, _ = self.host_key.with_suffix(".pub").read_text().split()
        return f"{name or f'[{self.address}]:{self.port}'} {kind} {key}\n"

    def url(self, path: Path | str) -> str:
        """The address of a file behind this server."""
        return f"ssh://{USER}@{self.address}:{self.port}{path}"

    def befriend(self, home: Path) -> None:
        """Make this user's `~/.ssh` know the server and log in with the key."""
        folder = home / ".ssh"
        folder.mkdir(mode=0o700, exist_ok=True)
        with (folder / "known_hosts").open("a") as known:
            known.write(self.known_hosts_line())
        with (folder / "config").open("a") as config:
            config.write(f"Match host {self.address}\n  IdentityFile {self.user_key}\n")


@contextlib.contextmanager
def serving(
    folder: Path,
    home: Path,
    extra: str = "",
    address: str = "127.0.0.1",
    within: Sequence[str] = (),
) -> Iterator[Sshd]:
    """A server that runs until the block ends and that `home` may log in to."""
    folder.mkdir(parents=True, exist_ok=True)
    server = Sshd(folder, extra, address=address, within=within)
    server.befriend(home)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _below(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [found for child in map(int, children) for found in (child, *_below(child))]
