"""The long kill test: `python -m tests.soak.kill [KILLS] [SEED]`, a thousand kills by default.

Prints one line a hundred kills and the result; the exit code is 1 unless each line was stored
exactly once. With a seed the same moments are drawn again.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from tests.kill import FOLLOW, Outcome, kill_often

PART = 100


def main() -> int:
    """Run the kills in parts, each over a log and a store of its own."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    outcomes: list[Outcome] = []
    for first in range(0, kills, PART):
        with tempfile.TemporaryDirectory(prefix="servescope-soak-") as folder:
            part = min(PART, kills - first)
            outcomes.append(kill_often(FOLLOW, Path(folder), part, seed + first))
        print(outcomes[-1], flush=True)
    exact = all(outcome.exact for outcome in outcomes)
    print(
        f"{kills} kills, seed {seed}: {sum(o.written for o in outcomes)} lines written, "
        f"{sum(o.stored for o in outcomes)} stored, {sum(o.missing for o in outcomes)} missing, "
        f"{sum(o.repeated for o in outcomes)} repeated: {'exact' if exact else 'NOT EXACT'}"
    )
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
