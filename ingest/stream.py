"""Follows what a command or a pipe prints: read once, stored once.

A stream has no offsets to go back to. Beside the bytes counted so far each checkpoint holds the
position from which the command can be asked again: a second of stamps, or a cursor.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from data import queries
from data.checkpoints import Checkpoint
from data.errors import SourceError
from data.store import Store
from ingest import status
from ingest.blocks import Block
from ingest.feed import Feed
from ingest.identity import last_of_source
from ingest.ledger import Append, Ledger, Mark, skipped_line
from ingest.pipeline import Batch, Pipeline, SourceInfo
from ingest.sources.address import HostAddress
from ingest.sources.command import CommandSource
from ingest.sources.position import NoPosition, Position
from ingest.sources.process import LocalOutput, Output, RemoteOutput
from ingest.sources.stdin import PipeOutput, cut
from ingest.status import StatusBoard
from ingest.worker import RETRY_S, Worker
from ingest.writer import Writer

if TYPE_CHECKING:
    from ingest.sources.ssh import Connection

WAIT_S = 0.5  # for output, before looking whether we are to stop
SAID_CHARS = 300


class StreamReading:
    """One generation of a stream."""

    def __init__(self, source: SourceInfo, last: Checkpoint | None, position: Position) -> None:
        self.position = position
        self.file_id = last.file_id if last else secrets.token_hex(8)
        self._path = source.source_id
        self._ledger = Ledger(source.source_id, 0, last)
        self._pipeline = Pipeline.resume(source, self.file_id, last.state if last else None)

    def note(self, kind: str, detail: str) -> None:
        """Have a row in ingest_log with the next append."""
        self._ledger.note(self.file_id, self._pipeline.offset, kind, detail)

    def take(self, block: Block) -> Append:
        """The append of a block."""
        if block.skipped:
            batch = skipped_line(self._ledger, self._pipeline, self.file_id, block)
        else:
            batch = self._pipeline.feed(block.data)
            self.position.take(block.data)
        return self._append(batch, block)

    def finish(self) -> Append:
        """Nothing more will come: close what was left open."""
        return self._append(self._pipeline.finish(), Block(b""), finished=True)

    def _append(self, batch: Batch, block: Block, *, finished: bool = False) -> Append:
        return self._ledger.append(
            batch, block, self._pipeline, self._pipeline.offset, self._path,
            self.file_id, Mark("", 0, self.position.text()), finished=finished,
        )  # fmt: skip


class StreamFollower(Worker):
    """The thread of one command or pipe."""

    def __init__(
        self,
        source: SourceInfo,
        command: CommandSource | None,
        store: Store,
        writer: Writer,
        board: StatusBoard,
    ) -> None:
        """`command`: None stands for standard input."""
        super().__init__(source, store, writer, board)
        self._command = command
        self._feed = Feed(writer, board, self._stopping)
        self._output: Output | None = None
        self._connection = _connection(command.host) if command and command.host else None

    def stop(self) -> None:
        """Ask the thread to end; what was read and not stored is asked for again next time."""
        super().stop()
        if self._connection is not None:
            self._connection.end()

    def turn(self) -> None:
        """Start the command where it was left, and read until it ends."""
        if self._command is None:
            self._read_pipe()
            return
        if self._connection is not None:
            self._board.set(state=status.CONNECTING, retry_at=None)
        reading = self._resume(self._command)
        if (away := self._away()) is not None:
            reading.note("reconnected", away)
        earlier = self._command.earlier(reading.position)
        if earlier is not None:  # there may be no container before: then it says so
            self._read(reading, earlier)
        said, code = self._read(reading, self._command.arguments(reading.position))
        if self._stopping.is_set():
            return
        if code:
            raise SourceError(f"{self._source.source_id}: {said or f'ended with code {code}'}")
        self._board.set(state=status.WAITING, error=None, retry_at=None)
        self._stopping.wait(RETRY_S)

    def _resume(self, command: CommandSource) -> StreamReading:
        self._writer.flush()
        with self._store.cursor() as con:
            last = last_of_source(con, self._source.source_id)
            if last is not None:
                self._board.set(run_id=queries.latest_run(con, self._source.source_id))
        return StreamReading(self._source, last, command.position(last.tail_hash if last else ""))

    def _read(self, reading: StreamReading, arguments: list[str]) -> tuple[str, int | None]:
        """Store what a command prints until it ends; what it said itself, and its exit code."""
        self._output = (
            RemoteOutput(self._connection, arguments)
            if self._connection is not None
            else LocalOutput(arguments)
        )
        said = b""
        self._board.set(state=status.FOLLOWING, error=None, retry_at=None)
        self._board.set(path=self._source.source_id)
        for block in cut(self._pieces(self._output), keep_rest=False):
            data, own = reading.position.fresh(block.data)
            said = (said + own)[-SAID_CHARS:]
            if data or block.skipped:
                self._put(reading.take(Block(data, block.skipped)))
                self._works()
        output, self._output = self._output, None
        return " ".join(said.decode(errors="replace").split()), output.end()

    def _pieces(self, output: Output) -> Iterator[bytes]:
        while not self._stopping.is_set():
            data = output.read(WAIT_S)
            if data == b"":
                return
            if data is not None:
                yield data

    def _put(self, append: Append) -> None:
        self._feed.put(append)
        self._feed.show(append)

    def _read_pipe(self) -> None:
        """Standard input, until it is closed: it cannot be read again, so it is one generation."""
        reading = StreamReading(self._source, None, NoPosition())
        self._board.set(state=status.FOLLOWING, path=self._source.source_id)
        for block in cut(self._pieces(PipeOutput(0))):
            self._put(reading.take(block))
        if not self._stopping.is_set():
            self._feed.put(reading.finish())
            self._board.set(state=status.ENDED)
            self._stopping.wait()

    def _let_go(self) -> bool:
        output, self._output = self._output, None
        if output is not None:
            output.end()
        return output is not None


def _connection(host: HostAddress) -> Connection:
    from ingest.sources.ssh import Connection  # paramiko takes a while to load

    return Connection(host)
