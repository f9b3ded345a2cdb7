"""What every test stands on: a home of its own, and properties without a stop-watch.

Tests that only compute run beside each other on all cores. Those that start servers or wait for
clocks run alone after them: they are told by what their modules import.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import hypothesis
import pytest

# Other work on the machine must not turn a property red; CI draws the same examples each time.
hypothesis.settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("project")


_WAITS = re.compile(
    r"^(?:from tests(?:\.| import .*)(?:server|sshd|kill|stand_ins)"
    r"|from tests\.growing import .*\buntil\b"
    r"|from (?:playwright|ingest\.supervisor|ingest\.sources\.ssh)"
    r"|import (?:time|threading)\b)",
    re.MULTILINE,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that run alone."""
    waits: dict[Path, bool] = {}
    for item in items:
        if item.path not in waits:
            waits[item.path] = bool(_WAITS.search(item.path.read_text(encoding="utf-8")))
        if waits[item.path]:
            item.add_marker("alone")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the store and the settings of whoever runs it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SERVESCOPE_STORE", raising=False)
    return home
