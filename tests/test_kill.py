"""A process killed with SIGKILL at random moments stores every line exactly once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kill import FOLLOW, UP, kill_often


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("command", "kills", "longest_s"),
    [(FOLLOW, 47, 0.9), (UP, 3, 2.0)],
    ids=["follower", "up"],
)
def test_each_line_is_stored_once(
    tmp_path: Path, command: Sequence[str], kills: int, longest_s: float
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    outcome = kill_often(command, tmp_path, kills, seed, longest_s)
    print(outcome)
    assert outcome.exact, outcome
