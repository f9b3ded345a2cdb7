"""Small programs named docker, kubectl and journalctl, for tests.

The real ones need a daemon, a cluster and systemd. These print what is in a file, in the same
form and with the same options as the real ones take, and say in a second file how they were called.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

_PROGRAM = r"""#!{python}
import json, os, re, sys, time
folder = os.path.dirname(os.path.abspath(__file__))
name = os.path.basename(__file__)
with open(os.path.join(folder, "calls"), "a") as calls:
    calls.write(json.dumps([name, *sys.argv[1:]]) + "\n")
options = dict(a.lstrip("-").partition("=")[::2] for a in sys.argv[1:] if a.startswith("-"))
if name == "kubectl" and "previous" in options:
    path = os.path.join(folder, "previous")
else:
    path = os.path.join(folder, "printed")
if not os.path.exists(path):
    print("Error response from daemon: No such container: " + sys.argv[-1], file=sys.stderr)
    sys.exit(1)
def wanted(line):
    if name == "journalctl":
        cursor = options.get("after-cursor")
        return cursor is None or json.loads(line)["__CURSOR"] > cursor
    since = options.get("since") or options.get("since-time")
    def key(stamp):
        stamp = stamp.rstrip("Z")
        return stamp.ljust(29, "0") if "." in stamp else stamp + ".000000000"
    return since is None or key(line.split(" ", 1)[0]) >= key(since)
done = 0
while True:
    with open(path) as file:
        file.seek(done)
        for line in iter(file.readline, ""):
            if not line.endswith("\n"):
                break
            done += len(line)
            if wanted(line):
                sys.stdout.write(line)
    sys.stdout.flush()
    if "follow" not in options or os.path.exists(os.path.join(folder, "over")):
        sys.exit(0)
    time.sleep(0.02)
"""


class StandIn:
    """One of them, in a folder of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.program = folder / name
        self.program.write_text(_PROGRAM.replace("{python}", sys.executable))
        self.program.chmod(0o755)
        self._count = 0

    def path(self) -> str:
        """A search path on which this program comes first."""
        return f"{self.folder}:{os.environ['PATH']}"

    def calls(self) -> list[list[str]]:
        """How it was called."""
        text = (self.folder / "calls").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def prints(self, lines: bytes, *, step_ns: int = 300_000_000, previous: bool = False) -> None:
        """Have it print more lines, so far apart from each other, with stamps before them."""
        start = datetime(2026, 3, 1, 12, 0, 0)
        with (self.folder / ("previous" if previous else "printed")).open("a") as file:
            for line in lines.decode().splitlines():
                ns = self._count * step_ns
                self._count += 1
                then = start + timedelta(seconds=ns // 1_000_000_000)
                if self.program.name == "journalctl":
                    record = {
                        "__CURSOR": f"s=1;i={self._count:08x}",
                        "__REALTIME_TIMESTAMP": str(1_772_366_400_000_000 + ns // 1000),
                        "MESSAGE": line,
                    }
                    file.write(json.dumps(record) + "\n")
                else:
                    file.write(f"{then:%Y-%m-%dT%H:%M:%S}.{ns % 1_000_000_000:09}Z {line}\n")

    def ends(self) -> None:
        """Have it end, as when the container stops."""
        (self.folder / "over").touch()
