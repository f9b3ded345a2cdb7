"""A process killed with SIGKILL at random moments stores every line exactly once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kill import FOLLOW, UP, kill_often


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("command", "kills", "longest_s", "at_work"),
    [(FOLLOW, 47, 1.2, 10), (UP, 3, 6.0, 1)],
    ids=["follower", "up"],
)
def test_each_line_is_stored_once(
    tmp_path: Path, command: Sequence[str], kills: int, longest_s: float, at_work: int
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    outcome = kill_often(command, tmp_path, kills, seed, longest_s)
    print(outcome)
    assert outcome.exact, outcome
    # Else no kill came while it was at work, and the test would show nothing.
    assert outcome.resumed_in_the_middle >= at_work, outcome
