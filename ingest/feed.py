"""What a source reads on its way to the writer, told on the source's board."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from ingest import status
from ingest.ledger import Append
from ingest.reading import SCANS_AHEAD, Reading
from ingest.status import StatusBoard
from ingest.writer import Writer

# The lines shown are those near the end; far behind it they would only pass by.
TAIL_WITHIN_BYTES = 16 << 20


class Feed:
    """Hands appends of one source to the writer."""

    def __init__(self, writer: Writer, board: StatusBoard, stopping: threading.Event) -> None:
        self._writer = writer
        self._board = board
        self._stopping = stopping
        self._size = 0  # of the file being read, when it was last looked at
        self._done = 0  # bytes of it that are stored
        self._looked_at: Reading | None = None
        self._written: datetime | None = None  # when the lines came that were there already

    def read_on(self, reading: Reading, *, final: bool = False) -> tuple[int, int]:
        """Read all there is, or until stopped; gives the file's mark from before."""
        mark = reading.file.change_mark()
        final = final or reading.file.complete
        self._size = mark[0]
        # At the first look they may be of yesterday; what is found later came since the last look.
        new, self._looked_at = reading is not self._looked_at, reading
        self._written = reading.file.changed_at().replace(tzinfo=UTC) if new else None
        if reading.seq == reading.begun_seq:  # nothing of it is queued
            self._done = reading.offset
        done, whole = reading.file.progress(reading.offset)
        if whole - done <= TAIL_WITHIN_BYTES:
            self._take_all(reading, final, mark[0])
        else:  # much of it: the next blocks are fetched while one is parsed
            with ThreadPoolExecutor(SCANS_AHEAD, "scan") as ahead, reading.ahead(ahead):
                self._take_all(reading, final, mark[0])
        unfinished = mark[0] > reading.offset and not self._stopping.is_set()
        if unfinished:  # there is nothing to catch up with until its end comes
            self._size = reading.offset
            self._board.behind(max(0, self._size - self._done))
        self._board.set(unfinished_line=unfinished)
        return mark

    def _take_all(self, reading: Reading, final: bool, size: int) -> None:
        """Up to where the file ended when it was looked at: what came since is left to the next
        look, or many sources that print would never pause, with a handful of lines each time."""
        while not self._stopping.is_set() and (final or reading.offset < size):
            append = reading.step(final=final)
            if append is None:
                return
            self.put(append)
            done, whole = reading.file.progress(reading.offset)
            self._size = max(self._size, reading.offset)
            if whole - done <= TAIL_WITHIN_BYTES:
                self.show(append)
            else:
                share = round(100 * done / max(1, whole), 1)
                self._board.set(state=status.CATCHING_UP, percent=share, error=None)

    def show(self, append: Append) -> None:
        """Keep its lines for the eye, numbered where none was skipped."""
        whole = append.size == len(append.data)
        after = append.checkpoint.line_no if whole else None
        self._board.keep(append.data, append.checkpoint.file_id, after)

    def put(self, append: Append) -> None:
        """Queue an append; the board is told when it is stored."""
        self._writer.put(append, self._stored(append))

    def _stored(self, append: Append) -> Callable[[], None]:
        size, lines, run_id = len(append.data), append.data.count(b"\n"), _run_of(append)
        offset, written = append.checkpoint.byte_offset, self._written

        def tell() -> None:
            now = self._board.get()
            came = datetime.now(UTC)
            self._done = offset
            self._board.behind(max(0, self._size - offset))
            self._board.set(
                lines_read=now.lines_read + lines,
                run_id=run_id or now.run_id,
                last_line_at=min(came, written or came) if size else now.last_line_at,
            )

        return tell


def _run_of(append: Append) -> str | None:
    """The run that the last of these records belongs to."""
    for frame in (append.batch.samples, append.batch.run_facts):
        if frame.height:
            return str(frame["run_id"][-1])
    return None
