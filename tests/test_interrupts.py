"""A signal that comes while DuckDB works ends a command as it does at any other moment."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from data import store
from ingest.at_port import opened
from ingest.collecting import collect
from ingest.control import connect

_LONG = "SELECT count(*)::VARCHAR, NULL FROM range(10000000) a, range(10000000) b WHERE a < b"


@pytest.fixture(autouse=True)
def told_in_the_midst(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first question to a store has no end, and we are told to end meanwhile."""
    monkeypatch.setattr(store, "_KNOWN", _LONG)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.join()
    signal.signal(signal.SIGINT, before)


def test_a_command_ends(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), connect(str(tmp_path / "s.duckdb"), brings=True):
        pass


def test_a_collector_ends(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        collect(str(tmp_path / "s.duckdb"), [])


def test_a_dashboard_ends(tmp_path: Path) -> None:
    place = str(tmp_path / "s.duckdb"), 0, "127.0.0.1", lambda over, sockets: None
    with pytest.raises(KeyboardInterrupt), opened(*place):
        pass
