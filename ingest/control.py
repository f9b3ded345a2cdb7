"""Commands reach the store through the process that owns it.

While `servescope up` runs it alone may open the store. Beside the store it keeps a file that
only the owner can read: where it listens, and a random token. A command that finds the file
calls the loopback route with it; otherwise it opens the store itself. Either way the same
`Commands` do the work.
"""

from __future__ import annotations

import contextlib
import hmac
import io
import json
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from data.errors import (
    AwayError,
    CommandError,
    ControlError,
    ServescopeError,
    SourceError,
    StoreError,
)
from data.handing import without_pandas
from data.lake_place import is_lake
from ingest.commands import Commands
from ingest.interrupts import plainly
from ingest.opening import beside, opened
from ingest.sources.places import full

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

ADDRESS = "127.0.0.1"
PATH = "/servescope/control"
_ARROW = "application/vnd.apache.arrow.stream"
_TIMEOUT_S = 600.0
_GRACE_S = 30.0  # a question that has a limit of its own is over soon after it
_ALLOWED = (
    "runs",
    "find",
    "show",
    "export",
    "compare",
    "findings",
    "sql",
    "status",
    "import_logs",
    "bench",
    "map_bench",
    "compact",
)
_ERRORS = {
    error.__name__: error
    for error in (AwayError, CommandError, ControlError, SourceError, StoreError)
}


@dataclass(frozen=True, slots=True)
class ControlFile:
    """Where the running process is reached."""

    pid: int
    url: str
    token: str

    @staticmethod
    def path(store: Path) -> Path:
        """The file's place beside the store."""
        return store.with_name(store.name + ".control")

    @classmethod
    def read(cls, store: Path) -> ControlFile | None:
        """The file of a process that still lives; None if there is none."""
        try:
            values = json.loads(cls.path(store).read_text())
            found = cls(int(values["pid"]), str(values["url"]), str(values["token"]))
            os.kill(found.pid, 0)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found


def running(store: str) -> dict[str, Any]:
    """Whether a `servescope up` owns the store, where, and how its sources are doing."""
    control = ControlFile.read(beside(store))
    if control is None:
        return {"running": False, "store": store, "url": None, "sources": []}
    return {
        "running": True,
        "store": store,
        "url": control.url,
        "sources": RemoteCommands(control).status(),
    }


@contextlib.contextmanager
def listening(port: int, address: str = ADDRESS) -> Iterator[tuple[list[socket.socket], str]]:
    """Sockets bound to this port of the loopback address and of another one, and the loopback's
    URL: other commands on this machine always find the process there."""
    if not 0 <= port <= 65535:
        raise ControlError(f"port {port}: is no port; choose one up to 65535 with --port")
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(_bound("0.0.0.0" if address == "0.0.0.0" else ADDRESS, port))
        port = first.getsockname()[1]
        sockets = [first]
        if address not in ("0.0.0.0", "localhost", ADDRESS):
            sockets.append(stack.enter_context(_bound(address, port)))
        yield sockets, f"http://{ADDRESS}:{port}"


def _bound(address: str, port: int) -> socket.socket:
    """A listening socket; ControlError where there can be none."""
    wide = ":" in address
    bound = socket.socket(socket.AF_INET6 if wide else socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if wide:  # the other family has a socket of its own
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        bound.bind((address, port))
        bound.listen()
    except OSError as error:
        bound.close()
        where = f"port {port}" if address == ADDRESS else f"address {address}, port {port}"
        another = "another with --port" if address == ADDRESS else "others with --address, --port"
        raise ControlError(
            f"{where}: cannot be used ({error.strerror}); choose {another}"
        ) from error
    return bound


@contextlib.contextmanager
def published(store: Path, url: str) -> Iterator[str]:
    """Keep the control file while the block runs; gives the token."""
    path = ControlFile.path(store)
    token = secrets.token_urlsafe(32)
    try:
        path.unlink(missing_ok=True)  # of a process that was killed: the store's lock is ours
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump({"pid": os.getpid(), "url": url, "token": token}, file)
    except OSError as error:
        raise ControlError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        yield token
    finally:
        path.unlink(missing_ok=True)


def route(commands: Commands, token: str) -> Route:
    """The route that serves these commands to whoever holds the token."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return JSONResponse({"error": "ControlError", "text": "wrong token"}, 403)
        try:
            asked = json.loads(await request.body())
            if asked["command"] not in _ALLOWED:
                raise ControlError(f"unknown command {asked['command']!r}")
            call = getattr(commands, asked["command"])
            result = await run_in_threadpool(call, **asked["arguments"])
        except (ServescopeError, duckdb.Error) as error:
            name, text = type(error).__name__, str(error).split("\n", 1)[0]
            return JSONResponse({"error": name, "text": text}, 400)
        except (ValueError, KeyError, TypeError) as error:
            return JSONResponse({"error": "ControlError", "text": f"bad request: {error}"}, 400)
        except OSError as error:
            text = f"{error.filename}: {error.strerror}"
            return JSONResponse({"error": "SourceError", "text": text}, 400)
        if isinstance(result, pl.DataFrame):
            return Response(_to_arrow(result), media_type=_ARROW)
        return Response(json.dumps(result, default=str), media_type="application/json")

    return Route(PATH, answer, methods=["POST"])


class RemoteCommands:
    """The commands, run by the process that owns the store."""

    def __init__(self, control: ControlFile) -> None:
        self._control = control

    def runs(self) -> pl.DataFrame:
        """One row a run, newest first."""
        return self._frame("runs")

    def find(self, run: str) -> list[str]:
        """The runs that an id, a label or a file means, newest first."""
        return list(self._json("find", run=run))

    def show(self, run: str) -> dict[str, Any]:
        """The card and the summary of one run."""
        return dict(self._json("show", run=run))

    def export(self, what: str, runs: Sequence[str], every_s: float | None = None) -> pl.DataFrame:
        """All rows of runs, samples, events or bench_results, of these runs or of all."""
        return self._frame("export", what=what, runs=list(runs), every_s=every_s)

    def bench(self, runs: Sequence[str]) -> pl.DataFrame:
        """The benchmark points, of these runs or of all."""
        return self._frame("bench", runs=list(runs))

    def map_bench(self, meanings: Sequence[Sequence[str | None]]) -> dict[str, Any]:
        """Say what columns of tables made by hand mean."""
        return dict(self._json("map_bench", meanings=[list(one) for one in meanings]))

    def compare(self, names: Sequence[str], form: str) -> str:
        """Runs of the store and files against the first of them."""
        from ingest.comparing import absolute as absolute_name

        return str(self._json("compare", names=[absolute_name(n) for n in names], form=form))

    def findings(self, run: str | None, form: str) -> str:
        """What the rules find in a run, or in the latest one."""
        return str(self._json("findings", run=run, form=form))

    def sql(self, query: str, limit: int, timeout_s: float) -> pl.DataFrame:
        """The rows of one SELECT."""
        asked = {"query": query, "limit": limit, "timeout_s": timeout_s}
        answer = self._call("sql", asked, timeout_s + _GRACE_S)
        return pl.read_ipc_stream(io.BytesIO(answer))

    def compact(self, keep_days: float) -> dict[str, Any]:
        """Roll up samples older than so many days by minute."""
        return dict(self._json("compact", keep_days=keep_days))

    def status(self) -> list[dict[str, Any]]:
        """How the sources are doing."""
        return list(self._json("status"))

    def import_logs(
        self,
        locations: Sequence[str],
        label: str | None,
        zone: str | None,
        progress: object,
        bench: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Import files there; progress is not told over the route."""
        asked = {"locations": list(map(full, locations)), "bench": list(map(full, bench))}
        return dict(self._json("import_logs", **asked, label=label, zone=zone))

    def _frame(self, command: str, **arguments: Any) -> pl.DataFrame:
        return pl.read_ipc_stream(io.BytesIO(self._call(command, arguments)))

    def _json(self, command: str, **arguments: Any) -> Any:
        return json.loads(self._call(command, arguments))

    def _call(self, command: str, arguments: dict[str, Any], wait_s: float = _TIMEOUT_S) -> bytes:
        # Late: they load TLS, which takes a while, and mostly nobody serves the store.
        from http.client import HTTPConnection, HTTPException
        from urllib.parse import urlsplit

        address = urlsplit(self._control.url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=wait_s)
        try:
            connection.request(
                "POST",
                PATH,
                json.dumps({"command": command, "arguments": arguments}),
                {"Authorization": f"Bearer {self._control.token}"},
            )
            response = connection.getresponse()
            body = response.read()
        except (OSError, HTTPException) as error:
            raise ControlError(
                f"process {self._control.pid} holds the store but does not answer at "
                f"{self._control.url} ({error}); stop it and try again"
            ) from error
        finally:
            connection.close()
        if response.status != 200:
            raise _error(body, response.status)
        return body


@contextlib.contextmanager
def connect(
    store: str, *, brings: bool = False, bulk: bool = False, asked: str | None = None
) -> Iterator[Commands | RemoteCommands]:
    """The commands over this store: of the process that owns it, else our own.

    Args:
        brings: something to store, so the store is made where there is none.
        asked: what is looked for in the store, as it is no file.
    """
    path = beside(store)
    control = ControlFile.read(path)
    if control is not None:
        yield RemoteCommands(control)
        return
    if not (brings or is_lake(store)) and _is_nowhere(path):
        if asked is not None:
            raise StoreError(f"{asked}: no such file, and no store with runs in it at {path}")
        raise StoreError(
            f"{path}: there is no store; `servescope import PATH` or `servescope up PATH` makes "
            "one, --store names another"
        )
    with plainly(), without_pandas(), opened(store, bulk=bulk) as own:
        try:
            yield Commands(own)
        except duckdb.Error as error:
            raise own.failure(error) from error


def _is_nowhere(path: Path) -> bool:
    """Whether nothing is there: made for a question, a mistyped place would look empty."""
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:  # opening says what is wrong
        return False
    return False


def _to_arrow(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return out.getvalue()


def _error(body: bytes, status: int) -> ServescopeError:
    try:
        values = json.loads(body)
        return _ERRORS.get(values["error"], ControlError)(values["text"])
    except (ValueError, KeyError, TypeError):
        return ControlError(f"the running servescope answered with HTTP status {status}")
