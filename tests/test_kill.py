"""A follower killed with SIGKILL at random moments stores every line exactly once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.kill import FOLLOW, kill_often


@pytest.mark.timeout(300)
def test_killed_follower_stores_each_line_once(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    outcome = kill_often(FOLLOW, tmp_path, kills=47, seed=seed)
    print(outcome)
    assert outcome.written > 0
    assert outcome.exact, outcome
    # Else no kill came while it was at work, and the test would show nothing.
    assert outcome.resumed_in_the_middle >= 10, outcome
