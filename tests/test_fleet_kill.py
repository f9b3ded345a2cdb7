"""Three collectors and a dashboard of one store, killed at random for two minutes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fleet import Fleet

SECONDS = 120.0


@pytest.mark.beside
@pytest.mark.timeout(1800)
def test_each_line_is_stored_once_whatever_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    fleet = Fleet(tmp_path, hosts=3, dashboards=1, seed=seed)
    try:
        fleet.fire(SECONDS)
    finally:
        outcome = fleet.end()
    print(outcome)
    assert outcome.exact, outcome
    # Of each, however slow the machine is.
    assert min(outcome.kills[victim] for victim in ("collector", "dashboard", "postgres")) > 0
    assert outcome.looks > 0
