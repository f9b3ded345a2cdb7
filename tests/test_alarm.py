"""A change in a folder wakes those who follow the file that changed, and nobody else."""

from __future__ import annotations

import threading

from watchdog.events import FileModifiedEvent, FileMovedEvent

from ingest.supervisor import _Alarm


def test_only_the_followers_of_a_file_are_woken() -> None:
    alarm = _Alarm()
    one, other, every = (threading.Event() for _ in range(3))
    alarm.wakes = {"a.log": [one], "b.log": [other], None: [every]}

    def woken() -> tuple[bool, bool, bool]:
        states = (one.is_set(), other.is_set(), every.is_set())
        for event in (one, other, every):
            event.clear()
        return states

    alarm.on_any_event(FileModifiedEvent("/logs/a.log"))
    assert woken() == (True, False, True)
    alarm.on_any_event(FileMovedEvent("/logs/b.log", "/logs/b.log.1"))
    assert woken() == (False, True, True)
    alarm.on_any_event(FileMovedEvent("/logs/fresh", "/logs/a.log"))
    assert woken() == (True, False, True)
    alarm.on_any_event(FileModifiedEvent("/logs/c.log"))
    assert woken() == (False, False, True)
