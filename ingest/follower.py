"""Follows one log, here or on another host: woken by the file system or once a second.

Every wake compares the file with what was read (size, head, last bytes, what the name leads to),
so that truncation, rewriting and rotation are seen even when no notice of them came. What was
rotated away before it was read to its end is read first.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from data.checkpoints import Checkpoint
from data.errors import SourceError
from data.moment import utc_now
from data.store import Store
from ingest import status
from ingest.claims import Claims
from ingest.feed import Feed
from ingest.identity import resume_point, unread_before
from ingest.pace import Pace
from ingest.pipeline import SourceInfo
from ingest.reading import ContentChangedError, Reading
from ingest.sources.log_file import LogFile, Place
from ingest.sources.names import shown
from ingest.status import StatusBoard
from ingest.succession import Succession
from ingest.worker import Worker
from ingest.writer import Writer

POLL_S = 1.0
SHOWN_BEFORE_BYTES = 256 << 10  # after a restart: what was read before it
_log = logging.getLogger(__name__)


class Follower(Worker):
    """The thread of one source of files."""

    def __init__(
        self,
        source: SourceInfo,
        place: Place,
        store: Store,
        writer: Writer,
        board: StatusBoard,
        claims: Claims,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(source, store, writer, board)
        self._pace = pace or Pace()
        self._looked = False  # into new bytes, since the last pause
        self._place = place
        self._claims = claims
        self._feed = Feed(writer, board, self._stopping)
        self._zone_asked = source.zone is not None or not place.remote
        self._reading: Reading | None = None
        self._mark: tuple[int, int] | None = None
        self._seen = datetime.min  # UTC, when the name led to the file being read
        self._news: tuple[str, str] | None = (
            None  # of the reading, to be noted with its first lines
        )

    def stop(self) -> None:
        """Ask the thread to end; what was read is not lost but read again next time."""
        super().stop()
        self._place.close()

    def turn(self) -> None:
        """Look once, and wait for a change."""
        self.poll()
        self._works()
        looked, self._looked = self._looked, False
        self._stopping.wait(self._pace.pause_s(self._source.source_id, news=looked))
        self.wake.wait(POLL_S)

    def poll(self) -> None:
        """Look once and read all there is."""
        if self._reading is not None and self._writer.refused(self._reading.file_id):
            self._let_go()
        if self._first_lines():  # others may have been written and rotated away before them
            self._let_go()
            if not self._open(self._news):
                return
        if self._reading is None and not self._open():
            return
        reading = self._reading
        assert reading is not None
        reading.seen(self._seen)
        try:
            if reading.file.change_mark() != self._mark:
                self._looked = True
                reading.verify()
                self._mark = self._feed.read_on(reading)
            self._check_path(reading)
        except ContentChangedError as change:
            _log.warning("%s: %s, reading from the start", reading.file.name, change)
            self._let_go()
            text = f"{reading.named} was {change}; reading from its start"
            self._open((str(change), text))
            self.wake.set()

    def _first_lines(self) -> bool:
        """Whether a file that had no whole line at the last look has changed."""
        reading = self._reading
        if reading is None or reading.offset or self._mark is None:
            return False
        return reading.file.change_mark() != self._mark and reading.file.size() > 0

    def _check_path(self, reading: Reading) -> None:
        now = utc_now()
        target = self._place.newest()
        there = reading.file.is_at(target) if target is not None else None
        if there is None:
            self._board.set(state=status.WAITING)
        elif not there and target is not None and self._place.size_of(target):
            # An empty newcomer is waited for: the server may still be writing to the old file.
            self._rotate(reading)
        elif not self._stopping.is_set():
            self._seen = now if there else self._seen
            self._board.set(state=status.FOLLOWING, percent=None, error=None, retry_at=None)

    def _open(self, news: tuple[str, str] | None = None) -> bool:
        """Take up the file where it was left; False while there is none.

        `news`: what happened to the file before, as kind and detail of a note.
        """
        self._greet()
        self._seen = utc_now()
        target = self._place.newest()
        if target is None or self._place.size_of(target) is None:
            self._board.set(state=status.WAITING, error=None, retry_at=None)
            return False
        file = self._place.open(target)
        if not self._claim(file):
            self._board.set(state=status.WAITING)
            return False
        try:
            self._take_up(file, target, news)
        except BaseException:
            if self._reading is None:
                self._release(file)
            raise
        return True

    def _take_up(self, file: LogFile, target: str, news: tuple[str, str] | None) -> None:
        # What an earlier generation has queued belongs before the look into the checkpoints.
        self._writer.flush()
        with self._store.cursor() as con:
            point = resume_point(
                con, file, self._place, adopt_copies=False, taken=self._claims.others(file),
                source_id=self._source.source_id,
            )  # fmt: skip
        chain, last = Succession(self._feed.put, point.seq), point.of_source
        known = point.last is not None and last is not None and point.last.file_id == last.file_id
        if last is not None and not known:
            self._finish_before(file, target, last, point.read_at, chain)
        before = chain.next(file.name, fresh=point.last is None)
        self._writer.flush()
        reading = Reading(self._hinted(file), file, point.last, chain.seq, before=before)
        if reading.run_id is not None:
            self._board.set(run_id=reading.run_id)
        self._news = news
        if news is not None:
            reading.note(*news)
        elif point.last is not None and point.last.path != file.name:
            reading.note("renamed", f"{point.last.path} goes on as {file.name}")
        elif last is not None and not known:
            reading.note("rotated", f"{file.name} was replaced while it was not followed")
        self._begin(reading)

    def _finish_before(
        self, file: LogFile, target: str, last: Checkpoint, read_at: datetime, chain: Succession
    ) -> None:
        """Read what came between `last`, when the source was read last, and this file."""
        chain.seq = max(chain.seq, last.seq)
        there, earlier = unread_before(self._place, target, last, read_at)
        if not there:  # what was left of it is gone
            gone = last if last.finished else Reading(self._source, file, last, chain.seq)
            if isinstance(gone, Reading):
                gone.named = last.path
                # A kill now must not hide what came after it.
                gone.seen(read_at.replace(tzinfo=None))
            chain.ended(last.path, gone)
        for name in earlier:
            self._read_whole(name, target, chain)

    def _read_whole(self, name: str, target: str, chain: Succession) -> None:
        """Read a file to its end that nothing is written to any more."""
        with closing(self._place.open(name)) as file:
            # A rotated log is read on under the name it had.
            own = self._place.source_id
            named = own if own == shown(target) else file.name
            if self._claims.take(file, self._source.source_id) is not None:
                return
            try:
                self._writer.flush()
                with self._store.cursor() as con:
                    taken = self._claims.others(file)
                    point = resume_point(con, file, self._place, adopt_copies=True, taken=taken)
                last = point.last
                before = chain.next(named, fresh=last is None)
                if last is not None and last.finished and not file.reaches(last.byte_offset + 1):
                    chain.ended(named, last)
                    return
                seq = max(chain.seq, point.seq)
                reading = Reading(self._hinted(file), file, last, seq, before=before)
                reading.named = named
                reading.seen(self._seen)
                self._claims.tell(file, reading.file_id)
                self._feed.read_on(reading, final=True)
                if not self._stopping.is_set():
                    chain.ended(named, reading)
            finally:
                self._claims.release(file)

    def _greet(self) -> None:
        """Ask another host once which zone its clock is in."""
        if not self._place.remote:
            return
        if self._board.get().state not in (status.FOLLOWING, status.CATCHING_UP):
            self._board.set(state=status.CONNECTING, retry_at=None)
        if not self._zone_asked:
            zone = self._place.zone()
            self._zone_asked = True
            if zone is not None:
                self._source = replace(self._source, zone=zone)
                self._store.add_source(
                    self._source.source_id, self._place.kind, self._source.source_id,
                    self._source.label, zone,
                )  # fmt: skip

    def _claim(self, file: LogFile) -> bool:
        """Keep other readers off; False while an import reads it, which then is gone on from."""
        other = self._claims.take(file, self._source.source_id)
        if other is None:
            return True
        file.close()
        if other.source_id is None:
            return False
        raise SourceError(f"{file.name}: is followed already, as {other.source_id}; name it once")

    def _hinted(self, file: LogFile) -> SourceInfo:
        return replace(self._source, clock_hint=file.changed_at())

    def _begin(self, reading: Reading) -> None:
        self._reading, self._mark = reading, None
        if (away := self._away()) is not None:
            reading.note("reconnected", away)
        self._claims.tell(reading.file, reading.file_id)
        self._board.set(path=reading.file.name)
        if reading.offset and not self._place.remote and self._board.get().last_line_at is None:
            # After a restart: of a server that says nothing, nobody could tell for how long.
            self._board.set(last_line_at=reading.file.changed_at().replace(tzinfo=UTC))
        self._board.behind(max(0, reading.file.size() - reading.offset))
        start = max(0, reading.offset - SHOWN_BEFORE_BYTES)
        before = reading.file.read(start, reading.offset - start)
        if start:
            before = before.partition(b"\n")[2]
        if before:
            self._board.keep(before, reading.file_id, reading.line_no)

    def _rotate(self, reading: Reading) -> None:
        """Another file stands under the path: finish the old one, then begin the new one."""
        self._feed.read_on(reading, final=True)
        if self._stopping.is_set():
            return
        self._let_go()
        self._open(("rotated", f"{reading.named} was replaced; the old file was read to its end"))
        self.wake.set()

    def _let_go(self) -> bool:
        reading, self._reading = self._reading, None
        if reading is None:
            return False
        self._release(reading.file)
        return True

    def _release(self, file: LogFile) -> None:
        self._claims.release(file)
        file.close()
