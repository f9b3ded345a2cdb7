"""The long test of a fleet: `python -m tests.soak.fleet [MINUTES] [HOSTS] [DASHBOARDS] [SEED]`.

Ten minutes, 8 collectors and 2 dashboards by default; one or the other of them, or PostgreSQL, is
killed every second or so. The exit code is 1 unless each line was stored exactly once, no
dashboard showed one twice, and all were right within 3 s of a recovery.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from tests.fleet import Fleet

WITHIN_S = 3.0


def main() -> int:
    """Run it and print the result."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    hosts = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    dashboards = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 32)
    with tempfile.TemporaryDirectory(prefix="servescope-fleet-") as folder:
        fleet = Fleet(Path(folder), hosts, dashboards, seed)
        try:
            fleet.fire(60 * minutes)
        finally:
            outcome = fleet.end()
    late = sum(seconds > WITHIN_S for seconds in outcome.behind_s)
    behind = sorted(outcome.behind_s)
    print(outcome)
    print(
        f"{minutes:g} minutes, {hosts} collectors, {dashboards} dashboards, seed {seed}: "
        f"{outcome.written} lines written, {outcome.stored} stored, {outcome.missing} missing, "
        f"{outcome.repeated} repeated; kills: {outcome.kills}; dashboards right after "
        f"{behind[len(behind) // 2]:.1f} s in the median, {behind[-1]:.1f} s at most, "
        f"{late} of {len(behind)} times after more than {WITHIN_S:g} s"
    )
    return 0 if outcome.exact and not late else 1


if __name__ == "__main__":
    sys.exit(main())
