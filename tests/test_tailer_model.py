"""Any order of writes, turns, copies, losses, kills and restarts: what is stored is what was
written, here and over SFTP. Thousands of sequences: `make soak`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from data.store import Store
from ingest.sources import ssh, ssh_file
from ingest.sources.address import HostAddress
from tests.sshd import serving
from tests.tail_model import wrong

LOCAL, REMOTE = 24, 8


@pytest.fixture
def seeds() -> list[int]:
    """Others each time; the message of a failure names the one that failed."""
    first = random.SystemRandom().randrange(1 << 30)
    return list(range(first, first + LOCAL))


def test_what_is_stored_is_what_was_written(tmp_path: Path, seeds: list[int]) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        assert [text for seed in seeds if (text := wrong(seed, tmp_path, store))] == []


class Kept(ssh.Connection):
    """One session for all places: logging in anew would take longer than all else."""

    def end(self) -> None:
        """It stays."""


def test_the_same_over_sftp(
    tmp_path: Path, own_home: Path, seeds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        serving(tmp_path / "sshd", own_home) as host,
        Store.open(tmp_path / "s.duckdb") as store,
    ):
        kept = Kept(HostAddress.parse(host.url("/").removeprefix("ssh://").rstrip("/")))
        monkeypatch.setattr(ssh_file, "Connection", lambda address: kept)
        location = host.url("") + "{log}"
        bad = [wrong(seed, tmp_path, store, location) for seed in seeds[:REMOTE]]
        kept.close()
    assert [text for text in bad if text] == []
