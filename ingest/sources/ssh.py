"""A connection to another host, through any hosts in between, with a deadline on every wait."""

from __future__ import annotations

import contextlib
import logging
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence

import paramiko

from data.errors import HostError, HostKeyError, UnreachableError
from ingest.sources.address import HostAddress
from ingest.sources.host_keys import KnownHosts, fingerprint
from ingest.sources.ssh_config import Hop, route
from ingest.sources.ssh_keys import log_in

CONNECT_S = 10.0
LOGIN_S = 20.0
ANSWER_S = 15.0  # for one answer of the host
KEEPALIVE_S = 15
# Half of what paramiko could ask for: several reads of 8 MiB are on the way without a standstill.
_WINDOW_BYTES = 4 << 20
_OUTPUT_MAX = 1 << 20
# Still offered by paramiko 5.1 and weak: CBC modes, MD5 and SHA-1.
_WEAK = ("cbc", "md5", "sha1")

# What goes wrong is told by us, in one line; paramiko would print its own tracebacks.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False
Meet = Callable[[Hop, paramiko.PKey], bool]


class Connection:
    """An SSH connection that is made when it is first needed, and made anew after it broke."""

    def __init__(self, address: HostAddress, meet: Meet | None = None) -> None:
        """`meet`: for a connection that is only to learn keys. Asked whether an unknown one is
        trusted; there is no login at the host itself."""
        self.address = address
        self._meet = meet
        self._transports: list[paramiko.Transport] = []
        self._proxy: subprocess.Popen[bytes] | None = None
        self._sftp: paramiko.SFTPClient | None = None
        self._lock = threading.Lock()
        self._over = False
        self.packs = True  # as far as known, commands of ours are run there

    def transport(self) -> paramiko.Transport:
        """The connection to the host itself."""
        if not self._transports or not self._transports[-1].is_active():
            self.close()
            with self.talking():
                self._connect()
        return self._transports[-1]

    def sftp(self) -> paramiko.SFTPClient:
        """Its file service."""
        if self._sftp is None or not self._transports or not self._transports[-1].is_active():
            with self.talking():
                transport = self.transport()
                self._sftp = paramiko.SFTPClient.from_transport(transport)
            assert self._sftp is not None
            channel = self._sftp.get_channel()
            assert channel is not None
            channel.settimeout(ANSWER_S)
        return self._sftp

    def request_bytes(self) -> int:
        """The most that the host's file service gives for one request: the larger, the less there
        is to do for a megabyte, and half an answer would cost a round trip."""
        release = re.match(r"SSH-2.0-OpenSSH_([0-9]+)\.([0-9]+)", self.transport().remote_version)
        if release is None:
            return 32 << 10  # what every server must take
        # sftp-server.c: 64 KiB up to 8.4, then 256 KiB less what the packet needs besides
        return (255 << 10) if (int(release[1]), int(release[2])) >= (8, 5) else (64 << 10)

    def command(self, arguments: Sequence[str], *, merge_errors: bool = True) -> paramiko.Channel:
        """Start a command on the host; its arguments reach it as they are, whatever they hold."""
        with self.talking():
            channel = self.transport().open_session(timeout=ANSWER_S)
            channel.settimeout(ANSWER_S)
            channel.set_combine_stderr(merge_errors)
            channel.exec_command(shlex.join(arguments))
        return channel

    def greeting(self) -> str:
        """Whom the host let in, and the key it showed."""
        with self.talking():
            transport = self.transport()
            key = fingerprint(transport.get_remote_server_key())
        return f"logged in as {transport.get_username()}; host key {key} is trusted"

    def probe(self) -> None:
        """Ask whether the host is still there: UnreachableError if it is not."""
        with self.talking():
            if not self._transports or not self._transports[-1].is_active():
                raise EOFError
            self._transports[-1].open_session(timeout=ANSWER_S).close()

    def output(self, arguments: Sequence[str]) -> str:
        """What a short command prints."""
        channel = self.command(arguments)
        with self.talking(), contextlib.closing(channel):
            data = b""
            while (more := channel.recv(1 << 15)) and len(data) < _OUTPUT_MAX:
                data += more
        return data.decode(errors="replace")

    @contextlib.contextmanager
    def talking(self) -> Iterator[None]:
        """Any failure in here means that the host is not there any more: all is closed."""
        try:
            yield
        except HostError:
            self.close()
            raise
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.close()
            raise UnreachableError(f"{self.address}: {_why(error)}") from error

    def end(self) -> None:
        """Hang up for good; a thread that waits for an answer gets an error. Any thread may."""
        self._over = True
        self.close()

    def close(self) -> None:
        """Hang up; the next question connects anew."""
        with self._lock:
            transports, self._transports = self._transports, []
            proxy, self._proxy = self._proxy, None
            self._sftp = None
        for transport in reversed(transports):
            transport.close()
        if proxy is not None:
            proxy.kill()
            proxy.wait()

    def _connect(self) -> None:
        known = KnownHosts()
        sock: socket.socket | paramiko.Channel | None = None
        hops = route(self.address)
        for hop, after in zip(hops, [*hops[1:], None], strict=True):
            transport = self._greet(hop, sock or self._dial(hop), known)
            key = transport.get_remote_server_key()
            self._check(known, hop, key)
            if after is None and self._meet is not None:
                return
            log_in(transport, hop)
            transport.set_keepalive(KEEPALIVE_S)
            if after is not None:
                sock = transport.open_channel(
                    "direct-tcpip", (after.host, after.port), ("127.0.0.1", 0), timeout=CONNECT_S
                )

    def _check(self, known: KnownHosts, hop: Hop, key: paramiko.PKey) -> None:
        try:
            known.check(hop, key)
        except HostKeyError as error:
            if error.changed or self._meet is None or not self._meet(hop, key):
                raise

    def _greet(
        self, hop: Hop, sock: socket.socket | paramiko.Channel, known: KnownHosts
    ) -> paramiko.Transport:
        """Agree on algorithms and keys; whether the host's key is trusted is not yet asked."""
        transport = new_transport(sock, known.kinds(hop))
        with self._lock:
            self._transports.append(transport)
        if self._over:
            raise UnreachableError(f"{self.address}: hung up")
        try:
            transport.start_client(timeout=LOGIN_S)
            if not transport.initial_kex_done:  # at its deadline it just returns
                raise TimeoutError
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise UnreachableError(f"{hop.name} port {hop.port}: {_why(error)}") from error
        return transport

    def _dial(self, hop: Hop) -> socket.socket:
        if hop.proxy_command is not None:
            return self._through(hop.proxy_command)
        try:
            return socket.create_connection((hop.host, hop.port), CONNECT_S)
        except OSError as error:
            raise UnreachableError(
                f"{hop.name}: cannot be reached at {hop.host} port {hop.port} ({_why(error)}); "
                "check that it is up and that the network leads there"
            ) from error

    def _through(self, command: str) -> socket.socket:
        """The command of the user's own configuration, as ssh starts it: by the shell."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._proxy = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.DEVNULL,
            )  # fmt: skip
        return ours


def new_transport(
    sock: socket.socket | paramiko.Channel, kinds: Sequence[str] = ()
) -> paramiko.Transport:
    """A client over this socket that offers nothing weak, and asks for a host key of these kinds
    (those known of the host) before others."""
    transport = paramiko.Transport(
        sock, default_window_size=_WINDOW_BYTES, default_max_packet_size=1 << 15
    )
    transport.daemon = True
    # Later than the deadline of the whole greeting, which says more clearly what is missing.
    transport.banner_timeout = transport.handshake_timeout = 2 * LOGIN_S
    transport.auth_timeout = LOGIN_S
    transport.channel_timeout = ANSWER_S
    offered = transport.get_security_options()
    offered.ciphers = sorted(_strong(offered.ciphers), key=lambda name: "gcm" not in name)
    offered.digests = _strong(offered.digests)
    offered.kex = _strong(offered.kex)
    wanted = [f"rsa-sha2-{n}" for n in (512, 256) if "ssh-rsa" in kinds] + list(kinds)
    first = [kind for kind in offered.key_types if kind in wanted]
    offered.key_types = (*first, *(kind for kind in offered.key_types if kind not in first))
    return transport


def _strong(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not any(weak in name for weak in _WEAK))


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "no such name"
    if isinstance(error, EOFError):
        return "the connection was closed"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).rstrip(".") or type(error).__name__
