"""Follows one local log: woken by the file system or once a second, it reads what is new.

Every wake compares the file with what was read (size, head, last bytes, what the path leads to),
so that truncation, rewriting and rotation are seen even when no notice of them came.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from data import queries
from data.checkpoints import Checkpoint
from data.errors import ServescopeError, SourceError
from data.store import Store
from ingest import status
from ingest.claims import Claims
from ingest.identity import resume_point, rotated_file
from ingest.pipeline import SourceInfo
from ingest.reading import Append, ContentChangedError, Reading
from ingest.sources.file import LocalFile, newest
from ingest.status import StatusBoard
from ingest.writer import Writer

POLL_S = 1.0
# Lines that come closer together than this share a commit.
PAUSE_S = 0.1
# The lines shown are those near the end; far behind it they would only pass by.
TAIL_WITHIN_BYTES = 16 << 20
SHOWN_BEFORE_BYTES = 256 << 10  # after a restart: what was read before it
RETRY_S = 5.0
_log = logging.getLogger(__name__)


class Follower(threading.Thread):
    """The thread of one source."""

    def __init__(
        self,
        source: SourceInfo,
        location: str,
        store: Store,
        writer: Writer,
        board: StatusBoard,
        claims: Claims,
    ) -> None:
        super().__init__(name=f"follow {location}", daemon=True)
        self.wake = threading.Event()
        self._stopping = threading.Event()
        self._source = source
        self._location = location
        self._store = store
        self._writer = writer
        self._board = board
        self._claims = claims
        self._reading: Reading | None = None
        self._mark: tuple[int, int] | None = None
        self._file: LocalFile | None = None  # claimed

    def stop(self) -> None:
        """Ask the thread to end; what was read is not lost but read again next time."""
        self._stopping.set()
        self.wake.set()

    def run(self) -> None:
        """Poll until stopped. A failure is shown and tried again from the last checkpoint."""
        while not self._stopping.is_set():
            self.wake.clear()
            try:
                self.poll()
            except Exception as error:
                if not self._stopping.is_set():
                    self._fail(error)
            else:
                self._stopping.wait(PAUSE_S)
                self.wake.wait(POLL_S)
        self._close()

    def poll(self) -> None:
        """Look once and read all there is."""
        if self._reading is not None and self._writer.refused(self._reading.file_id):
            self._close()
        if self._reading is None and not self._open():
            return
        reading = self._reading
        assert reading is not None
        try:
            if reading.file.change_mark() != self._mark:
                reading.verify()
                self._read_on(reading)
            self._check_path(reading)
        except ContentChangedError as change:
            self._begin_anew(reading, str(change))

    def _check_path(self, reading: Reading) -> None:
        target = newest(self._location)
        there = reading.file.is_at(target) if target is not None else None
        if there is None:
            self._board.set(state=status.WAITING)
        elif not there and target is not None and _has_content(target):
            self._rotate(reading)
        elif not self._stopping.is_set():
            self._board.set(state=status.FOLLOWING, percent=None, error=None)

    def _open(self) -> bool:
        """Take up the file where it was left; False while there is none."""
        target = newest(self._location)
        if target is None or not target.exists():
            self._board.set(state=status.WAITING)
            return False
        file = LocalFile(target)
        if not self._claim(file):
            self._board.set(state=status.WAITING)
            return False
        # What an earlier generation has queued belongs before the look into the checkpoints.
        self._writer.flush()
        with self._store.cursor() as con:
            point = resume_point(con, file, adopt_copies=False, taken=self._claims.others(file))
            if point.last is not None:
                self._board.set(run_id=queries.latest_run(con, self._source.source_id))
        seq, previous = point.seq, point.previous
        replaced = previous is not None and not previous.finished
        if previous is not None and replaced:
            seq = self._finish_rotated(previous, seq)
        source = replace(self._source, clock_hint=file.changed_at())
        reading = Reading(source, file, point.last, seq)
        if point.last is not None and point.last.path != str(target):
            reading.note("renamed", f"{point.last.path} goes on as {target}")
        elif replaced:
            reading.note("rotated", f"{target} was replaced while it was not followed")
        self._begin(reading)
        return True

    def _claim(self, file: LocalFile) -> bool:
        """Keep other readers off; False while an import reads it, which then is gone on from."""
        other = self._claims.take(file, self._source.source_id)
        if other is None:
            self._file = file
            return True
        file.close()
        if other.source_id is None:
            return False
        raise SourceError(f"{file.path}: is followed already, as {other.source_id}; name it once")

    def _finish_rotated(self, previous: Checkpoint, seq: int) -> int:
        """Read the rest of a file that was rotated away meanwhile; gives the highest seq."""
        old = rotated_file(previous)
        if old is None:
            return seq
        source = replace(self._source, clock_hint=old.changed_at())
        reading = Reading(source, old, previous, seq)
        try:
            self._read_on(reading, final=True)
            if not self._stopping.is_set():
                self._put(reading.finish())
        finally:
            old.close()
        return max(seq, reading.seq)

    def _begin(self, reading: Reading) -> None:
        self._reading, self._mark = reading, None
        self._claims.tell(reading.file, reading.file_id)
        self._board.set(path=str(reading.file.path), lag_bytes=reading.file.size() - reading.offset)
        start = max(0, reading.offset - SHOWN_BEFORE_BYTES)
        before = reading.file.read(start, reading.offset - start)
        if start:
            before = before.partition(b"\n")[2]
        if before:
            self._board.keep(before)

    def _read_on(self, reading: Reading, *, final: bool = False) -> None:
        mark = reading.file.change_mark()
        while not self._stopping.is_set() and (append := reading.step(final=final)) is not None:
            self._put(append)
            behind = reading.file.size() - reading.offset
            if behind <= TAIL_WITHIN_BYTES:
                self._board.keep(append.data)
            else:
                share = 100 * reading.offset / max(1, reading.file.size())
                self._board.set(state=status.CATCHING_UP, percent=round(share, 1))
        self._mark = mark
        self._board.set(unfinished_line=mark[0] > reading.offset)

    def _put(self, append: Append) -> None:
        self._writer.put(append, self._stored(append))

    def _stored(self, append: Append) -> Callable[[], None]:
        size = len(append.data)
        lines = append.data.count(b"\n")
        run_id = _run_of(append)

        def tell() -> None:
            now = self._board.get()
            self._board.set(
                lag_bytes=max(0, (self._size() or 0) - append.checkpoint.byte_offset),
                lines_read=now.lines_read + lines,
                run_id=run_id or now.run_id,
                last_line_at=datetime.now(UTC) if size else now.last_line_at,
            )

        return tell

    def _size(self) -> int | None:
        reading = self._reading
        try:
            return reading.file.size() if reading else None
        except OSError:  # the handle was closed between the look and the question
            return None

    def _rotate(self, reading: Reading) -> None:
        """Another file stands under the path: finish the old one, then begin the new one."""
        self._read_on(reading, final=True)
        if self._stopping.is_set():
            return
        reading.note(
            "rotated", f"{reading.file.path} was replaced; the old file was read to its end"
        )
        self._put(reading.finish())
        self._close()
        self._open()
        self.wake.set()

    def _begin_anew(self, reading: Reading, how: str) -> None:
        """The content is another one: a new generation from byte 0 on the same handle."""
        _log.warning("%s: %s, reading from the start", reading.file.path, how)
        offset = reading.offset
        self._put(reading.finish())
        source = replace(self._source, clock_hint=reading.file.changed_at())
        fresh = Reading(source, reading.file, None, reading.seq)
        fresh.note(
            how, f"{reading.file.path} was {how} after byte {offset}; reading from its start"
        )
        self._begin(fresh)
        self.wake.set()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, ServescopeError | OSError):
            _log.error("%s: %s", self._location, error)
            text = str(error)
        else:
            _log.exception("%s: reading failed", self._location)
            text = f"{self._location}: reading failed ({type(error).__name__}: {error})"
        self._board.set(state=status.ERROR, error=text)
        self._close()
        self._stopping.wait(RETRY_S)

    def _close(self) -> None:
        self._reading = None
        if self._file is not None:
            self._claims.release(self._file)
            self._file.close()
            self._file = None


def _has_content(path: Path) -> bool:
    # An empty newcomer: the server may still be writing to the old file.
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _run_of(append: Append) -> str | None:
    """The run that the last of these records belongs to."""
    for frame in (append.batch.samples, append.batch.run_facts):
        if frame.height:
            return str(frame["run_id"][-1])
    return None
