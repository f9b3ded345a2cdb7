"""The long test of a fleet: `python -m tests.soak.fleet [MINUTES] [HOSTS] [DASHBOARDS] [SEED]`.

Ten minutes, 8 collectors and 2 dashboards by default; one or the other of them, or PostgreSQL, is
killed every second or so. The exit code is 1 unless each line was stored exactly once, no
dashboard showed one twice, and all were right within 3 s of a recovery: of the moment when a
dashboard's health answers, PostgreSQL takes connections, or a collector has committed again. How
long processes take to start is told beside it.
"""

from __future__ import annotations

import faulthandler
import os
import random
import sys
import tempfile
import threading
from pathlib import Path

from tests.fleet import Fleet

WITHIN_S = 3.0
END_S = 600.0  # for all to be read and shown after the last kill


def main() -> int:
    """Run it and print the result."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    hosts = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    dashboards = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 32)
    with tempfile.TemporaryDirectory(prefix="servescope-fleet-") as folder:
        fleet = Fleet(Path(folder), hosts, dashboards, seed)
        give_up = threading.Timer(60 * minutes + END_S, _give_up, [fleet])
        give_up.daemon = True
        give_up.start()
        try:
            fleet.fire(60 * minutes)
        finally:
            outcome = fleet.end()
            give_up.cancel()
    print(
        f"{minutes:g} minutes, {hosts} collectors, {dashboards} dashboards, seed {seed}, load "
        f"{os.getloadavg()[1]:.0f}: {outcome.written} lines written, {outcome.stored} stored, "
        f"{outcome.missing} missing, {outcome.repeated} repeated, {outcome.runs} runs; "
        f"{outcome.looks} answers of dashboards, {outcome.doubled_looks} with a line twice; "
        f"{outcome.stood_s:.0f} s in which the machine let nothing of it run; "
        f"kills: {outcome.kills}; deadlines that passed: {outcome.failed or 'none'}"
    )
    late = 0
    for what, seconds in outcome.back_s.items():
        print(f"{what}: back {_spread(seconds)} after its kill")
    for what, seconds in outcome.behind_s.items():
        too_late = sum(one > WITHIN_S for one in seconds)
        late += too_late
        print(
            f"{what}: dashboards right {_spread(seconds)} after it was back; "
            f"{too_late} of {len(seconds)} times after more than {WITHIN_S:g} s"
        )
    return 0 if outcome.exact and not late else 1


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.1f} s (median), {ordered[-1]:.1f} s (most)"


def _give_up(fleet: Fleet) -> None:
    """It must end, whatever hangs: say where, and leave nothing behind."""
    faulthandler.dump_traceback()
    print("the run did not end in time", flush=True)
    fleet.abandon()
    os._exit(2)


if __name__ == "__main__":
    sys.exit(main())
