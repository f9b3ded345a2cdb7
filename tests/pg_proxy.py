"""Stands between a client and PostgreSQL, and goes in the middle of an answer."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from pathlib import Path

_NAME = ".s.PGSQL.5432"
_COPY_OUT = b"H"


class Proxy:
    """Passes on what both say, message by message, through a socket in a folder of its own."""

    def __init__(self, server: Path, folder: Path) -> None:
        self._server = str(server / _NAME)
        self._cut_off: bytes | None = None
        self._asked = False
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / _NAME))
        self._listening.listen()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut_off(self, what: bytes) -> None:
        """End the next connection that asks for rows with these words, before it has any."""
        self._cut_off = what

    def close(self) -> None:
        """Take no more connections."""
        _end(self._listening)
        self._accepting.join()
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, contextlib.suppress(OSError):
            server.connect(self._server)
            asking = threading.Thread(target=self._ask, args=(client, server), daemon=True)
            asking.start()
            self._answer(client, server)
            asking.join()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self._asked = self._asked or (self._cut_off is not None and self._cut_off in data)
                server.sendall(data)
        _end(client, server)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with server.makefile("rb") as answers, contextlib.suppress(OSError, struct.error):
            while True:
                head = answers.read(5)
                kind, length = struct.unpack("!ci", head)
                body = answers.read(length - 4)
                if self._asked and kind == _COPY_OUT:
                    self._cut_off, self._asked = None, False
                    break
                client.sendall(head + body)
        _end(client, server)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
