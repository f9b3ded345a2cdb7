"""Any order of writes, turns, copies, losses, kills and restarts over one SFTP session: what is
stored is what was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.sources import ssh, ssh_place
from ingest.sources.address import HostAddress
from tests.sshd import serving
from tests.tail_model import first_seed, wrong

SEQUENCES, PART = 300, 50
pytestmark = pytest.mark.beside  # minutes, and no clock in it


class Kept(ssh.Connection):
    """One session for all places: logging in anew would take longer than all else."""

    def end(self) -> None:
        """It stays."""


@pytest.mark.timeout(600)
def test_what_is_stored_is_what_was_written(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other sequences each time; the message of a failure names the seed."""
    first = first_seed(0)
    with serving(tmp_path / "sshd", own_home) as host:
        kept = Kept(HostAddress.parse(host.url("/").removeprefix("ssh://").rstrip("/")))
        monkeypatch.setattr(ssh_place, "Connection", lambda address: kept)
        bad = [
            text
            for start in range(first, first + SEQUENCES, PART)
            for text in wrong(
                range(start, start + PART), tmp_path, host.url("") + "{log}", threads=1
            )
        ]
        kept.close()
    assert bad == []
