"""What a command prints, here or on another host, as it comes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from data.errors import SourceError

if TYPE_CHECKING:
    from ingest.sources.ssh import Connection

_READ_BYTES = 1 << 20
_PROBE_S = 30.0  # a host that has been silent for so long is asked whether it is there
_END_S = 5.0


class Output(Protocol):
    """A running command."""

    def read(self, wait_s: float) -> bytes | None:
        """What it printed; b"" when it has ended, None when nothing came in time."""

    def end(self) -> int | None:
        """End it; its exit code, None if it was still running."""


class LocalOutput:
    """A command of this machine. It is started without a shell."""

    def __init__(self, arguments: Sequence[str]) -> None:
        try:
            # A group of its own: Ctrl-C is for us, who then end it.
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise SourceError(f"{arguments[0]}: is not installed on this machine") from error
        except OSError as error:
            raise SourceError(f"{arguments[0]}: cannot be run ({error.strerror})") from error
        assert self._process.stdout is not None
        self._fd = self._process.stdout.fileno()

    def read(self, wait_s: float) -> bytes | None:
        """What it printed; b"" when it has ended, None when nothing came in time."""
        if not select.select([self._fd], [], [], wait_s)[0]:
            return None
        return os.read(self._fd, _READ_BYTES)

    def end(self) -> int | None:
        """End it; its exit code, None if it was still running."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._close(self._process.wait(0.2))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return self._close(None)

    def _close(self, code: int | None) -> int | None:
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


class RemoteOutput:
    """A command of another host. Each argument is quoted for the shell that sshd starts it with."""

    def __init__(self, connection: Connection, arguments: Sequence[str]) -> None:
        self._connection = connection
        self._channel = connection.command(arguments)
        self._heard = time.monotonic()

    def read(self, wait_s: float) -> bytes | None:
        """What it printed; b"" when it has ended, None when nothing came in time."""
        with self._connection.talking():
            self._channel.settimeout(wait_s)
            try:
                data = self._channel.recv(_READ_BYTES)
            except TimeoutError:
                if time.monotonic() - self._heard > _PROBE_S:
                    self._connection.probe()
                    self._heard = time.monotonic()
                return None
            self._heard = time.monotonic()
            if not data and not self._channel.exit_status_ready():
                self._connection.probe()  # the connection broke, or the command was killed
            return data

    def end(self) -> int | None:
        """End it; its exit code, None if it was still running."""
        ready = self._channel.exit_status_ready()
        code = self._channel.recv_exit_status() if ready else None
        with contextlib.suppress(Exception):  # sshd ends the command when its channel closes
            self._channel.close()
        return code
